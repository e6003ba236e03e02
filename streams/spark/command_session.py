"""The session of Spark that a command runs in."""

from __future__ import annotations

import re

from pyspark import SparkConf
from pyspark.sql import SparkSession

from streams.spark.session import check_version, local_session

_LOCAL = re.compile(r"local(?:\[(.+)\])?")


def command_session(master: str | None) -> SparkSession:
    """Returns a session on a master.

    :param master: as Spark writes it; ``None`` for that of ``spark-submit``, or this process if that did not start it.
    """
    if master is None and SparkConf().contains("spark.master"):
        found = SparkSession.builder.getOrCreate()
        check_version(found)
        return found
    local = _LOCAL.fullmatch(master or "local[*]")
    if local is not None:
        return local_session(local[1] or "1", settings={"spark.log.level": "ERROR"})
    found = SparkSession.builder.master(str(master)).appName("streams").getOrCreate()
    check_version(found)
    return found
