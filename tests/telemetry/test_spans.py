"""Spans of OpenTelemetry through the test driver: where they begin, what their parents and links are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Decision, Sampler, SamplingResult

from processor_api.errors import ConfigError
from state.row_format.record_context import Cursor
from streams import (
    BufferConfig,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from streams.telemetry.spans import LINKS_MAX, WAITING_MAX, TaskSpans, _RowTraces, _WaitingTraces, is_sampled
from streams.testing import EmbeddedKafka

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = [("traceparent", f"00-{TRACE}-{SPAN}-01".encode())]
UNSAMPLED = [("traceparent", f"00-{TRACE}-{SPAN}-00".encode())]
FINAL = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")
EXPORTER = InMemorySpanExporter()


class Chosen(Sampler):
    """A sampler that begins traces or not, as a test says."""

    decision = Decision.RECORD_AND_SAMPLE

    def should_sample(self, *of: Any, **named: Any) -> SamplingResult:
        found = DEFAULT_ON.should_sample(*of, **named)
        return found if self.decision is Decision.RECORD_AND_SAMPLE else SamplingResult(self.decision)

    def get_description(self) -> str:
        return "Chosen"


SAMPLER = Chosen()


@pytest.fixture(scope="module", autouse=True)
def provider() -> TracerProvider:
    """The provider of this process, which can be set only once."""
    provider = TracerProvider(sampler=SAMPLER)
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    return provider


@pytest.fixture(autouse=True)
def cleared() -> Iterator[None]:
    yield
    EXPORTER.clear()
    SAMPLER.decision = Decision.RECORD_AND_SAMPLE
    assert trace.get_current_span() is trace.INVALID_SPAN  # nothing is left behind


class Spans:
    """The spans that were exported, by their names."""

    def __init__(self) -> None:
        self.all = sorted(EXPORTER.get_finished_spans(), key=lambda span: span.start_time or 0)
        self.names = [span.name for span in self.all]

    def __getitem__(self, name: str) -> ReadableSpan:
        (found,) = (span for span in self.all if span.name == name)
        return found


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def traceparent(record: Any) -> tuple[int, int]:
    """The trace and the span in the only header of a record."""
    ((name, value),) = [one for one in record.headers if one[0] == "traceparent"]
    assert name == "traceparent"
    _, trace_id, span_id, flags = value.decode().split("-")
    assert int(flags, 16) & 1
    return int(trace_id, 16), int(span_id, 16)


def driver(builder: Any, share: float = 1, **settings: Any) -> TopologyTestDriver:
    given = {"otel.traces": share, "statestore.cache.max.bytes": 0, "application.id": "app", **settings}
    return TopologyTestDriver(builder, given)


def upper() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(str.upper, name="upper").filter(lambda key, value: True).to("out")
    return builder


# ------------------------------------------------------------------ one record


def test_a_trace_goes_on_through_the_application() -> None:
    """A span of reading below the one that wrote the record, below it that of the named node, then that of sending,
    which is what the output's header names."""
    with driver(upper()) as made:
        made.create_input_topic("in").pipe_input("k", "v", headers=[("h", b"1"), *SAMPLED])
        out = made.create_output_topic("out").read_record()
    spans = Spans()
    assert spans.names == ["process in", "upper", "send out"]
    assert {trace_of(span) for span in spans.all} == {int(TRACE, 16)}
    assert [parent_of(span) for span in spans.all] == [int(SPAN, 16), id_of(spans["process in"]), id_of(spans["upper"])]
    assert traceparent(out) == (int(TRACE, 16), id_of(spans["send out"]))
    assert ("h", b"1") in out.headers
    read = spans["process in"].attributes or {}
    assert (read["messaging.destination.name"], read["messaging.kafka.offset"], read["messaging.system"]) == (
        "in",
        0,
        "kafka",
    )
    assert (spans["process in"].kind, spans["send out"].kind) == (trace.SpanKind.CONSUMER, trace.SpanKind.PRODUCER)


def test_what_is_not_sampled_has_no_spans_and_keeps_its_headers() -> None:
    with driver(upper()) as made:
        made.create_input_topic("in").pipe_input("k", "v", headers=UNSAMPLED)
        assert made.create_output_topic("out").read_record().headers == UNSAMPLED
    assert Spans().names == []


@pytest.mark.parametrize(("share", "expected"), [(0, 0), (0.25, 2), (0.3, 3), (1, 10)])
def test_a_share_of_the_records_without_a_trace_begins_one(share: float, expected: int) -> None:
    with driver(upper(), share) as made:
        topic = made.create_input_topic("in")
        for _ in range(10):
            topic.pipe_input("k", "v")
    found = Spans()
    assert found.names.count("process in") == expected
    assert len({trace_of(span) for span in found.all}) == expected


@pytest.mark.parametrize("share", [0.001, 0.3, 0.7, 1.0])
@given(batches=st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1)), max_size=30))
def test_the_share_of_records_in_batches_is_that_of_records_one_by_one(
    share: float, batches: list[tuple[int, float]]
) -> None:
    """Also where a turn ends in the middle of a batch, whose rest comes again."""
    spans = TaskSpans(trace.get_tracer("test"), share, "app", "0_0", Cursor(), lambda: 0)

    def plain(*record: Any) -> None: ...

    read, found = 0, []
    for size, part in batches:
        done = max(1, int(size * part))
        takes = zip(range(done), spans.forwards("source", print, plain, [None] * size), strict=False)
        found += [read + at + 1 for at, take in takes if take is not plain]
        spans.passed(done)
        read += done
    assert found == [n for n in range(1, read + 1) if int(n * share + 1e-9) > int((n - 1) * share + 1e-9)]


def test_traces_of_others_go_on_with_a_share_of_nothing() -> None:
    with driver(upper(), 0) as made:
        made.create_input_topic("in").pipe_input("k", "v", headers=SAMPLED)
    assert len(Spans().names) == 3


def test_a_record_that_the_sampler_leaves_out_goes_on_as_it_was() -> None:
    SAMPLER.decision = Decision.DROP
    with driver(upper()) as made:
        made.create_input_topic("in").pipe_input("k", "v")
        assert list(made.create_output_topic("out").read_record().headers) == []
    assert Spans().names == []


@pytest.mark.parametrize("value", [None, b"", b"nonsense", b"00-xyz-1-01", b"\xff" * 60])
def test_a_header_that_is_no_trace_is_as_none(value: bytes | None) -> None:
    with driver(upper()) as made:
        made.create_input_topic("in").pipe_input("k", "v", headers=[("traceparent", value)])
        out = made.create_output_topic("out").read_record()
    assert parent_of(Spans()["process in"]) is None
    assert traceparent(out)[1] == id_of(Spans()["send out"])


def test_the_last_of_two_headers_counts() -> None:
    """A service that passes a record on may add its header behind that of the service before: the first one counted."""
    own = "1111111111111111"
    headers = [*SAMPLED, ("traceparent", f"00-{TRACE}-{own}-01".encode())]
    with driver(upper()) as made:
        made.create_input_topic("in").pipe_input("k", "v", headers=headers)
    spans = Spans()
    assert parent_of(spans["process in"]) == int(own, 16)
    assert trace_of(spans["process in"]) == int(TRACE, 16)


def test_trace_state_goes_on() -> None:
    with driver(upper()) as made:
        made.create_input_topic("in").pipe_input("k", "v", headers=[*SAMPLED, ("tracestate", b"a=1")])
        assert ("tracestate", b"a=1") in made.create_output_topic("out").read_record().headers


def test_an_error_is_in_the_span_of_its_node() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(lambda value: 1 // 0, name="divide").to("out")
    with driver(builder) as made, pytest.raises(Exception, match="division"):
        made.create_input_topic("in").pipe_input("k", "v", headers=SAMPLED)
    failed = Spans()["process in"]
    assert failed.status.status_code is trace.StatusCode.ERROR


def test_a_dropped_record_says_why() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").group_by_key().count().to_stream().to("out")
    with driver(builder) as made:
        made.create_input_topic("in").pipe_input(None, "v", headers=SAMPLED)
    (event,) = Spans()["process in"].events
    assert event.name == "dropped"


def test_spans_of_a_users_library_are_below_that_of_the_node() -> None:
    def ask(value: str) -> str:
        with trace.get_tracer("library").start_as_current_span("ask"):
            return value

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(ask, name="asking").to("out")
    with driver(builder) as made:
        made.create_input_topic("in").pipe_input("k", "v")
    assert parent_of(Spans()["ask"]) == id_of(Spans()["asking"])


class Forwards(Processor[str, str, str, str]):
    """Forwards a record that it makes, without headers, and one in each punctuation."""

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule(timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, self.punctuate)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(Record(record.key, record.value, record.timestamp))

    def punctuate(self, now: int) -> None:
        self.context.forward(Record("p", "p", now))


def test_a_processor_that_drops_headers_does_not_end_the_trace() -> None:
    topology = Topology().add_source("source", "in", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    topology.add_processor("forwards", Forwards, "source")
    topology.add_state_store(Stores.key_value_store("kept", Serdes.STRING, Serdes.STRING), "forwards")
    topology.add_sink("sink", "out", "forwards", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    with driver(topology) as made:
        made.create_input_topic("in").pipe_input("k", "v", headers=SAMPLED)
        out = made.create_output_topic("out")
        assert traceparent(out.read_record()) == (int(TRACE, 16), id_of(Spans()["send out"]))
        EXPORTER.clear()
        made.advance_wall_clock_time(timedelta(seconds=1))
        assert traceparent(out.read_record())[1] == id_of(Spans()["send out"])
    spans = Spans()
    assert spans.names == ["punctuate forwards", "send out"]
    assert parent_of(spans["send out"]) == id_of(spans["punctuate forwards"])


# ------------------------------------------------------------------ topologies


def counted(cache: int) -> TopologyTestDriver:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    words = builder.stream("lines").flat_map_values(str.split).group_by(lambda key, word: word, Grouped(name="words"))
    words.count(name="totals", materialized=Materialized(name="counts")).to_stream().to("out", value_serde="long")
    return driver(builder, **{"statestore.cache.max.bytes": cache})


@pytest.mark.parametrize("cache", [0, 1_000_000])
def test_a_word_count_is_one_trace_for_each_line(cache: int) -> None:
    """Through the repartition topic, and through the cache."""
    with counted(cache) as made:
        lines = made.create_input_topic("lines")
        lines.pipe_input("k", "to be", headers=SAMPLED)
        out = made.create_output_topic("out", value_serde="long").read_records()
    spans = Spans()
    assert [traceparent(record)[0] for record in out] == [int(TRACE, 16)] * 2
    assert {trace_of(span) for span in spans.all} == {int(TRACE, 16)}
    assert spans.names.count("process app-words-repartition") == 2
    totals = [span for span in spans.all if span.name == "totals"]
    assert [dict(span.attributes or {})["streams.stores"] for span in totals] == ["counts"] * 2
    assert spans.names.count("release totals") == (2 if cache else 0)


def test_a_suppressed_window_links_the_records_that_it_is_made_of() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=10))
    table = builder.stream("in").group_by_key().windowed_by(windows).count()
    table.suppress(FINAL).to_stream(lambda key, _: key.key).to("out", value_serde="long")
    with driver(builder) as made:
        topic = made.create_input_topic("in")
        for time in (0, 1, 2):
            topic.pipe_input("k", "v", time)
        topic.pipe_input("other", "v", 20_000, headers=UNSAMPLED)
        record = made.create_output_topic("out", value_serde="long").read_record()
    spans = Spans()
    release = spans["release final"]
    assert record.value == 3
    assert len({trace_of(span) for span in spans.all}) == 4
    assert parent_of(release) is None
    reads = {trace_of(span) for span in spans.all if span.name == "process in"}
    assert {link.context.trace_id for link in release.links} == reads
    assert traceparent(record)[0] == trace_of(release)


def test_a_window_of_one_record_is_in_its_trace() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=10))
    table = builder.stream("in").group_by_key().windowed_by(windows).count()
    table.suppress(FINAL).to_stream(lambda key, _: key.key).to("out", value_serde="long")
    with driver(builder) as made:
        topic = made.create_input_topic("in")
        topic.pipe_input("k", "v", 0, headers=SAMPLED)
        topic.pipe_input("other", "v", 20_000, headers=UNSAMPLED)
        assert traceparent(made.create_output_topic("out", value_serde="long").read_record())[0] == int(TRACE, 16)
    assert not Spans()["release final"].links


def test_a_result_of_records_without_a_trace_is_in_none() -> None:
    """Also where it leaves a buffer while a record with a trace is processed."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=10))
    table = builder.stream("in").group_by_key().windowed_by(windows).count()
    table.suppress(FINAL).to_stream(lambda key, _: key.key).to("out", value_serde="long")
    with driver(builder, 0) as made:
        topic = made.create_input_topic("in")
        topic.pipe_input("k", "v", 0)
        topic.pipe_input("other", "v", 20_000, headers=SAMPLED)
        assert list(made.create_output_topic("out", value_serde="long").read_record().headers) == []
    assert Spans().names == ["process in", "final"]


def test_a_join_is_in_the_trace_of_the_record_that_made_the_result() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    table = builder.table("table")
    builder.stream("in").join(table, lambda left, right: left + right).to("out")
    with driver(builder) as made:
        made.create_input_topic("table").pipe_input("k", "t")
        made.create_input_topic("in").pipe_input("k", "v", headers=SAMPLED)
        assert traceparent(made.create_output_topic("out").read_record())[0] == int(TRACE, 16)


LATER = [("traceparent", f"00-{TRACE[::-1]}-{SPAN}-01".encode())]
SECOND = timedelta(seconds=1)


def links_of(name: str) -> list[int]:
    return [link.context.trace_id for link in Spans()[name].links]


def joined_streams(builder: StreamsBuilder, left: str, right: str) -> Any:
    windows = JoinWindows.of_time_difference_with_no_grace(SECOND)
    one, other = builder.stream(left), builder.stream(right)
    return one.join(other, lambda a, b: a + b, windows=windows)


def joined_table(builder: StreamsBuilder, left: str, right: str) -> Any:
    return builder.stream(left).join(builder.table(right), lambda a, b: a + b)


def joined_versions(builder: StreamsBuilder, left: str, right: str) -> Any:
    versions = Materialized.as_(Stores.persistent_versioned_key_value_store("versions", 60_000))
    return builder.stream(left).join(builder.table(right, materialized=versions), lambda a, b: a + b)


def joined_tables(builder: StreamsBuilder, left: str, right: str) -> Any:
    return builder.table(left).join(builder.table(right), lambda a, b: a + b).to_stream()


def joined_by_foreign_key(builder: StreamsBuilder, left: str, right: str) -> Any:
    pairs = builder.table(left).foreign_key_join(builder.table(right), lambda a: "k", lambda a, b: a + b)
    return pairs.to_stream()


JOINS = [joined_streams, joined_table, joined_versions, joined_tables]


@contextmanager
def joined(join: Any, **settings: object) -> Iterator[tuple[Any, Any]]:
    """The topics of the rows, and of the records that meet them."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    join(builder, "in", "other").to("out")
    with driver(builder, 0, **settings) as made:
        yield made.create_input_topic("other"), made.create_input_topic("in")


@pytest.mark.parametrize("cache", [0, 1 << 20])
@pytest.mark.parametrize("join", JOINS)
def test_the_result_of_a_join_is_linked_to_the_trace_of_the_row_that_it_met(join: Any, cache: int) -> None:
    """In the span of the record that made it. What came without a trace is met without a link."""
    with joined(join, **{"statestore.cache.max.bytes": cache}) as (row, record):
        row.pipe_input("k", "r", 10, headers=SAMPLED)
        row.pipe_input("x", "r", 10)
        EXPORTER.clear()
        record.pipe_input("k", "v", 10, headers=LATER)
        if cache and join is joined_tables:  # each change waits in the cache of its table
            return
        assert links_of("process in") == [int(TRACE, 16)]
        EXPORTER.clear()
        record.pipe_input("x", "v", 10, headers=LATER)
        assert links_of("process in") == []


def test_a_row_that_was_put_again_or_deleted_is_not_linked_to_its_former_trace() -> None:
    with joined(joined_table) as (row, record):
        row.pipe_input("k", "r", 10, headers=SAMPLED)
        row.pipe_input("k", "s", 10)
        record.pipe_input("k", "v", 10, headers=LATER)
        assert links_of("process in") == []


def test_an_older_version_is_not_linked_to_the_trace_of_the_latest() -> None:
    with joined(joined_versions) as (row, record):
        row.pipe_input("k", "r", 10)
        row.pipe_input("k", "s", 20, headers=SAMPLED)
        record.pipe_input("k", "v", 15, headers=LATER)
        assert links_of("process in") == []


def test_a_result_by_foreign_key_is_linked_to_the_row_of_the_other_table() -> None:
    with joined(joined_by_foreign_key) as (row, record):
        row.pipe_input("k", "r", 10, headers=SAMPLED)
        EXPORTER.clear()
        record.pipe_input("a", "v", 10, headers=LATER)
        assert [link.context.trace_id for span in Spans().all for link in span.links] == [int(TRACE, 16)]


def test_an_aggregation_is_not_linked_to_the_row_that_it_has_put_itself() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").group_by_key().count().to_stream().to("out", value_serde="long")
    with driver(builder, 0) as made:
        records = made.create_input_topic("in")
        records.pipe_input("k", "v", 10, headers=SAMPLED)
        EXPORTER.clear()
        records.pipe_input("k", "v", 10, headers=LATER)
        assert links_of("process in") == []


def test_the_traces_of_rows_and_the_links_of_a_record_are_limited() -> None:
    with joined(joined_streams) as (row, record):
        for number in range(LINKS_MAX + 8):
            own = [("traceparent", f"00-{number + 1:032x}-{SPAN}-01".encode())]
            row.pipe_input("k", "r", 10 + number, headers=own)
        EXPORTER.clear()
        record.pipe_input("k", "v", 10, headers=LATER)
        assert len(links_of("process in")) == LINKS_MAX
    traces = _RowTraces()
    span = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))
    for number in range(WAITING_MAX + 1):
        traces.put(("store", number), "writer", 5, span)
    assert traces.of(("store", 0), "reader", 5) is None
    assert traces.of(("store", WAITING_MAX), "reader", 5) is span.get_span_context()


def test_a_join_by_foreign_key_is_one_trace() -> None:
    """Through the two topics between its sides, and back."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    orders, products = builder.table("orders"), builder.table("products")
    pairs = orders.foreign_key_join(products, lambda order: order, lambda order, product: f"{order} {product}")
    pairs.to_stream().to("out")
    with driver(builder) as made:
        made.create_input_topic("products").pipe_input("tea", "green", headers=UNSAMPLED)
        made.create_input_topic("orders").pipe_input("1", "tea", headers=SAMPLED)
        record = made.create_output_topic("out").read_record()
    assert (record.value, traceparent(record)[0]) == ("tea green", int(TRACE, 16))
    assert len([name for name in Spans().names if name.startswith("process app-")]) == 2


def test_a_running_application_makes_spans() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        kafka.start(upper(), {"otel.traces": 0, "application.id": "app"})
        topic = kafka.create_input_topic("in")
        topic.pipe_input("k", "v")
        topic.pipe_input("k", "v", headers=SAMPLED)
        plain, traced = kafka.read_records("out", 2)
    assert (list(plain.headers), traceparent(traced)[0]) == ([], int(TRACE, 16))
    read = dict(Spans()["process in"].attributes or {})
    assert (read["messaging.kafka.offset"], read["streams.task"]) == (1, "0_0")


# ------------------------------------------------------------------ bounds and settings


def test_traces_that_wait_are_limited() -> None:
    waiting, tracer = _WaitingTraces(), trace.get_tracer("test")
    for number in range(WAITING_MAX + 5):
        waiting.add(("store", number), tracer.start_span("x"))
    for _ in range(LINKS_MAX + 5):
        waiting.add(("store", ["a", "list"]), tracer.start_span("x"))
    assert waiting.take(("store", 0)) == []
    assert len(waiting.take(("store", WAITING_MAX))) == 1
    assert len(waiting.take(("store", ["a", "list"]))) == LINKS_MAX
    EXPORTER.clear()


@pytest.mark.parametrize("value", [-0.1, 1.1, "nan", "many", True])
def test_a_share_is_a_number_between_0_and_1(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"otel.traces must be a number between 0 and 1"):
        StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", "otel.traces": value})


def test_spans_and_followed_records_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"otel.traces is set with trace.keys"):
        StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", "otel.traces": "0.5", "trace.keys": "ann"})


def test_sampled_flags() -> None:
    assert is_sampled(f"00-{TRACE}-{SPAN}-01".encode()) is True
    assert is_sampled(f"00-{TRACE}-{SPAN}-02".encode()) is False
    assert is_sampled(f"cc-{TRACE}-{SPAN}-01-more".encode()) is True
    assert is_sampled(f"00-{TRACE}-{SPAN}-01x".encode()) is None


def test_nothing_is_imported_unless_it_is_on() -> None:
    """And a package that is missing is named."""
    code = """
import sys
sys.modules["opentelemetry"] = None
from streams import StreamsBuilder, TopologyTestDriver
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").to("out")
TopologyTestDriver(builder).close()
try:
    TopologyTestDriver(builder, {"otel.traces": 1})
except Exception as error:
    print(type(error).__name__, error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("ConfigError otel.traces needs OpenTelemetry: pip install 'streams-for-kafka[otel]'")


def test_what_the_page_shows_works() -> None:
    """In a process of its own, since a provider can be set only once."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert sum("opentelemetry" in block for block in blocks) == 1
    subprocess.run([sys.executable, "-c", "\n".join(blocks)], check=True)


def test_a_sampler_that_begins_no_trace_is_noticed() -> None:
    """Each record would be asked about; one with a trace goes on in it."""
    code = """
import logging
logging.basicConfig()
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import DEFAULT_OFF
from streams import StreamsConfig
from streams.telemetry import spans_by
config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", "otel.traces": 1})
print(spans_by(config).probe.args[1])
trace.set_tracer_provider(TracerProvider(sampler=DEFAULT_OFF))
print(spans_by(config).probe.args[1])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1.0", "0.0"]
    assert "no tracer provider is: no span is exported" in found.stderr
