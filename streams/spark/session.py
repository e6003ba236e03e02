"""Sessions of Spark: checks that one can serve the bridge, local sessions, and those of commands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pyspark
from pyspark import SparkConf
from pyspark.sql import SparkSession

from processor_api.texts import repr_of
from streams.spark.errors import SparkVersionError, WorkerEnvironmentError
from streams.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


LEAST_VERSION = (4, 1)
PACKAGES = ("confluent-kafka", "rocksdict", "pyarrow")
"""The packages whose versions have to be the same on the driver and on the executors, besides Spark and this one.

These two say it themselves: a zip that is shipped, and the Python that comes with a Spark, are not installed."""
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\][^\n]*")

_DRIVER = ("the driver", "before the session is made")
_CONNECT = ("this client of Spark Connect", "where the server of Spark Connect is started")
"""The process that has the versions of the executors, and the time at which their Python is chosen."""

_checked: WeakSet[SparkSession] = WeakSet()


def check_version(spark: SparkSession) -> None:
    """Makes sure that the session's Spark, also one on a server, is a version that the bridge works with.

    :raises SparkVersionError: if it is older than 4.1.
    """
    found = re.match(r"(\d+)\.(\d+)", spark.version)
    if found is None or (int(found[1]), int(found[2])) < LEAST_VERSION:
        raise SparkVersionError(
            f"Spark {spark.version} is too old: the bridge needs 4.1 or later, for repartitionById and data sources"
            " in Arrow batches; pip install 'pyspark>=4.1', and update the cluster"
        )


def is_connect(spark: SparkSession) -> bool:
    """Returns whether a session is one of Spark Connect, whose driver is in another process."""
    # Its class can be imported only with packages that Spark Connect needs, which may be missing.
    return any(one.__module__.startswith("pyspark.sql.connect.") for one in type(spark).__mro__)


def check_python_here(spark: SparkSession) -> None:
    """Makes sure that the Python of the executors is also where the driver runs, which plans data sources with it.

    :raises WorkerEnvironmentError: if it is not, as that of an archive which only executors unpack.
    """
    if not is_connect(spark):
        _check_python(spark.sparkContext.pythonExec)


def _check_python(python: str) -> None:
    if os.path.dirname(python) and not os.path.exists(python):
        raise WorkerEnvironmentError(
            f"PYSPARK_PYTHON is {repr_of(python)}, and the driver has no such file in {repr_of(os.getcwd())}: Spark"
            " runs it here too, to plan what tables and topics are read. Unpack the executors' archive in this folder,"
            " by the same name, or run the driver on the cluster (--deploy-mode cluster)"
        )


def check_workers(spark: SparkSession) -> None:
    """Makes sure that the executors run the same Python and packages as the driver, by one small job for each session.

    Over Spark Connect that is this process, which may have another version of Spark than the server.

    :raises WorkerEnvironmentError: naming the package, and what to set.
    """
    if spark in _checked:
        return
    from pyspark.errors import PySparkException

    here = _versions()
    remote = is_connect(spark)
    driver, remedy = _CONNECT if remote else _DRIVER
    schema = "name string, version string, python string"
    try:
        rows = spark.range(0, 4, 1, 4).mapInArrow(_report_versions, schema).distinct().collect()
    except PySparkException as error:
        reason = _reason(str(error))
        if reason is None:
            raise
        raise WorkerEnvironmentError(
            f"{reason}; {driver} runs {sys.executable}. Set PYSPARK_PYTHON (or spark.pyspark.python) to a Python of"
            f" the executors that has streams-for-kafka[spark], {remedy}"
        ) from error
    for row in rows:
        if here.get(row["name"]) != row["version"] and not (remote and row["name"] == "pyspark"):
            raise WorkerEnvironmentError(
                f"the executors' Python, {row['python']}, has {row['name']} {row['version']}, and {driver}, which runs"
                f" {sys.executable}, has {here.get(row['name'])}: install the same version on both, or set"
                f" PYSPARK_PYTHON to the right Python, {remedy}"
            )
    _checked.add(spark)


def _reason(text: str) -> str | None:
    """Returns what a failed job says about the executors' environment, if that is why it failed."""
    if missing := _MISSING.search(text):
        return f"the executors' Python has no module {missing[1]!r}"
    if other := _OTHER_PYTHON.search(text):
        return f"the executors run another Python: {other[0].removeprefix('PYTHON_VERSION_MISMATCH] ')}"
    return None


def _versions() -> dict[str, str]:
    found = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    found |= {"streams-for-kafka": __version__, "pyspark": pyspark.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def _report_versions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on the executors. The imports show that the packages work there, not only that they are listed."""
    import pyarrow as pa

    import streams.kafka.confluent.clients  # noqa: F401

    for _ in batches:
        pass
    found = _versions()
    names = list(found)
    columns = {"name": names, "version": [found[name] for name in names], "python": [sys.executable] * len(names)}
    yield pa.RecordBatch.from_pydict(columns, pa.schema([(name, pa.string()) for name in columns]))


def local_session(
    cores: int | str = "*", *, name: str = "streams", settings: Mapping[str, Any] | None = None
) -> SparkSession:
    """Returns a session in this process: on the loopback address, in UTC, with workers of this Python.

    Sets the environment variable ``PYSPARK_PYTHON`` to this Python if it is not set: Spark reads no other setting for
    workers of a session that Python starts. If there is a session already, that one is returned as it is.

    :param cores: how many tasks run at a time, ``"*"`` for one a core; also Spark's ``"2,3"``: two, with three tries.
    :param settings: Spark's settings, over those made here.
    :raises SparkVersionError: if the Spark installed is too old, or Java is missing.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    if (there := SparkSession.getActiveSession()) is not None:
        check_version(there)
        return there
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    defaults = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in {**defaults, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise SparkVersionError(
            "Spark cannot start Java: install a JDK, 17 or later, and put java on the PATH or set JAVA_HOME; its own"
            " words are above"
        ) from error
    check_version(spark)
    return spark


_LOCAL = re.compile(r"local(?:\[(.+)\])?")


def command_session(master: str | None) -> SparkSession:
    """Returns a session on a master.

    :param master: as Spark writes it, or the address of a server of Spark Connect (``sc://...``); ``None`` for that
        of ``spark-submit``, or this process if that did not start it.
    """
    if master is None and SparkConf().contains("spark.master"):
        found = SparkSession.builder.getOrCreate()
        check_version(found)
        return found
    local = _LOCAL.fullmatch(master or "local[*]")
    if local is not None:
        return local_session(local[1] or "1", settings={"spark.log.level": "ERROR"})
    builder, wanted = SparkSession.builder, str(master)
    builder = builder.remote(wanted) if wanted.startswith("sc://") else builder.master(wanted)
    found = builder.appName("streams").getOrCreate()
    check_version(found)
    return found
