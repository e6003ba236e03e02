"""A worker imports at its start only what every worker needs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import is_dataclass
from importlib.util import find_spec
from types import ModuleType

import pytest

from streams.kafka.wire import messages
from streams.kafka.wire.streams_groups import messages as streams_groups

WORKER = "streams.cli.main, streams.app.kafka_streams, streams.runtime.threads.stream_thread, streams.kafka.confluent"
"""What `streams run` imports before the user's script, and what a worker imports for each topology."""
HEAVY = {
    "aiohttp": "the HTTP port",
    "fastavro": "serdes of a schema registry",
    "multiprocessing": "nothing: workers are processes of the command",
    "numpy": "columns of Spark",
    "opentelemetry": "otel.traces",
    "pandas": "columns of Spark",
    "pyarrow": "columns of Spark",
    "pyspark": "backfills",
    "rocksdict": "the engine of stores on disk, when it opens them",
    "sqlite3": "nothing",
    "streams.http": "the HTTP port",
    "streams.registry.client": "serdes of a schema registry",
    "streams.spark": "backfills",
    "streams.testing": "tests",
    "structlog": "logs of the command, once it knows their format",
    "unittest": "tests",
    "xml": "nothing",
}
"""Modules that take long to import, and what needs them."""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    program = f"import sys, {WORKER}; print(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


@pytest.mark.parametrize("module", HEAVY)
def test_a_worker_starts_without(module: str, imported: set[str]) -> None:
    assert find_spec(module) is not None, "the module has another name now"
    assert module not in imported, f"it is for {HEAVY[module]}"


@pytest.mark.parametrize("module", [messages, streams_groups])
def test_messages_of_the_wire_are_named_tuples(module: ModuleType) -> None:
    """A dataclass takes ten times as long to make, and there are a hundred messages."""
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    assert len(own) > 10
    assert [one.__name__ for one in own if is_dataclass(one)] == []
