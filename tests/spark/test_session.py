"""Sessions: the checks before work begins, the progress of jobs, and the error without the extra."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from streams.spark import SparkVersionError, WorkerEnvironmentError, local_session, register
from streams.spark.backfill.progress import progress_of
from streams.spark.session import _check_python, _reason, check_python_here, check_version, check_workers, is_connect


class Old:
    version = "4.0.1"


def test_an_older_spark_is_refused() -> None:
    old: Any = Old()
    with pytest.raises(SparkVersionError, match=r"Spark 4\.0\.1 is too old: .*4\.1 or later"):
        check_version(old)


def test_a_session_of_spark_connect_is_known_by_its_class(spark: Any) -> None:
    """Also if it is a subclass; the real class cannot be imported without the packages of Spark Connect."""
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    own = type("Own", (connect,), {})
    assert [is_connect(one) for one in (connect(), own(), spark)] == [True, True, False]


def test_registering_twice_changes_nothing(spark: Any) -> None:
    register(spark)
    register(spark)
    check_workers(spark)


def test_a_python_that_only_executors_have_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of an archive: Spark runs it on the driver to plan a table, and failed with an IOException of Java."""
    check_python_here(spark)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkerEnvironmentError, match=r"'\./environment/bin/python', and the driver .*Unpack"):
        _check_python("./environment/bin/python")
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "python").symlink_to(sys.executable)
    _check_python("./environment/bin/python")
    _check_python("python3")  # found on the search path, of each machine


def test_times_are_in_utc_and_workers_run_this_python(spark: Any) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    found = spark.range(1).mapInArrow(executable, "python string").collect()
    assert {row["python"] for row in found} == {sys.executable}


def test_a_session_that_is_there_stays_as_it_is(spark: Any) -> None:
    """Its settings were replaced by those of the second call."""
    assert local_session(1, settings={"spark.sql.session.timeZone": "Asia/Tokyo"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def executable(batches: Any) -> Any:
    import pyarrow as pa

    list(batches)
    yield pa.RecordBatch.from_pydict({"python": [sys.executable]})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("...\nModuleNotFoundError: No module named 'pyarrow'\n", "the executors' Python has no module 'pyarrow'"),
        ("[PYTHON_VERSION_MISMATCH] Has 3.9\n...", "the executors run another Python: Has 3.9"),
        ("ZeroDivisionError: division by zero", None),
    ],
)
def test_a_failed_check_is_explained_by_what_the_worker_said(text: str, reason: str | None) -> None:
    assert _reason(text) == reason


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_without_the_extra_the_error_says_what_to_install() -> None:
    found = run("""
        import sys
        sys.modules["pyspark"] = None
        import streams.spark
        from streams.spark import SparkBridgeError
        try:
            from streams.spark import register
        except ImportError as error:
            print(error)
    """)
    assert "needs pyspark" in found.stdout
    assert "pip install 'streams-for-kafka[spark]'" in found.stdout


def test_nothing_of_spark_is_loaded_by_the_errors_or_the_facade() -> None:
    found = run("""
        import sys
        import streams
        import streams.spark
        streams.StreamsBuilder, streams.spark.SparkBridgeError
        print([name for name in ("pyspark", "pandas", "pyarrow") if name in sys.modules])
    """)
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.slow
def test_workers_of_another_python_are_refused() -> None:
    """A Python without the packages failed in the middle of a job, with a traceback of its own."""
    found = run(
        """
        from streams.spark import WorkerEnvironmentError, local_session, register
        spark = local_session(1)
        try:
            register(spark)
        except WorkerEnvironmentError as error:
            print(error)
        spark.stop()
        """,
        PYSPARK_PYTHON="/usr/bin/python3",
    )
    assert "Set PYSPARK_PYTHON" in found.stdout, found.stdout + found.stderr[-2000:]
    assert "Traceback" not in found.stdout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_only(spark: Any) -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        with progress_of(spark, "stage 0", 2, stream):
            assert spark.range(8, numPartitions=2).count() == 8
    assert terminal.getvalue().endswith(f"\rstage 0 [{'#' * 30}] 2 of 2 tasks\n")
    assert file.getvalue() == ""


def test_progress_is_logged_where_there_is_no_terminal(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A backfill of hours under a scheduler said nothing before it was over."""
    with caplog.at_level(logging.INFO, "streams.spark"), progress_of(spark, "stage 0", 2, io.StringIO(), log_s=0.01):
        deadline = time.monotonic() + 60
        while "stage 0 goes on" not in caplog.text and time.monotonic() < deadline:
            assert spark.range(8, numPartitions=2).count() == 8
    lines = [one.getMessage() for one in caplog.records]
    assert lines[0] == "backfill: stage 0 begins"
    assert "backfill: stage 0 goes on" in lines
    assert lines[-1] == "backfill: stage 0 is over"
