"""The lines of ``streams.trace`` of a running application, and that there are none unless somebody asks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from dsl import Produced, StreamsBuilder
from processor_api.clock import SystemClock
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, passing_on
from streams.app.states import ClientState
from streams.app.uncaught import StreamThreadExceptionResponse as Answer
from streams.config import StreamsConfig
from streams.runtime.tracing.tracer import Tracer
from waiting import wait_until

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
Lines = list[logging.LogRecord]


def word_count() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in").flat_map_values(lambda line: line.split())
    counts = words.group_by(lambda _, word: word).count(materialized="counts")
    counts.to_stream().map_values(str).to("out", Produced(value_serde=Serdes.STRING))
    return builder.build()


def lines(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if record.name == "streams.trace"]


@GUARANTEES
def test_a_record_is_followed_across_tasks_threads_and_a_cache(
    guarantee: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="streams.trace")
    cluster = Cluster(tmp_path, partitions=2)
    settings = {"processing.guarantee": guarantee, "num.stream.threads": 2, "trace.keys": "be"}
    app = cluster.app(word_count(), settings)
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("to be", "or not", partition=1)
    cluster.until_out("1", "1", "1", "1")
    wait_until("it is committed", lambda: [one.msg for one in lines(caplog)].count("commit") >= 2)
    cluster.close()
    found = lines(caplog)
    assert {one.record for one in found} == {"in-1@0"}
    steps = [(one.msg, getattr(one, "key", None), getattr(one, "value", None)) for one in found]
    names = [step for step, _, _ in steps]
    here = names.index("read", 1)
    assert names[:1] == ["read"]
    assert "send" in names[:here]
    assert [step for step in names[here:] if step in ("get", "put", "drain", "send")] == ["get", "put", "drain", "send"]
    assert ("put", "'be'", "1") in steps
    (sent,) = [one for one in found if one.msg == "send" and one.place.startswith("out-")]
    assert (sent.key, sent.value) == ("'be'", "'1'")
    partition = next(int(one.partition()) for one in cluster.broker.records("out") if one.key() == b"be")
    assert sent.place == f"out-{partition}"
    changelog = next(one for one in found if one.msg == "changelog")
    topic, _, offset = changelog.place.rpartition("@")
    topic, _, number = topic.rpartition("-")
    (logged,) = [one for one in cluster.broker.records(topic) if one.key() == b"be"]
    assert (logged.partition(), logged.offset()) == (int(number), int(offset))
    assert all(one.us >= 0 and one.time_ms > 0 and one.task in ("0_1", "1_0", "1_1") for one in found)
    assert [header for one in cluster.broker.records("out") for header in one.headers() or ()] == []


def test_what_is_rolled_back_is_said_and_followed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="streams.trace")
    cluster = Cluster(tmp_path)
    failures = iter([True])

    def look(value: str) -> None:
        if value == "b" and next(failures, False):
            raise RuntimeError("once")

    app = cluster.app(
        passing_on(look),
        {"processing.guarantee": "exactly_once_v2", "trace.every": 1, "commit.interval.ms": 5000},
        start=False,
    )
    app.set_uncaught_exception_handler(lambda error: Answer.REPLACE_THREAD)
    app.start()
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("a", "b")
    wait_until("both are followed again", lambda: [one.msg for one in lines(caplog)].count("send") >= 3)
    cluster.close()
    steps = [(one.record, one.msg) for one in lines(caplog)]
    assert steps.index(("in-0@1", "fail")) < steps.index(("in-0@0", "rollback"))
    assert steps.count(("in-0@0", "send")) == 2
    assert steps.count(("in-0@0", "commit")) == 1


def test_nothing_is_made_for_the_trace_unless_it_is_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    seen: list[Any] = []

    class Look(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            seen.append(type(self.context.get_state_store("store")).__module__)
            self.context.forward(record)

    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), Serdes.STRING, Serdes.STRING)
    topology = Topology().add_source("source", "in").add_processor("look", Look, "source")
    topology.add_state_store(store, "look").add_sink("sink", "out", "look")
    cluster = Cluster(tmp_path)
    cluster.until_state(cluster.app(topology), ClientState.RUNNING)
    cluster.send("a")
    cluster.until_out("a")
    cluster.close()
    assert lines(caplog) == []
    assert all("tracing" not in module for module in seen)
    assert Tracer.of(StreamsConfig(application_id="a", bootstrap_servers="b:1"), SystemClock()) is None


def test_an_application_says_when_nobody_sees_the_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="streams.trace")
    cluster = Cluster(tmp_path)
    app = cluster.app(passing_on(), {"trace.every": 1, "num.stream.threads": 2})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("a")
    cluster.until_out("a")
    cluster.close()
    (line,) = lines(caplog)
    assert line.getMessage().startswith("records are followed, and no line of it is shown: set the level of logger")


def test_a_partition_that_the_client_chooses_is_not_guessed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="streams.trace")
    cluster = Cluster(tmp_path, partitions=2)
    builder = StreamsBuilder()
    builder.stream("in").flat_map(lambda key, value: [(None, value), (key, value)]).to("out")
    app = cluster.app(builder.build(), {"trace.every": 1})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("a")
    cluster.until_out("a", "a")
    cluster.close()
    (partition,) = (record.partition() for record in cluster.broker.records("out") if record.key() == b"k")
    assert [one.place for one in lines(caplog) if one.msg == "send"] == ["out-?", f"out-{partition}"]
