"""What nodes do is estimated from a few records, and costs the others nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.task_rig import TaskRig
from dsl import StreamsBuilder
from processor_api.clock import SystemClock
from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.topology.topology import Topology
from state.row_format.record_context import Cursor
from streams.runtime.processing.node_samples import MOST_REPORTS, SAMPLED_RECORDS, NodeSamples

Rigs = Callable[..., TaskRig]


@pytest.fixture
def rigs(tmp_path: Path) -> Iterator[Rigs]:
    made: list[TaskRig] = []

    def make(topology: Topology, **options: Any) -> TaskRig:
        made.append(TaskRig(topology, tmp_path / str(len(made)), **options))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


def samples_of(rig: TaskRig) -> NodeSamples:
    return rig.task.environment.metrics.nodes


def records(rig: TaskRig) -> dict[str, int]:
    """The estimates, by the kind of node."""
    return {
        name.rsplit("-", 1)[0].removeprefix("KSTREAM-"): round(node.records)
        for name, node in samples_of(rig).nodes.items()
    }


def run(rig: TaskRig, count: int, topic: str = "in") -> None:
    rig.run({topic: [(b"k%d" % (n % 10), b"v%d" % n, n) for n in range(count)]})


def branching() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    lines = builder.stream("in")
    lines.filter(lambda key, value: int(value[1:]) % 4 == 0).to("some")
    lines.flat_map_values(lambda value: [value] * 3).map_values(str.upper).to("all")
    return builder.build()


def test_a_sample_stands_for_all_records_since_the_one_before(rigs: Rigs) -> None:
    rig = rigs(branching())
    run(rig, 400)
    assert set(records(rig).values()) == {0}
    samples_of(rig).request()
    run(rig, 400)
    found = {"SOURCE": 800, "FILTER": 800, "FLATMAPVALUES": 800, "MAPVALUES": 2400}
    # the sample was taken with the first records of the second half; those behind it wait for the next one
    behind = 400 - SAMPLED_RECORDS
    assert records(rig)["SOURCE"] == 800 - behind
    samples_of(rig).request()
    run(rig, SAMPLED_RECORDS)
    assert records(rig)["SOURCE"] == 800 + SAMPLED_RECORDS
    estimates = records(rig)
    for name, count in found.items():
        assert estimates[name] == pytest.approx(count, rel=0.05)
    sinks = sorted(round(node.records) for name, node in samples_of(rig).nodes.items() if "SINK" in name)
    assert sinks == [pytest.approx(204, rel=0.05), pytest.approx(2448, rel=0.05)]


def test_nodes_of_one_kind_are_told_apart(rigs: Rigs) -> None:
    """They are functions of one definition, with other functions inside."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    numbers = builder.stream("in").filter(lambda key, value: int(value[1:]) % 2 == 0, name="even")
    numbers.filter(lambda key, value: int(value[1:]) % 4 == 0, name="by-four").to("out")
    rig = rigs(builder.build())
    samples_of(rig).request()
    run(rig, SAMPLED_RECORDS)
    nodes = samples_of(rig).nodes
    assert (nodes["even"].records, nodes["by-four"].records) == (SAMPLED_RECORDS, SAMPLED_RECORDS / 2)


def test_what_a_cache_sends_on_at_a_commit_counts(rigs: Rigs) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").group_by_key().count().to_stream().map_values(str).to("out")
    rig = rigs(builder.build())
    samples_of(rig).request()
    run(rig, SAMPLED_RECORDS)
    assert records(rig)["AGGREGATE"] == SAMPLED_RECORDS
    assert records(rig)["MAPVALUES"] == records(rig)["SINK"] == 10, "one change of each key"


def test_all_that_a_cache_sends_on_counts(rigs: Rigs) -> None:
    """Rows are logged before the first is sent on, so a sample of the drain by its time would see no node at all."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").group_by_key().count(materialized="first").to_stream().map_values(str).group_by(
        lambda key, value: key[-1:]
    ).count(materialized="second").to_stream().to("out")
    rig = rigs(builder.build())
    keys = 3 * MOST_REPORTS
    for _ in range(2):
        samples_of(rig).request()
        rig.run({"in": [(b"k%d" % n, b"v", n) for n in range(keys)]})
    assert records(rig)["MAPVALUES"] == 2 * keys


def test_a_drain_in_the_middle_of_a_sample_is_no_part_of_it(rigs: Rigs) -> None:
    """A put into a full cache drains it: the changes of many records, for which the sample does not stand."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").group_by_key().count().to_stream().map_values(str).to("out")
    rig = rigs(builder.build(), cache_bytes=20_000)
    count = 20 * SAMPLED_RECORDS
    for begin in range(0, 20 * count, count):
        samples_of(rig).request()
        rig.run({"in": [(b"k%05d" % n, b"v", n) for n in range(begin, begin + count)]})
    produced = samples_of(rig).nodes
    ends = [round(node.records) for name, node in produced.items() if "SINK" in name or "MAPVALUES" in name]
    assert ends == [20 * count, 20 * count]


def test_what_punctuations_and_batches_send_on_counts(rigs: Rigs) -> None:
    class EachMinute(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.context = context
            context.schedule(timedelta(minutes=1), PunctuationType.STREAM_TIME, self.send)

        def process(self, record: Record[str, str]) -> None: ...

        def send(self, now_ms: int) -> None:
            for number in range(3):
                self.context.forward(Record(f"{number}", "v", now_ms))

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    lines = builder.stream("in")
    lines.process(EachMinute).peek(lambda key, value: None, name="after-punctuation").to("each-minute")
    upper = lines.map_values_batch(lambda values: [value.upper() for value in values], max_records=10)
    upper.peek(lambda key, value: None, name="after-batch").to("upper")
    rig = rigs(builder.build())
    minutes, each = 40, 5
    for minute in range(minutes):
        samples_of(rig).request()
        times = range(minute * 60_000, (minute + 1) * 60_000, 60_000 // each)
        rig.run({"in": [(b"k", b"v", time) for time in times]})
    nodes = samples_of(rig).nodes
    assert round(nodes["after-punctuation"].records) == 3 * minutes
    # a batch that ends early, before a punctuation, leaves its rest to the next sample
    assert nodes["after-batch"].records == pytest.approx(each * minutes, abs=each)


def test_sources_and_ends_have_the_age_of_records(rigs: Rigs) -> None:
    """By the clock of the task: record n has the time n, and it is 0 here."""
    rig = rigs(branching())
    samples_of(rig).request()
    run(rig, SAMPLED_RECORDS)
    with_latency = {name: node.latencies for name, node in samples_of(rig).nodes.items() if node.latencies is not None}
    assert {name.split("-")[1] for name in with_latency} == {"SOURCE", "SINK"}
    for latencies in with_latency.values():
        assert latencies.measure(latencies.largest) == 0
    source = next(one for name, one in with_latency.items() if "SOURCE" in name)
    assert source.measure(source.least) == 1 - SAMPLED_RECORDS


def test_a_profile_of_the_user_is_left_alone(rigs: Rigs) -> None:
    rig = rigs(branching())
    seen: list[str] = []
    samples_of(rig).request()
    sys.setprofile(lambda frame, kind, _: seen.append(kind))
    try:
        run(rig, SAMPLED_RECORDS)
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)
    assert seen
    assert records(rig)["SOURCE"] == 0


def test_no_report_is_left_on_after_an_error(rigs: Rigs) -> None:
    def fail(value: str) -> str:
        raise ValueError(value)

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(fail).to("out")
    rig = rigs(builder.build())
    samples_of(rig).request()
    with pytest.raises(Exception, match="v0"):
        run(rig, 1)
    assert sys.getprofile() is None


def test_what_a_function_calls_is_reported_up_to_a_limit(rigs: Rigs) -> None:
    """A drain was reported whole: of each Python function that it called, the call and the return."""
    reported: list[bool] = []

    def nothing() -> None: ...

    def calls_much(value: str) -> str:
        for _ in range(MOST_REPORTS):
            nothing()
        reported.append(sys.getprofile() is not None)
        return value

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(calls_much).to("out")
    rig = rigs(builder.build())
    samples_of(rig).request()
    run(rig, SAMPLED_RECORDS)
    assert reported == [False] * SAMPLED_RECORDS
    node = next(one for name, one in samples_of(rig).nodes.items() if "MAPVALUES" in name)
    assert 1 <= node.records <= 2 * SAMPLED_RECORDS, "the rest is estimated by its time"


def test_a_function_of_any_form_is_counted() -> None:
    """One with other arguments has no time that could be read, and one that refers to itself is not complete yet."""
    samples = NodeSamples(Cursor(), SystemClock(), None)

    def any_arguments(*given: Any) -> None:
        if not given:
            later()

    samples.add("any", any_arguments, is_terminal=True)

    def later() -> None: ...

    assert samples.process(lambda: any_arguments(1, 2, 3, 4) or 1, 0) == 1
    assert round(samples.nodes["any"].records) == 1
