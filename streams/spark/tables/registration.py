"""Makes the data sources known to a session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from streams.spark.session import check_python_here, check_version, check_workers
from streams.spark.sources.table_source import TableSource
from streams.spark.sources.topic_source import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_registered: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession, *, check: bool = True) -> None:
    """Makes the formats ``streams_topic`` and ``streams_table`` known to a session, for ``spark.read`` and SQL.

    A second call does nothing.

    :param check: also makes sure that the executors have the packages of the driver, by one small job.
    :raises SparkVersionError: if the session's Spark is too old.
    :raises WorkerEnvironmentError: if the executors lack a package, or have another version of it, or their Python
        is not where the driver runs.
    """
    check_version(spark)
    if check:
        check_python_here(spark)
        check_workers(spark)
    if spark in _registered:
        return
    for source in (TopicSource, TableSource):
        spark.dataSource.register(source)
    _registered.add(spark)
