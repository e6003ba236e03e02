import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
LONG = frozenset({"app", "integration", "packaging", "simulation"})
"""Folders of files with few tests that take long, most of which wait for brokers and processes."""
TOGETHER = ("spark", "tests/architecture/")
"""Parts of names: files that have one in common run in the same process."""
FEW = 3
"""A file with no more tests is one of long ones too, such as those that compare a store with a model of it."""

# A busy machine must not fail a property test for being slow. The same code draws the same examples, so that a run is
# no lottery for the one who changed something else; `make properties` draws others, and 100 of a test that does not say
# how many.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("drawn", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 6 << 30
GARBAGE = 50_000
"""Objects that are made between two searches for garbage; Python's own 700 cost a twentieth of a run."""


def use_memory_for_temporary_files() -> None:
    """Puts temporary folders in memory where there is enough of it: opening a store on a disk waits for the disk
    several times, and takes twice the processor time.

    ``TMPDIR`` from outside is kept."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH_BYTES:
        os.environ["TMPDIR"] = f"{MEMORY}"
        tempfile.tempdir = None


def keep_what_is_compiled() -> None:
    """Undoes ``PYTHONDONTWRITEBYTECODE``: a run starts hundreds of processes, and each would compile all it imports."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


keep_what_is_compiled()
use_memory_for_temporary_files()

# Stores find a read that forwards, also those of the processes that tests start (state/write_buffer/read_counts.py).
os.environ["STREAMS_TEST_READS"] = "1"


def pytest_configure() -> None:
    # A run that is ended from outside (a timeout of the build server) still stops the brokers it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A run in the background of a script ignores Ctrl-C, and so would the processes that tests send one to.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives a process whole files, as ``--dist loadfile`` does, and one process all files about Spark and all about
    the source: a session takes seconds to start and a gigabyte, and so do the syntax trees of all files."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FilesTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return next((group for group in TOGETHER if group in file), file)

    config.option.loadscopereorder = False
    return FilesTogether(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Collects tests without a search for garbage, and leaves what was collected out of later ones.

    A third of the time went into searches among 16,000 tests that all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE, 20, 20)
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a process of a run where its brokers are had; their owner is this process, until it ends."""
    from integration_support.shared_brokers import BrokerServer

    config = node.config
    if not hasattr(config, "brokers"):
        config.brokers = BrokerServer()
        config.add_cleanup(config.brokers.close)
    node.workerinput["brokers"] = config.brokers.place


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Puts tests of Spark first, and files with few and long tests evenly between the others.

    Files go to processes in this order: all that wait at the end would leave the processors with nothing to do."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    spark = [path for path in files if "spark" in path.as_posix()]
    long = [path for path in files if path not in spark and (LONG & set(path.parts) or len(files[path]) <= FEW)]
    others = sorted((path for path in files if path not in spark + long), key=lambda path: -len(files[path]))
    places = {path: (number + 0.5) / len(kind) for kind in (long, others) for number, path in enumerate(kind)}
    return [item for path in [*spark, *sorted(places, key=places.__getitem__)] for item in files[path]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            assert "spark" in item.path.as_posix(), f"{item.path}: a file that uses Spark has spark in its path"
        # Hypothesis marks only tests that it calls itself, and not those that draw in a function of their own.
        if isinstance(item, pytest.Function) and "given" in item.function.__code__.co_names:
            item.add_marker(pytest.mark.hypothesis)
    if hasattr(config, "workerinput"):
        items[:] = in_turn(items)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of Spark that all tests share: two tasks at a time, each tried three times."""
    from spark_support.quick_start import QUICK_START
    from streams.spark import local_session

    settings = {
        "spark.executorEnv.PYTHONPATH": f"{ROOT / 'tests' / 'support'}",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.python.daemon.module": "spark_support.warm_daemon",
        "spark.local.dir": f"{tmp_path_factory.mktemp('spark')}",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": 2,
        # Java that is compiled for each query does not pay for a few rows: a fifth of the session's processor time.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    session = local_session("2,3", name="tests", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return ROOT


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Gives the next test the logging that this one found: commands set handlers and levels for the whole process."""
    loggers = [logging.getLogger(), logging.getLogger("streams"), logging.getLogger("streams.config")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
