"""The trace of a test driver: which records are followed, and what has a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from dsl import BufferConfig, Consumed, Grouped, Materialized, Produced, StreamsBuilder, Suppressed
from processor_api.errors import ConfigError, ProcessingError, StreamsError, TopologyError
from processor_api.handlers import log_and_continue, log_and_continue_processing
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams.testing import RecordTrace, TopologyTestDriver

S, LONG = Serdes.STRING, Serdes.LONG
SETTINGS = {"default.key.serde": S, "default.value.serde": S}
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


def word_count(materialized: Materialized[Any, Any] | str = "counts") -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values(lambda line: line.split())
    counts = words.group_by(lambda _, word: word, Grouped(name="words")).count(materialized=materialized)
    counts.to_stream().to("out", Produced(value_serde=LONG))
    return builder.build()


def steps(trace: RecordTrace, *wanted: str) -> list[tuple[Any, ...]]:
    """Step, key, value and old value of the rows of some kinds."""
    return [(row.step, row.key, row.value, row.old) for row in trace.rows if row.step in wanted]


def notes(trace: RecordTrace, step: str) -> list[str]:
    return [row.note for row in trace.rows if row.step == step]


class Tally(Processor[Any, Any, Any, Any]):
    """Counts values by key; forwards nothing for the value "quiet", fails for "bad"."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.counts = context.get_state_store("tally")

    def process(self, record: Record[Any, Any]) -> None:
        if record.value == "bad":
            raise ValueError("a bad value\nwith a second line")
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        if record.value != "quiet":
            self.context.forward(record.with_value(str(count)))


def tally(supplier: Callable[[], Any] = Tally, **options: Any) -> Topology:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("tally"), S, LONG)
    topology = Topology().add_source("source", "in").add_processor("tally", supplier, "source")
    return topology.add_state_store(store, "tally").add_sink("sink", "out", "tally", **options)


@GUARANTEES
def test_a_record_is_followed_from_its_source_to_the_commit(guarantee: str) -> None:
    with TopologyTestDriver(tally(), {**SETTINGS, "processing.guarantee": guarantee}) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_key_values([("a", "x"), ("a", "y")], start_timestamp=7)
        found = [(row.step, row.node, row.place, row.key, row.value, row.old) for row in trace.of("in-0@1")]
    assert found == [
        ("read", "source", "in-0@1", "a", "y", None),
        ("process", "tally", None, "a", "y", None),
        ("get", "tally", "tally", "a", 1, None),
        ("put", "tally", "tally", "a", 2, 1),
        ("changelog", "tally", "test-application-tally-changelog-0@1", "a", 2, None),
        ("send", "sink", "out-0", "a", "2", None),
        ("commit", None, None, None, None, None),
    ]
    assert trace.records == ["in-0@0", "in-0@1"]
    assert notes(trace, "get") == ["not in the store", "from the cache"]
    assert notes(trace, "read")[0] == "timestamp 7"


def test_by_key_a_record_is_followed_from_where_it_gets_the_key() -> None:
    with TopologyTestDriver(word_count(), SETTINGS) as driver:
        trace = driver.trace(keys=["to"])
        driver.create_input_topic("lines").pipe_key_values([(None, "to be or not to be"), (None, "or be")])
    assert trace.records == ["lines-0@0"]
    assert trace.rows[0].step == "read"
    assert trace.rows[0].value == "to be or not to be"
    assert {row.key for row in trace.rows[1:] if row.key is not None} == {"to"}
    assert steps(trace, "put", "drain") == [
        ("put", "to", 1, None),
        ("drain", "to", 1, None),
        ("put", "to", 2, 1),
        ("drain", "to", 2, None),
    ]
    assert [row.value for row in trace.rows if row.place == "out-0"] == [1, 2]


def test_the_trace_goes_on_behind_a_repartition_topic_and_its_header_does_not() -> None:
    class Headers(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value(str(list(record.headers))))

    builder = StreamsBuilder()
    other = builder.stream("in").select_key(lambda key, value: value).repartition()
    other.process(Headers).to("out")
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace(keys=["a"])
        lines = driver.create_input_topic("in")
        lines.pipe_input("a", "x", headers=[("mine", b"1")])
        lines.pipe_input("b", "y")
        out = driver.create_output_topic("out").read_records()
    assert trace.records == ["in-0@0"]
    assert [row.key for row in trace.rows if row.step == "read"] == ["a", "x"]
    assert notes(trace, "read")[1] == "timestamp 0, continued from the other side of this topic"
    assert [(record.key, record.value) for record in out] == [("x", "[('mine', b'1')]"), ("y", "[]")]
    assert [list(record.headers) for record in out] == [[("mine", b"1")], []]


def test_one_in_n_counts_the_records_of_input_topics() -> None:
    with TopologyTestDriver(word_count(), SETTINGS) as driver:
        trace = driver.trace(every=2)
        driver.create_input_topic("lines").pipe_key_values([(None, "a b c")] * 4)
    assert trace.records == ["lines-0@0", "lines-0@2"]


def test_only_records_of_the_topics_asked_for_are_followed() -> None:
    builder = StreamsBuilder()
    builder.stream(["one", "two"]).to("out")
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace(keys="a", topics=["two"])
        for topic in ("one", "two"):
            driver.create_input_topic(topic).pipe_input("a", "x")
    assert trace.records == ["two-0@0"]


@pytest.mark.parametrize(
    ("serde", "key", "wanted"),
    [(LONG, 42, "42"), (LONG, 42, [42]), (Serdes.BYTES, b"42", "42"), (S, "a,b", '["a,b"]'), (S, None, "[null]")],
)
def test_keys_of_any_kind_are_found(serde: Any, key: Any, wanted: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(key_serde=serde)).to("out", Produced(key_serde=serde))
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace(keys=wanted)
        topic = driver.create_input_topic("in", serde)
        topic.pipe_input(key, "x")
        topic.pipe_input(serde.deserialize(serde.serialize(7 if serde is LONG else b"7" if key == b"42" else "7")), "y")
    assert trace.records == ["in-0@0"]


def test_a_change_that_is_replaced_in_the_cache_has_a_row() -> None:
    """A cache makes one change of several that a record causes: the trace says which is never sent on."""
    builder = StreamsBuilder()
    twice = builder.stream("in").flat_map_values(lambda value: [value, value])
    twice.group_by_key().count(materialized="counts").to_stream().to("out", Produced(value_serde=LONG))
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_input("a", "x")
        assert driver.create_output_topic("out", value_serde=LONG).read_values() == [2]
    assert steps(trace, "put", "drain") == [("put", "a", 1, None), ("put", "a", 2, 1), ("drain", "a", 2, None)]
    assert "forwarded nothing yet, waits in the cache of counts" in notes(trace, "stop")


def test_without_a_cache_changes_are_forwarded_at_once() -> None:
    with TopologyTestDriver(word_count(Materialized(name="counts", caching=False)), SETTINGS) as driver:
        trace = driver.trace(keys=["a"])
        driver.create_input_topic("lines").pipe_input(None, "a")
    assert not steps(trace, "drain", "stop")
    assert [row.value for row in trace.rows if row.place == "out-0"] == [1]


def test_a_node_that_forwards_nothing_has_a_row() -> None:
    builder = StreamsBuilder()
    builder.stream("in").filter(lambda key, value: value != "x").to("out")
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_key_values([("a", "x"), ("a", "y")])
    assert [(row.record, row.step, row.note) for row in trace.rows if row.step in ("stop", "send")] == [
        ("in-0@0", "stop", "forwarded nothing"),
        ("in-0@1", "send", "handed to the producer, timestamp 0"),
    ]


def test_what_a_node_drops_has_a_row_with_the_reason() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count().to_stream().to("out", Produced(value_serde=LONG))
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_input(None, "x")
        assert driver.metrics()["dropped-records-total"] == 1
    assert notes(trace, "drop") == ["null key or value"]


def test_a_record_that_fails_has_a_row_whether_the_handler_goes_on_or_not() -> None:
    handler = {"processing.exception.handler": log_and_continue_processing}
    with TopologyTestDriver(tally(), {**SETTINGS, **handler}) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_input("a", "bad")
    assert notes(trace, "drop") == ["failed, and the handler resumes: ValueError: a bad value\\nwith a second line"]
    driver = TopologyTestDriver(tally(), SETTINGS)
    trace = driver.trace()
    with pytest.raises(ProcessingError, match=r"^ValueError in node 'tally': a bad value"):
        driver.create_input_topic("in").pipe_input("a", "bad")
    driver.close()
    (row,) = [row for row in trace.rows if row.step == "fail"]
    assert row.node == "tally"
    assert row.note.startswith("ProcessingError: ValueError in node 'tally': a bad value\\nwith a second line")
    assert [row.step for row in trace.rows][-1] == "rollback"


def test_a_record_that_cannot_be_read_has_rows() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(value_serde=LONG)).to("out", Produced(value_serde=LONG))
    handler = {"deserialization.exception.handler": log_and_continue}
    for keys in (None, "a"):
        with TopologyTestDriver(builder.build(), {**SETTINGS, **handler}) as driver:
            trace = driver.trace(keys=keys)
            driver.pipe_raw("in", b"a", b"short", 0)
            driver.pipe_raw("in", b"b", LONG.serialize(1), 0)
        assert [(row.step, row.value) for row in trace.of("in-0@0")][:2] == [("read", b"short"), ("drop", None)]
        assert notes(trace, "drop")[0].startswith("the value cannot be read: ")
        assert trace.records == (["in-0@0", "in-0@1"] if keys is None else ["in-0@0"])


def test_a_record_with_a_negative_time_has_rows() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(timestamp_extractor=lambda record, time: -1)).to("out")
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_input("a", "x")
    assert notes(trace, "drop") == ["its timestamp extractor returned a negative time, -1"]


class Reset(Tally):
    """Deletes a key by the wall clock, and forwards that it did."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, self.reset)

    def reset(self, now_ms: int) -> None:
        self.counts.delete("a")
        self.context.forward(Record("a", "reset", now_ms))


@pytest.mark.parametrize(("asked", "commits"), [({"keys": "a"}, 2), ({"every": 1}, 1)])
def test_what_a_punctuation_does_is_said_to_be_one_of_a_punctuation(asked: Any, commits: int) -> None:
    with TopologyTestDriver(tally(Reset), SETTINGS) as driver:
        trace = driver.trace(**asked)
        driver.create_input_topic("in").pipe_input("a", "x")
        driver.advance_wall_clock_time(timedelta(seconds=1))
    rows = trace.of("punctuation-tally@1000")
    found = [(row.step, row.key, row.value, row.old) for row in rows if row.step != "punctuate"]
    assert found == [
        ("delete", "a", None, 1),
        ("changelog", "a", None, None),
        ("send", "a", "reset", None),
        *[("commit", None, None, None)] * commits,
    ]


def test_by_key_a_store_call_of_another_record_is_found() -> None:
    """Somebody else's put on the row that is wrong is what one looks for."""

    class Meddler(Tally):
        def process(self, record: Record[Any, Any]) -> None:
            self.counts.put("victim", 0)

    with TopologyTestDriver(tally(Meddler), SETTINGS) as driver:
        trace = driver.trace(keys=["victim"])
        driver.create_input_topic("in").pipe_input("innocent", "x")
    assert [(row.record, row.step, row.key) for row in trace.rows if row.step in ("read", "put")] == [
        ("in-0@0", "read", "innocent"),
        ("in-0@0", "put", "victim"),
    ]


def test_what_a_suppression_holds_back_is_followed_when_it_leaves() -> None:
    builder = StreamsBuilder()
    limit = Suppressed.until_time_limit(timedelta(seconds=1), BufferConfig.unbounded())
    counts = builder.stream("in").group_by_key().count().suppress(limit)
    counts.to_stream().to("out", Produced(value_serde=LONG))
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace(keys=["a"])
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", "x", 0)
        topic.pipe_input("b", "x", 5000)
        assert ("a", 1) in driver.create_output_topic("out", value_serde=LONG).read_key_values()
    assert trace.records == ["in-0@0"]
    assert [row.step for row in trace.rows if row.step in ("buffer", "release", "send")] == [
        "buffer",
        "release",
        "send",
    ]


def test_window_stores_have_rows_with_the_window_and_what_is_too_late_is_said() -> None:
    class Windows(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.store = context.get_state_store("windows")

        def process(self, record: Record[Any, Any]) -> None:
            start = record.timestamp // 10 * 10
            self.store.put(record.key, record.value, start)
            with self.store.fetch_range(record.key, 0, start) as found:
                list(found)

    store = Stores.window_store_builder(Stores.in_memory_window_store("windows", 100, 10), S, S)
    topology = Topology().add_source("source", "in").add_processor("windows", Windows, "source")
    with TopologyTestDriver(topology.add_state_store(store, "windows"), SETTINGS) as driver:
        trace = driver.trace()
        topic = driver.create_input_topic("in")
        for time in (1000, 1003, 2):
            topic.pipe_input("a", str(time), time)
    assert steps(trace, "put") == [
        ("put", "a", "1000", None),
        ("put", "a", "1003", "1000"),
        ("put", "a", "2", None),
    ]
    assert [note for note in notes(trace, "put") if "too late" in note] == [notes(trace, "put")[2]]
    assert notes(trace, "put")[0].startswith("with 1000")
    assert [(row.key, row.value) for row in trace.rows if row.step == "row"] == [(1000, "1000"), (1000, "1003")]


def test_versioned_stores_and_stores_with_headers_have_rows() -> None:
    class Both(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.versions = context.get_state_store("versions")
            self.times = context.get_state_store("times")

        def process(self, record: Record[Any, Any]) -> None:
            self.versions.put(record.key, record.value, record.timestamp)
            self.versions.get(record.key)
            self.times.put_if_absent(record.key, (record.value, record.timestamp))

    stores = [
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("versions", 1000), S, S),
        Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("times"), S, S),
    ]
    topology = Topology().add_source("source", "in").add_processor("both", Both, "source")
    for store in stores:
        topology.add_state_store(store, "both")
    with TopologyTestDriver(topology, SETTINGS) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_key_values([("a", "x"), ("a", "y")], start_timestamp=5, advance=1)
    assert steps(trace, "put") == [("put", "a", "x", None), ("put", "a", "y", b"x")]
    assert [row.value.value for row in trace.rows if row.step == "get"] == ["x", "y"]
    assert [row.note for row in trace.rows if row.step == "put_if_absent"][1] == "changed nothing"
    assert [row.place for row in trace.rows if row.step == "changelog"] == [
        "test-application-versions-changelog-0@0",
        "test-application-times-changelog-0@0",
        "test-application-versions-changelog-0@1",
    ]


def test_global_stores_are_followed_by_those_that_write_and_those_that_read() -> None:
    class Look(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.names = context.get_state_store("names")

        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value(self.names.get(record.key).value))

    builder = StreamsBuilder()
    builder.global_table("names", materialized="names")
    builder.stream("in").process(Look).to("out")
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        trace = driver.trace(keys=["a"])
        driver.create_input_topic("names").pipe_input("a", "ann")
        driver.create_input_topic("in").pipe_input("a", "x")
        assert driver.create_output_topic("out").read_values() == ["ann"]
    assert [row.step for row in trace.of("names-0@0")][-1] == "commit"
    assert {row.task for row in trace.of("names-0@0")} == {"global"}
    assert [row.value.value for row in trace.of("in-0@0") if row.step == "get"] == ["ann"]


def test_secrets_and_long_values_are_masked_and_cut_in_the_table() -> None:
    @dataclass
    class Login:
        user: str
        password: str

    class Values(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            for value in (
                {"api.token": "hunter2", "deep": [{"secret": "hunter2"}]},
                Login("ann", "hunter2"),
                "x" * 900,
            ):
                self.context.forward(record.with_value(value))

    class Nothing(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            pass

    topology = Topology().add_source("source", "in").add_processor("values", Values, "source")
    with TopologyTestDriver(topology.add_processor("end", Nothing, "values"), SETTINGS) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_input("a\n\x1b[2J", "x")
    texts = [row.texts.value for row in trace.rows if row.node == "end" and row.step == "process"]
    assert "hunter2" not in str(trace)
    assert texts[0] == "{'api.token': ********, 'deep': [{'secret': ********}]}"
    assert texts[1] == "Login(user='ann', password=********)"
    assert len(texts[2]) < 600
    assert trace.rows[0].texts.key == "'a\\n\\x1b[2J'"
    assert len(str(trace).splitlines()) == len(trace) + 1


def test_a_dead_letter_is_sent_with_a_row() -> None:
    handlers = {
        "processing.exception.handler": log_and_continue_processing,
        "errors.dead.letter.queue.topic.name": "letters",
    }
    with TopologyTestDriver(tally(), {**SETTINGS, **handlers}) as driver:
        trace = driver.trace()
        driver.create_input_topic("in").pipe_input("a", "bad")
    assert [row.place for row in trace.rows if row.step == "send"] == ["letters-0"]
    assert "a dead letter" in notes(trace, "send")[0]


# ---------------------------------------------------------------------------- the tool


def test_it_prints_as_a_table() -> None:
    with TopologyTestDriver(tally(), SETTINGS) as driver:
        trace = driver.trace()
        assert str(trace) == "no record was followed"
        driver.create_input_topic("in").pipe_input("a", "x")
        lines = str(trace).splitlines()
        assert lines[0].split() == ["record", "us", "step", "node", "place", "key", "value", "old", "note"]
        assert lines[1].split()[:4] == ["in-0@0", "0", "read", "source"]
        assert "in-0@0" not in "".join(lines[2:])
        assert repr(trace) == f"RecordTrace({len(trace)} steps of 1 records)"
        trace.clear()
        assert not trace.rows
        assert driver.trace() is trace


def test_the_configuration_may_ask_for_it() -> None:
    with TopologyTestDriver(tally(), {**SETTINGS, "trace.keys": ["a"]}) as driver:
        driver.get_state_store("tally").put("b", 1)
        driver.create_input_topic("in").pipe_key_values([("a", "x"), ("b", "x")])
        assert driver.trace().records == ["in-0@0"]


def test_a_driver_that_is_asked_twice_follows_what_it_was_asked_last() -> None:
    with TopologyTestDriver(tally(), {**SETTINGS, "trace.keys": ["a"]}) as driver:
        driver.trace(every=1)
        trace = driver.trace(keys=["b"])
        topic, out = driver.create_input_topic("in"), driver.create_output_topic("out")
        topic.pipe_key_values([("a", "x"), ("b", "x")])
        assert trace.records == ["in-0@1"]
        assert out.read_values() == ["1", "1"]


def test_what_was_written_before_it_began_is_not_there_twice() -> None:
    class Greets(Tally):
        def init(self, context: Any) -> None:
            super().init(context)
            context.forward(Record("hello", "x", 0))

    with TopologyTestDriver(tally(Greets), SETTINGS) as driver:
        out = driver.create_output_topic("out")
        trace = driver.trace()
        assert out.read_key_values() == [("hello", "x")]
        assert out.is_empty
        assert trace.records == []


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"every": 0}, "trace.every must be at least 1, got 0"),
        ({"every": "often"}, "trace.every must be a whole number, got 'often'"),
        ({"keys": '["a'}, "trace.keys starts like a JSON array but cannot be read as one"),
        ({"keys": "a,,b"}, "trace.keys must not have an empty key between two commas"),
        ({"keys": 5}, "trace.keys must be keys separated by commas, a JSON array or a list of keys, got 5"),
        ({"keys": ["a"], "every": 2}, "trace.keys and trace.every are both set"),
        ({"keys": []}, "trace.keys is empty"),
    ],
)
def test_what_cannot_be_read_is_an_error(arguments: Any, wanted: str) -> None:
    with TopologyTestDriver(tally(), SETTINGS) as driver:
        with pytest.raises(ConfigError) as caught:
            driver.trace(**arguments)
        assert wanted in str(caught.value)
        driver.create_input_topic("in").pipe_input("a", "x")  # the driver works on as it was
        assert driver.create_output_topic("out").read_values() == ["1"]


def test_a_topic_that_nobody_reads_is_an_error() -> None:
    with (
        TopologyTestDriver(tally(), SETTINGS) as driver,
        pytest.raises(TopologyError, match="no source of the topology reads topic 'on'; there are 'in'"),
    ):
        driver.trace(topics=["on"])


def test_it_begins_before_the_driver_works() -> None:
    with TopologyTestDriver(tally(), SETTINGS) as driver:
        driver.create_input_topic("in").pipe_input("a", "x")
        with pytest.raises(StreamsError, match="the driver was already used: it has processed something"):
            driver.trace()
    with TopologyTestDriver(tally(), SETTINGS) as driver:
        driver.get_state_store("tally").put("a", 1)
        with pytest.raises(StreamsError, match="the driver was already used: it has given out a store"):
            driver.trace()
    with pytest.raises(StreamsError, match="closed"):
        driver.trace()
