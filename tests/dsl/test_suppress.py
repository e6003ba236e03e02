"""Suppression of a table: what may be said, when what waits is sent on, and what others see of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import BufferConfig, KTable, Materialized, SessionWindows, StreamsBuilder, Suppressed
from dsl.processors.suppress import Suppress
from processor_api.errors import StateError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import change_buffer_builder
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from state.formats.windowed_serdes import WindowedSerdes
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
UNBOUNDED = BufferConfig.unbounded()


# ----------------------------------------------------------------------------- options


def test_limits_and_strategies() -> None:
    """As in Kafka Streams: limits emit early unless told otherwise, no limit is strict."""
    assert (
        type(BufferConfig.max_records(1)) is type(BufferConfig.max_bytes(1)) is type(UNBOUNDED.emit_early_when_full())
    )
    strict = BufferConfig.max_records(7).with_max_bytes(9).with_logging_enabled({"a": "b"}).shut_down_when_full()
    assert type(strict) is type(UNBOUNDED)
    assert (strict.record_limit, strict.byte_limit, strict.topic_config) == (7, 9, {"a": "b"})
    assert strict.with_no_bound() == UNBOUNDED.with_logging_enabled({"a": "b"})
    assert strict.with_max_records(8).record_limit == 8
    assert not strict.with_logging_disabled().logging
    assert Suppressed.until_time_limit(timedelta(seconds=2), strict).wait_ms == 2000


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: BufferConfig.max_records(-1),
            "records of a suppression's buffer must be a non-negative number, got -1",
        ),
        (lambda: BufferConfig.max_bytes(1.5), "bytes of a suppression's buffer must be a non-negative number, got 1.5"),  # type: ignore[arg-type]
        (lambda: Suppressed.until_time_limit(-1, UNBOUNDED), "time_to_wait must not be negative"),
        (lambda: Suppressed.until_time_limit(1, BufferConfig()), "needs BufferConfig.max_records"),
        (lambda: Suppressed.until_window_closes(BufferConfig.max_records(1)), "emits early when it is full"),  # type: ignore[arg-type]
        (lambda: Suppressed.until_time_limit(1, UNBOUNDED).with_name("a b"), "contains a character"),
        (lambda: StreamsBuilder().table("t").suppress("soon"), "suppress needs Suppressed.until_time_limit"),  # type: ignore[arg-type]
        (
            lambda: StreamsBuilder().table("t").suppress(Suppressed.until_window_closes(UNBOUNDED)),
            "does not have windows",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], words: str) -> None:
    """Where it is said."""
    with pytest.raises(TopologyError, match=words):
        make()


def test_a_generated_name_is_refused_where_names_must_be_given() -> None:
    """KIP-1111; a buffer without a changelog has no name on the cluster."""
    strict = {"ensure.explicit.internal.resource.naming": True}
    for buffer, name, refused in (
        (UNBOUNDED, None, True), (UNBOUNDED, "n", False), (UNBOUNDED.with_logging_disabled(), None, False),
    ):  # fmt: skip
        builder = StreamsBuilder()
        how = Suppressed.until_time_limit(1, buffer)
        builder.table("in", materialized="t").suppress(how if name is None else how.with_name(name)).to_stream()
        if refused:
            with pytest.raises(TopologyError, match="buffers KTABLE-SUPPRESS-STATE-STORE-0000000003"):
                builder.build(strict)
        else:
            builder.build(strict)


def test_the_buffer_is_on_the_application_s_engine() -> None:
    for store, engine in (("rocksDB", ROCKSDB), ("in_memory", MEMORY)):
        builder = StreamsBuilder()
        builder.table("in").suppress(Suppressed.until_time_limit(1, UNBOUNDED).with_name("n")).to_stream()
        assert builder.build({"default.dsl.store": store}).stores["n-store"].supplier.engine == engine


# --------------------------------------------------------------------------- time limit


class Seen(Processor[Any, Any, Any, Any]):
    """Tells what it sees of the record's context."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def process(self, record: Record[Any, Any]) -> None:
        found = self.context.record_metadata
        assert found is not None
        self.seen.append((record.key, record.value, record.timestamp, list(record.headers), found.topic, found.offset))


def rate_limited(wait_ms: int, buffer: BufferConfig, seen: list[Any], *, caching: bool = False) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in", materialized=Materialized(name="t", caching=caching))
    limited = table.suppress(Suppressed.until_time_limit(wait_ms, buffer).with_name("n"))
    limited.to_stream().process(lambda: Seen(seen))
    return builder.build()


updates = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from("xyz"), st.integers(0, 40)), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(updates, st.integers(0, 20), st.none() | st.integers(0, 3), st.booleans())
def test_a_time_limit(given_updates: list[Any], wait: int, most: int | None, caching: bool) -> None:
    """Against a sorted list: a key's last change waits at the time of the first that waits; the oldest leaves first,
    when it is due or when there are too many; each has the context it came with."""
    seen: list[Any] = []
    expected: list[Any] = []
    waiting: dict[str, Any] = {}
    table: dict[str, str] = {}
    now = -1
    buffer = UNBOUNDED if most is None else BufferConfig.max_records(most)
    with TopologyTestDriver(rate_limited(wait, buffer, seen, caching=caching), CONFIG) as driver:
        source = driver.create_input_topic("in", S, S)
        for offset, (key, value, time) in enumerate(given_updates):
            source.pipe_input(key, value, timestamp=time, headers=[("n", str(offset).encode())])
            known = key in table
            table[key] = value
            if value is None:
                del table[key]
                if caching and not known:
                    continue  # a cache forwards no deletion of what nobody knows
            now = max(now, time)
            first = waiting.pop(key, (time,))[0]
            waiting[key] = first, (key, value, time, [("n", str(offset).encode())], "in", offset)
            for due, oldest in sorted((entry[0], k) for k, entry in waiting.items()):
                if due <= now - wait or (most is not None and len(waiting) > most):
                    expected.append(waiting.pop(oldest)[1])
            assert seen == expected
            view = driver.get_state_store("n-store")
            assert view.num_records() == len(waiting)


def test_a_full_buffer_ends_the_application_if_told_to() -> None:
    """It is no business of a handler of records: what waits must not be sent on early, nor be lost."""
    topology = rate_limited(100, BufferConfig.max_records(1).shut_down_when_full(), [])
    config = {**CONFIG, "processing.exception.handler": "processor_api.handlers:log_and_continue_processing"}
    with TopologyTestDriver(topology, config) as driver:
        source = driver.create_input_topic("in", S, S)
        source.pipe_input("a", "1", timestamp=1)
        with pytest.raises(StateError, match=r"buffer of node 'n' is full: 2 of 1 records, .* of any number of bytes"):
            source.pipe_input("b", "1", timestamp=1)


# --------------------------------------------------------------------- until windows close


class AsWindows(Processor[str, str, Any, Any]):
    """Updates of a windowed table: ``key@start``; a value of ``-`` deletes."""

    def process(self, record: Record[str, str]) -> None:
        key, _, start = record.key.partition("@")
        windowed = Windowed(key, Window(int(start), int(start) + 10))
        value = None if record.value == "-" else record.value
        self.context.forward(Record(windowed, (value, None), record.timestamp))


class New(Processor[Any, Any, Any, Any]):
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def process(self, record: Record[Any, Any]) -> None:
        self.seen.append((record.key.key, record.key.window.start, record.value[0], record.timestamp))


def test_final_results_of_windows() -> None:
    """One for each window, in order of their ends, when stream time has passed the end by the grace; deletions are not
    sent on, since nobody has seen what they delete."""
    seen: list[Any] = []
    operator = Suppress(buffer="buffer", wait_ms=5, by_window=True)
    buffer = change_buffer_builder("buffer", WindowedSerdes.time_windowed_serde_from(S, 10), S)
    topology = (
        Topology()
        .add_source("source", "in", key_serde=S, value_serde=S)
        .add_processor("windows", AsWindows, "source")
        .add_processor("suppress", operator, "windows")
        .add_processor("seen", lambda: New(seen), "suppress")
        .add_state_store(buffer, "suppress")
    )
    with TopologyTestDriver(topology, CONFIG) as driver:
        source = driver.create_input_topic("in", S, S)
        for key, value, time in [
            ("b@10", "1", 12), ("a@10", "1", 13), ("a@0", "1", 3), ("a@10", "2", 14), ("c@0", "1", 3), ("c@0", "-", 3),
        ]:  # fmt: skip
            source.pipe_input(key, value, timestamp=time)
        assert seen == []
        source.pipe_input("d@10", "1", timestamp=15)
        assert seen == [("a", 0, "1", 3)], "the window that ends at 10 closes at 15; c was deleted"
        source.pipe_input("d@10", "2", timestamp=24)
        assert len(seen) == 1
        source.pipe_input("z@20", "1", timestamp=25)
        assert seen[1:] == [("a", 10, "2", 14), ("b", 10, "1", 12), ("d", 10, "2", 24)]
        assert driver.get_state_store("buffer").num_records() == 1


@pytest.mark.parametrize(("defects", "finals"), [("cure", 1), ("keep", 2)])
def test_a_session_has_one_final_result(defects: str, finals: int) -> None:
    """At exactly the gap and the grace period behind its end it was sent on, and took one more record."""
    builder = StreamsBuilder()
    sessions = SessionWindows.of_inactivity_gap_and_grace(8, 12)
    counts: Any = builder.stream("in").group_by_key().windowed_by(sessions).count()
    final = counts.suppress(Suppressed.until_window_closes(UNBOUNDED))
    final.to_stream(lambda windowed, _: windowed.key).map_values(str).to("out")
    with TopologyTestDriver(builder, {**CONFIG, "dsl.java.defects": defects}) as driver:
        records = driver.create_input_topic("in")
        for key, time in (("a", 80), ("b", 100), ("a", 80), ("b", 101), ("b", 200)):
            records.pipe_input(key, "x", timestamp=time)
        found = [value for key, value in driver.create_output_topic("out").read_key_values() if key == "a"]
    assert len(found) == finals
    assert found[-1] == "2"
