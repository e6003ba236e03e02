import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# A busy machine must not fail a property test for being slow.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


def pytest_configure() -> None:
    # A run that is ended from outside (a timeout of the build server) still stops the brokers it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A run in the background of a script ignores Ctrl-C, and so would the processes that tests send one to.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
