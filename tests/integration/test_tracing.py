"""A trace goes on through a worker on a real cluster: its header is sent by librdkafka."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from integration_support.workers import Workers
from streams.cli.main import main
from waiting import wait_until

APP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from streams import StreamsBuilder

trace.set_tracer_provider(TracerProvider())
settings = {settings!r}
builder = StreamsBuilder(key_serde="string", value_serde="string")
words = builder.stream("{name}-in").group_by(lambda key, word: word)
words.count().to_stream().to("{name}-out", value_serde="long")
"""
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def app(tmp_path: Path, kafka: str, workers: Workers) -> Iterator[Path]:
    settings = {
        "application.id": workers.application,
        "bootstrap.servers": kafka,
        "state.dir": str(tmp_path / "state"),
        "commit.interval.ms": 100,
        "otel.traces": 0,
    }
    file = tmp_path / "traced_words.py"
    file.write_text(APP.format(name=workers.application, settings=settings))
    path = list(sys.path)
    yield file
    sys.path[:] = path
    sys.modules.pop("traced_words", None)


def test_a_trace_goes_on_through_a_repartition_topic_and_a_cache(app: Path, workers: Workers) -> None:
    """The record without a trace has none behind it either."""

    def command(*words: str) -> list[Any]:
        with redirect_stdout(out := io.StringIO()):
            assert main(list(words)) == 0
        return out.getvalue().splitlines()

    name = workers.application
    command("topics", str(app), "--create")
    worker = workers.start(str(app)).wait_running()
    command("produce", str(app), f"{name}-in", "--value", "plain")
    header = f"traceparent=00-{TRACE}-{SPAN}-01"
    command("produce", str(app), f"{name}-in", "--value", "traced", "--header", header)

    def results() -> dict[str, Any]:
        rows = [json.loads(line) for line in command("consume", str(app), f"{name}-out")]
        return {row["key"]: row.get("headers", {}) for row in rows}

    wait_until("both are counted", lambda: set(results()) == {"plain", "traced"})
    worker.stop()
    assert results()["plain"] == {}
    _, trace_id, span_id, _ = results()["traced"]["traceparent"].split("-")
    assert trace_id == TRACE
    assert span_id != SPAN
