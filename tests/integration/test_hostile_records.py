"""Records that other clients may write and no client of ours would: every reader goes on behind them.

Each is in a topic of its own with a good record behind it, whose arrival shows that the reader went on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration_support.raw_records import RawRecord, batch, send_raw
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
)
from waiting import wait_until

Headers = list[tuple[str, bytes | None]]
BYTES, TEXT = Serdes.BYTES, Serdes.STRING
ALL_TIMES = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
GOOD = RawRecord(b"good", b"behind")


@dataclass(frozen=True)
class Hostile:
    """A batch before a good one, and what a processor sees of it."""

    name: str
    data: Callable[[], bytes]
    headers: Headers | None = None
    """Those of its only record."""


def _names(*names: bytes) -> Callable[[], bytes]:
    return lambda: batch([RawRecord(headers=[(name, b"1") for name in names])], _now())


def _now() -> int:
    return int(time.time() * 1000)


READ_ON = [
    Hostile(
        "latin",
        _names(b"ok", b"gr\xf6\xdfe", b"l\xe4nge"),
        [("ok", b"1"), ("gr\ufffd\ufffde", b"1"), ("l\ufffdnge", b"1")],
    ),
    Hostile("half", _names(b"\xed\xa0\x80", b""), [("\ufffd", b"1"), ("", b"1")]),
    Hostile(
        "many",
        _names(*(b"\xff%d" % number for number in range(3_000))),
        [(f"\ufffd{number}", b"1") for number in range(3_000)],
    ),
]


def write(kafka: str, topic: str, *batches: bytes) -> None:
    """A broker that has made a topic a moment ago may not lead it yet."""
    for data in batches:
        codes: list[int] = []
        wait_until(
            "the partition has a leader",
            lambda data=data, codes=codes: codes.append(send_raw(kafka, topic, data)) or codes[-1] != 6,
        )
        assert codes[-1] == 0


class Show(Processor[bytes, bytes, bytes, str]):
    """Forwards what it sees of a record."""

    def process(self, record: Record[bytes, bytes]) -> None:
        shown = [[name, None if value is None else value.decode("latin-1")] for name, value in record.headers]
        value = record.value if len(record.value or b"") < 100 else b"%d bytes" % len(record.value)
        self.context.forward(Record(record.key, json.dumps([(value or b"").decode(), shown]), 1))


def application(cases: list[Hostile], of: Callable[[str, str], str]) -> StreamsBuilder:
    """Reads each case by a task, by a task of two inputs, into a global table, and into a table of its own topic."""
    builder = StreamsBuilder(key_serde=BYTES, value_serde=BYTES)
    shown = Produced(key_serde=BYTES, value_serde=TEXT)
    for case in cases:
        builder.stream(of("task", case.name)).process(Show).to(of("out", case.name), shown)
        both = builder.stream(of("merge", case.name)).merge(builder.stream(of("other", case.name)))
        both.process(Show).to(of("out", f"{case.name}-merged"), shown)
        builder.global_table(
            of("global", case.name), Consumed(key_serde=BYTES, value_serde=BYTES), materialized=f"global-{case.name}"
        )
        builder.table(
            of("table", case.name),
            materialized=Materialized(name=f"table-{case.name}", key_serde=BYTES, value_serde=BYTES),
        )
    return builder


@contextmanager
def running(builder: StreamsBuilder, settings: Mapping[str, Any]) -> Iterator[KafkaStreams]:
    app = KafkaStreams(builder, settings)
    app.set_uncaught_exception_handler(lambda error: StreamThreadExceptionResponse.SHUTDOWN_CLIENT)
    app.start()
    try:
        yield app
    finally:
        app.close(30_000)


def table(app: KafkaStreams, store: str) -> dict[bytes, bytes]:
    found = app.store(StoreQueryParameters(store, QueryableStoreTypes.key_value_store()))
    return dict(found.all())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_every_reader_goes_on(kafka: str, unique_name: Callable[[str], str], tmp_path: Path, guarantee: str) -> None:
    topics, names = Topics(kafka, unique_name), {}

    def of(kind: str, case: str) -> str:
        return names[kind, case]

    for case in READ_ON:
        for kind in ("task", "merge", "other", "global", "table"):
            names[kind, case.name] = topics.create(f"{kind}-{case.name}", 1, ALL_TIMES)
        for kind in ("task", "merge", "global", "table"):
            write(kafka, of(kind, case.name), case.data(), batch([GOOD], _now()))
        for kind in (case.name, f"{case.name}-merged"):
            names["out", kind] = topics.create(f"out-{kind}")
    settings = {
        "application.id": unique_name("hostile"), "bootstrap.servers": kafka, "state.dir": str(tmp_path / "state"),
        "commit.interval.ms": 100, "processing.guarantee": guarantee, "max.task.idle.ms": -1,
        "topology.optimization": "all", "deserialization.exception.handler": log_and_continue,
    }  # fmt: skip
    for state in ("filled", "restored"):
        settings["state.dir"] = str(tmp_path / state)
        with running(application(READ_ON, of), settings) as app:
            for case in READ_ON:
                for store in (f"global-{case.name}", f"table-{case.name}"):
                    wait_until(
                        f"{store} is {state}",
                        lambda store=store: (
                            app.failure or (app.state.name == "RUNNING" and b"good" in table(app, store))
                        ),
                    )
                assert app.failure is None
                for kind in (case.name, f"{case.name}-merged"):
                    _until_shown(topics, of("out", kind), case, app)


def _until_shown(topics: Topics, topic: str, case: Hostile, app: KafkaStreams) -> None:
    with topics.reader(topic) as reader:
        reader.until("the record behind was read", lambda found: app.failure or len(found.records) >= 2)
        assert app.failure is None
        shown = [json.loads(record.value()) for record in reader.records]
    assert [value for value, _ in shown] == ["v", "behind"]
    assert [(name, None if value is None else value.encode("latin-1")) for name, value in shown[0][1]] == (
        case.headers or []
    )


@pytest.mark.parametrize("case", READ_ON, ids=[case.name for case in READ_ON])
def test_the_command_line_shows_them(kafka: str, topics: Topics, case: Hostile) -> None:
    topic = topics.create("shown", 1, ALL_TIMES)
    write(kafka, topic, case.data(), batch([GOOD], _now()))
    command = [
        sys.executable,
        "-m",
        "streams",
        "consume",
        "--topic",
        topic,
        "--key-serde",
        "string",
        "--value-serde",
        "string",
    ]
    done = subprocess.run([*command, "--bootstrap-servers", kafka], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    first, last = map(json.loads, done.stdout.splitlines())
    assert last["value"] == "behind"
    assert dict(first["headers"]).keys() == {name for name, _ in case.headers or []}
