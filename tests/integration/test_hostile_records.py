"""Records that other clients may write and no client of ours would: every reader goes on behind them.

Each is in a topic of its own with a good record behind it, whose arrival shows that the reader went on. What a broker
does not take at all is here too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration_support.hostile import ALL_TIMES, NAMES, ODD, Hostile, write
from integration_support.raw_records import CONTROL, RawRecord, batch, send_raw
from integration_support.topics import Topics
from streams import (
    Consumed,
    KafkaStreams,
    Materialized,
    Processor,
    Produced,
    QueryableStoreTypes,
    Record,
    Serdes,
    StoreQueryParameters,
    StreamsBuilder,
    StreamThreadExceptionResponse,
    log_and_continue,
    log_and_skip_on_invalid_timestamp,
)
from streams.cli.main import main
from waiting import wait_until

BYTES, TEXT = Serdes.BYTES, Serdes.STRING


class Show(Processor[bytes, bytes, bytes, str]):
    """Forwards what it sees of a record."""

    def process(self, record: Record[bytes, bytes]) -> None:
        shown = [[name, None if value is None else value.decode("latin-1")] for name, value in record.headers][:3_000]
        value = record.value or b""
        value = value if len(value) < 100 else b"%d bytes" % len(value)
        self.context.forward(Record(record.key, json.dumps([value.decode(), shown]), 1))


def application(cases: list[Hostile], of: Callable[[str, str], str]) -> StreamsBuilder:
    """Reads each case by a task, by a task of two inputs, into a global table, and into a table of its own topic."""
    builder = StreamsBuilder(key_serde=BYTES, value_serde=BYTES)
    shown, read = Produced(key_serde=BYTES, value_serde=TEXT), Consumed(key_serde=BYTES, value_serde=BYTES)
    for case in cases:
        builder.stream(of("task", case.name)).process(Show).to(of("out", case.name), shown)
        both = builder.stream(of("merge", case.name)).merge(builder.stream(of("other", case.name)))
        both.process(Show).to(of("out", f"{case.name}-merged"), shown)
        builder.global_table(of("global", case.name), read, materialized=f"global-{case.name}")
        table = Materialized(name=f"table-{case.name}", key_serde=BYTES, value_serde=BYTES)
        builder.table(of("table", case.name), materialized=table)
    return builder


@contextmanager
def running(builder: StreamsBuilder, settings: Mapping[str, Any]) -> Iterator[KafkaStreams]:
    app = KafkaStreams(builder, settings)
    app.set_uncaught_exception_handler(lambda error: StreamThreadExceptionResponse.SHUTDOWN_CLIENT)
    app.start()
    try:
        yield app
    finally:
        app.close(30)


def has_good(app: KafkaStreams, store: str) -> bool:
    found = app.store(StoreQueryParameters(store, QueryableStoreTypes.key_value_store()))
    return found.get(b"good") == b"behind"


@pytest.mark.parametrize(
    ("cases", "guarantee"),
    [
        (NAMES, "at_least_once"),
        (NAMES, "exactly_once_v2"),
        pytest.param(ODD, "at_least_once", marks=pytest.mark.slow),  # a hundred topics
    ],
)
def test_every_reader_goes_on(
    kafka: str, unique_name: Callable[[str], str], tmp_path: Path, cases: list[Hostile], guarantee: str
) -> None:
    """A task, one of two inputs, a global table, a table restored from its topic, and queries of both."""
    topics, names = Topics(kafka, unique_name), {}
    for case in cases:
        for kind in ("task", "merge", "other", "global", "table"):
            names[kind, case.name] = topics.create(f"{kind}-{case.name}", 1, ALL_TIMES)
        for kind in ("task", "merge", "global", "table"):
            write(kafka, names[kind, case.name], case)
        for kind in (case.name, f"{case.name}-merged"):
            names["out", kind] = topics.create(f"out-{kind}")
    settings = {
        "application.id": unique_name("hostile"), "bootstrap.servers": kafka, "commit.interval.ms": 100,
        "processing.guarantee": guarantee, "max.task.idle.ms": -1, "topology.optimization": "all",
        "deserialization.exception.handler": log_and_continue,
        "default.timestamp.extractor": log_and_skip_on_invalid_timestamp, "timestamp.after.max.ms": -1,
    }  # fmt: skip
    for state in ("filled", "restored"):
        settings["state.dir"] = str(tmp_path / state)
        with running(application(cases, lambda kind, name: names[kind, name]), settings) as app:
            wait_until("it runs", lambda: app.failure or app.state.name == "RUNNING")
            for case in cases:
                for store in (f"global-{case.name}", f"table-{case.name}"):
                    wait_until(f"{store} is {state}", lambda: app.failure or has_good(app, store))  # noqa: B023
                for kind in (case.name, f"{case.name}-merged"):
                    _until_shown(topics, names["out", kind], case, app)
            assert app.failure is None


def _until_shown(topics: Topics, topic: str, case: Hostile, app: KafkaStreams) -> None:
    def last() -> list[Any]:
        return [json.loads(record.value()) for record in reader.records]

    with topics.reader(topic) as reader:
        reader.until("the record behind was read", lambda _: app.failure or (last() and last()[-1][0] == "behind"))
        assert app.failure is None
        shown = last()
    if case.headers is not None:
        assert [value for value, _ in shown] == ["v", "behind"]
        seen = [(name, None if value is None else value.encode("latin-1")) for name, value in shown[0][1]]
        assert seen == case.headers


def test_the_command_line_shows_them(kafka: str, topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    for case in (*NAMES, *ODD):
        topic = topics.create(case.name, 1, ALL_TIMES)
        write(kafka, topic, case)
        serdes = ["--key-serde", "string", "--value-serde", "string"]
        assert main(["consume", "--topic", topic, *serdes, "--bootstrap-servers", kafka]) == 0, case.name
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        first, *_, last = map(json.loads, out.splitlines())
        assert last["value"] == "behind", case.name
        if case.headers is not None:
            assert dict(first["headers"]).keys() == {name for name, _ in case.headers}


@pytest.mark.parametrize(
    ("record", "attributes", "code"),
    [
        (RawRecord(headers=[(None, b"1")]), 0, 87),
        (RawRecord(headers=[(b"a", b"1")], count=5), 0, 87),
        (RawRecord(headers=[(b"a", b"1")], count=0), 0, 87),
        (RawRecord(count=-1), 0, 87),
        (RawRecord(count=2**31 - 1), 0, 87),
        (RawRecord(key=b"\0\0\0\1", value=b"\0\0\0\0\0\0"), CONTROL, 87),
    ],
)
def test_what_a_broker_does_not_take_needs_no_reader(
    kafka: str, topics: Topics, record: RawRecord, attributes: int, code: int
) -> None:
    """Names without text, counts that lie and control records of a client: what readers rely on."""
    topic, data = topics.create("refused"), batch([record], int(time.time() * 1000), attributes=attributes)
    wait_until("the partition has a leader", lambda: send_raw(kafka, topic, data) == code)
