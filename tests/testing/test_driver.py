"""The test driver: what it runs, what can be read from it, and how it says that it was used wrongly."""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.errors import ConfigError, DeserializationError, ProductionError, StreamsError, TopologyError
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.timestamps import wallclock_timestamp_extractor
from processor_api.topology.nodes import RepartitionTopic
from processor_api.topology.topology import Topology
from streams import Consumed, Grouped, Materialized, Produced, Repartitioned, StreamsBuilder, StreamsConfig
from streams.testing import TestRecord, TopologyTestDriver

ON_DISK: dict[str, Any] = {"rocksdb.config.setter": lambda store, options: None}
TEXT = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}


class Echo(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class Remember(Processor[Any, Any, Any, Any]):
    """Puts each value into each of its stores, and forwards it."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.plain, self.timed = context.get_state_store("plain"), context.get_state_store("timed")

    def process(self, record: Record[Any, Any]) -> None:
        self.plain.put(record.key, record.value)
        self.timed.put(record.key, None if record.value is None else ValueAndTimestamp(record.value, record.timestamp))
        self.context.forward(record)


def echo(*sources: str) -> Topology:
    topology = Topology()
    for name in sources or ("in",):
        topology.add_source(f"from-{name}", name)
    topology.add_processor("echo", Echo, *(f"from-{name}" for name in sources or ("in",)))
    return topology.add_sink("to", "out", "echo")


def remember(*, persistent: bool = True) -> Topology:
    topology = Topology().add_source("from", "in").add_processor("remember", Remember, "from")
    plain = Stores.persistent_key_value_store if persistent else Stores.in_memory_key_value_store
    timed = Stores.persistent_timestamped_key_value_store if persistent else Stores.in_memory_key_value_store
    topology.add_state_store(Stores.key_value_store_builder(plain("plain")), "remember")
    topology.add_state_store(Stores.timestamped_key_value_store_builder(timed("timed")), "remember")
    return topology.add_sink("to", "out", "remember")


def counting(config: Any = None) -> Topology:
    """Counts by value: a repartition topic, a cached store with a changelog, a table."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    grouped = stream.group_by(lambda key, value: value, Grouped(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    counts = grouped.count(materialized=Materialized[str, int](name="counts", value_serde=Serdes.LONG))
    counts.to_stream().to("out", Produced(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
    return builder.build(config)


# ---------------------------------------------------------------------- what it runs


def test_a_record_is_processed_through_all_subtopologies_before_the_call_returns() -> None:
    """The repartition topic is read again, the cache is drained, and every topic shows in what was produced."""
    with TopologyTestDriver(counting(), TEXT) as driver:
        words = driver.create_input_topic("in", Serdes.STRING, Serdes.STRING)
        counts = driver.create_output_topic("out", Serdes.STRING, Serdes.LONG)
        words.pipe_input("k", "a", 5)
        assert counts.read_record() == TestRecord("a", 1, 5)
        words.pipe_input("k", "a", 3)
        assert counts.read_record() == TestRecord("a", 2, 5)
        assert driver.produced_topic_names() == {
            "out", "test-application-counts-changelog", "test-application-counts-repartition",
        }  # fmt: skip
        assert driver.metrics()["process-total"] == 4


def test_records_of_one_time_are_processed_as_kafka_streams_driver_does() -> None:
    """Three topics got one each: after the first comes the last, which took the first one's place in the heap."""
    order: list[str] = []
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream("in")
    for name in "abc":
        changed = stream.select_key(lambda key, value: key).repartition(Repartitioned.as_(name))
        changed.foreach(lambda key, value, name=name: order.append(name))
    with TopologyTestDriver(builder, {}) as driver:
        driver.create_input_topic("in").pipe_input("k", "v", timestamp=5)
    assert order == ["a", "c", "b"]


def test_a_user_topic_that_is_read_again_is_processed_too() -> None:
    """And can be read as an output beside that."""
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda value: value + "1").to("middle")
    builder.stream("middle").map_values(lambda value: value + "2").to("out")
    with TopologyTestDriver(builder.build(), TEXT) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
        driver.create_input_topic("middle").pipe_input("k", "w")
        assert driver.create_output_topic("out").read_values() == ["v12", "w2"]
        assert driver.create_output_topic("middle").read_values() == ["v1"]


def test_a_pattern_takes_a_topic_at_its_first_record() -> None:
    topology = Topology().add_source("from", __import__("re").compile("in-.*")).add_sink("to", "out", "from")
    with TopologyTestDriver(topology, TEXT) as driver:
        for topic in ("in-1", "in-2", "in-1"):
            driver.create_input_topic(topic).pipe_input(topic, "v")
        assert [key for key, _ in driver.create_output_topic("out").read_key_values()] == ["in-1", "in-2", "in-1"]


def test_wall_clock_moves_only_when_told() -> None:
    """What a punctuation forwards is processed to the end as well."""

    class Ticking(Echo):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, self.tick)

        def tick(self, now_ms: int) -> None:
            self.context.forward(Record("tick", str(self.context.current_system_time_ms()), now_ms))

    topology = Topology().add_source("from", "in").add_processor("tick", Ticking, "from")
    topology.add_repartition_topic(RepartitionTopic(name="between")).add_sink("loop", "between", "tick")
    topology.add_source("again", "between").add_sink("to", "out", "again")
    start = datetime(2020, 1, 1, tzinfo=UTC)
    with TopologyTestDriver(topology, TEXT, initial_wall_clock_time=start) as driver:
        ticks = driver.create_output_topic("out")
        driver.create_input_topic("in").pipe_input("k", "v")
        assert ticks.read_values() == ["v"]
        driver.advance_wall_clock_time(999)
        assert ticks.is_empty
        driver.advance_wall_clock_time(timedelta(milliseconds=1))
        assert [record.record_time for record in ticks.read_records()] == [start + timedelta(seconds=1)]
        with pytest.raises(ValueError, match="the clock cannot go back"):
            driver.advance_wall_clock_time(-1)


def test_idling_is_by_the_driver_s_clock(caplog: pytest.LogCaptureFixture) -> None:
    """With ``max.task.idle.ms`` a record waits for the other input until the clock was advanced so far, or forever."""
    settings = {**TEXT, "max.task.idle.ms": 1000}
    with TopologyTestDriver(echo("left", "right"), settings) as driver:
        left, right = driver.create_input_topic("left"), driver.create_input_topic("right")
        out = driver.create_output_topic("out")
        left.pipe_input("l", "1", 10)
        assert out.is_empty
        right.pipe_input("r", "1", 5)
        assert out.read_key_values() == [("r", "1")]
        driver.advance_wall_clock_time(999)
        assert out.is_empty
        driver.advance_wall_clock_time(1)
        assert out.read_key_values() == [("l", "1")]
        right.pipe_input("r", "2", 11)
        with caplog.at_level(logging.WARNING):
            driver.close()
    assert out.is_empty
    assert "max.task.idle.ms" in caplog.text


def test_emit_throttles_stand_still_unless_they_are_set() -> None:
    with TopologyTestDriver(echo(), TEXT) as driver:
        assert driver.config.windowed_aggregation_emit_interval_ms == driver.config.outer_join_emit_interval_ms == 0
    given = StreamsConfig.of(
        {**TEXT, "application.id": "a", "bootstrap.servers": "b:1", "windowed_aggregation_emit_interval_ms": 7}
    )
    with TopologyTestDriver(echo(), given) as driver:
        assert driver.config.windowed_aggregation_emit_interval_ms == 7
        assert driver.config.application_id == "a"


def test_one_partition_is_all_there_is() -> None:
    """A partitioner sees one, and a record for another is refused."""
    seen: list[int] = []

    def choose(topic: str, key: Any, value: Any, headers: Any, total: int) -> list[int]:
        seen.append(total)
        return [int(value)]

    topology = Topology().add_source("from", "in").add_sink("to", "out", "from", partitioner=choose)
    with TopologyTestDriver(topology, TEXT) as driver:
        source = driver.create_input_topic("in")
        source.pipe_input("k", "0")
        with pytest.raises(StreamsError, match="chose partition 1, but the topic has 1"):
            source.pipe_input("k", "1")
        assert seen == [1, 1]
        with pytest.raises(ProductionError, match="has 1 partition in the test driver, there is no number 3"):
            driver._driven.collector.producer.produce("out", b"", b"", 3, None, None, 0, None)


# ---------------------------------------------------------------------- stores


def random_steps(seed: int, count: int = 300) -> list[tuple[str, str | None, int]]:
    chosen = random.Random(seed)
    return [
        (f"k{chosen.randrange(40):02}", chosen.choice(["a", "b", "cc", None]), chosen.randrange(1000))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_stores_show_the_same_wherever_their_rows_are(seed: int) -> None:
    """In memory as the driver has it, on RocksDB, and in stores of the kind in memory: reads, ranges, prefixes."""

    def run(persistent: bool, **settings: Any) -> list[Any]:
        seen: list[Any] = []
        with TopologyTestDriver(remember(persistent=persistent), TEXT | settings) as driver:
            source = driver.create_input_topic("in")
            for number, (key, value, timestamp) in enumerate(random_steps(seed)):
                source.pipe_input(key, value, timestamp)
                plain, timed = driver.get_state_store("plain"), driver.get_state_store("timed")
                seen.append((plain.get(key), timed.get(key)))
                if number % 50 == 0:
                    seen += [list(store.range("k1", "k3")) for store in (plain, timed)]
                    seen += [list(plain.reverse_all()), list(timed.prefix_scan("k2", Serdes.STRING))]
            seen.append([list(store.all()) for store in driver.get_all_state_stores().values()])
        return seen

    by_default = run(persistent=True)
    assert by_default == run(persistent=True, **ON_DISK)
    assert by_default == run(persistent=False)


def test_a_setter_of_options_gets_a_database(tmp_path: Path) -> None:
    """Whoever tunes RocksDB wants to see that it opens."""
    settings = {**TEXT, **ON_DISK, "state.dir": str(tmp_path)}
    with TopologyTestDriver(remember(), settings) as driver:
        driver.create_input_topic("in").pipe_input("k", "v", 1)
        assert list(tmp_path.glob("**/rocksdb/CURRENT"))
        assert driver.get_state_store("plain").get("k") == "v"
    assert not list(tmp_path.glob("**/CURRENT"))


def test_typed_getters() -> None:
    """A store with timestamps can be read and filled without them, and a wrong kind is told."""
    with TopologyTestDriver(remember(), TEXT) as driver:
        driver.create_input_topic("in").pipe_input("k", "v", 7)
        assert driver.get_key_value_store("plain").get("k") == "v"
        assert driver.get_timestamped_key_value_store("timed").get("k") == ValueAndTimestamp("v", 7)
        plainly = driver.get_key_value_store("timed")
        assert plainly.get("k") == "v"
        with plainly.all() as rows:
            assert list(rows) == [("k", "v")]
        plainly.put("new", "w")
        assert driver.get_state_store("timed").get("new") == ValueAndTimestamp("w", 0)
        with pytest.raises(TopologyError, match="'plain' is a key-value store and cannot be read as a timestamped-key"):
            driver.get_timestamped_key_value_store("plain")
        assert sorted(driver.get_all_state_stores()) == ["plain", "timed"]
        assert driver.get_state_store("plain") is driver.get_all_state_stores()["plain"]


def test_typed_getters_of_versions_headers_and_maps_of_a_size() -> None:
    """Each is itself, and no other, but for headers that are left out."""
    topology = remember()
    for store in (
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("versions", 1000)),
        Stores.timestamped_key_value_store_with_headers_builder(
            Stores.persistent_timestamped_key_value_store_with_headers("headers")
        ),
        Stores.key_value_store_builder(Stores.lru_map("map", 2)),
    ):
        topology.add_state_store(store, "remember")
    with TopologyTestDriver(topology, TEXT) as driver:
        getters = {
            "versions": driver.get_versioned_key_value_store,
            "headers": driver.get_timestamped_key_value_store_with_headers,
            "map": driver.get_key_value_store,
        }
        for name, getter in getters.items():
            assert getter(name) is driver.get_state_store(name)
            for other in getters.keys() - {name}:
                if (name, other) == ("map", "headers"):
                    continue
                with pytest.raises(TopologyError, match=f"store '{other}' is a .* and cannot be read as a"):
                    getter(other)


def test_a_timestamped_map_of_a_size_shows_its_values_alone() -> None:
    """The getter of key-value stores refused it. What is read and put through the view counts for which key goes."""
    topology = remember().add_state_store(
        Stores.timestamped_key_value_store_builder(Stores.lru_map("map", 2), Serdes.STRING, Serdes.STRING), "remember"
    )
    with TopologyTestDriver(topology, TEXT) as driver:
        shown = driver.get_key_value_store("map")
        for key in ("a", "b", "c"):
            shown.put(key, key.upper())
        assert shown.get("b") == "B"
        shown.put("d", "D")
        assert list(shown.all()) == [("b", "B"), ("d", "D")]
        assert shown.approximate_num_entries() == 2
        assert driver.get_timestamped_key_value_store("map").get("d").value == "D"


def test_typed_getters_of_windows_and_sessions() -> None:
    """The same, by kind."""
    topology = remember()
    windows, sessions = Stores.persistent_timestamped_window_store, Stores.persistent_session_store
    minute, day = timedelta(minutes=1), timedelta(days=1)
    for store in (
        Stores.timestamped_window_store_builder(windows("windows", day, minute)),
        Stores.session_store_builder(sessions("sessions", day)),
    ):
        topology.add_state_store(store, "remember")
    with TopologyTestDriver(topology, TEXT) as driver:
        driver.get_timestamped_window_store("windows").put("k", ValueAndTimestamp("v", 7), 5)
        assert driver.get_window_store("windows").fetch("k", 5) == "v"
        assert driver.get_state_store("windows").fetch("k", 5) == ValueAndTimestamp("v", 7)
        driver.get_session_store("sessions").put(Windowed("k", Window(1, 9)), "s")
        assert driver.get_session_store("sessions").fetch_session("k", 1, 9) == "s"
        for getter, store, says in (
            (driver.get_window_store, "sessions", "'sessions' is a session store and cannot be read as a window store"),
            (
                driver.get_session_store,
                "windows",
                "is a timestamped-window store and cannot be read as a session store",
            ),
            (driver.get_timestamped_session_store, "sessions", "cannot be read as a timestamped-session store"),
            (driver.get_timestamped_window_store, "plain", "cannot be read as a timestamped-window store"),
        ):
            with pytest.raises(TopologyError, match=says):
                getter(store)


def test_what_a_test_puts_into_a_store_is_there_for_the_next_record() -> None:
    """Logged and, where it was cached, sent on with the first commit."""
    with TopologyTestDriver(counting(), TEXT) as driver:
        driver.get_state_store("counts").put("a", ValueAndTimestamp(41, 9))
        driver.create_input_topic("in").pipe_input("k", "a", 5)
        counts = driver.create_output_topic("out", Serdes.STRING, Serdes.LONG)
        assert counts.read_records() == [TestRecord("a", 41, 9), TestRecord("a", 42, 9)]
        changelog = driver.create_output_topic("test-application-counts-changelog", Serdes.STRING, Serdes.LONG)
        assert changelog.read_key_values() == [("a", 41), ("a", 42)]


# ---------------------------------------------------------------------- state and its directory


def test_state_is_in_a_directory_that_goes_with_the_driver(tmp_path: Path) -> None:
    """Inside of ``state.dir`` where that is given, which is made if need be."""
    directory = tmp_path / "new" / "state"
    with TopologyTestDriver(remember(), {**TEXT, "state.dir": str(directory)}) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
        assert driver._driven.directory.parent == directory
    assert list(directory.iterdir()) == []


def test_a_topology_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    class Failing(Echo):
        def init(self, context: Any) -> None:
            raise RuntimeError("not today")

    topology = Topology().add_source("from", "in").add_processor("failing", Failing, "from")
    with pytest.raises(StreamsError, match="'failing' could not be initialised: RuntimeError: not today"):
        TopologyTestDriver(topology, {**TEXT, "state.dir": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- used wrongly


def test_unknown_names_are_told_with_what_was_perhaps_meant() -> None:
    with TopologyTestDriver(remember(), TEXT) as driver:
        with pytest.raises(TopologyError, match=r"no source of the topology reads topic 'inn'; did you mean 'in'\?"):
            driver.create_input_topic("inn").pipe_input("k", "v")
        with pytest.raises(TopologyError, match="no source of the topology reads topic 'elsewhere'; there are 'in'"):
            driver.pipe_raw("elsewhere", None, None, 0)
        with pytest.raises(TopologyError, match=r"the topology does not have store 'plane'; did you mean 'plain'\?"):
            driver.get_state_store("plane")
        with pytest.raises(TopologyError, match=r"no sink .* writes to topic 'outt'; did you mean 'out'\?"):
            driver.create_output_topic("outt").read_value()
        with pytest.raises(LookupError, match="'out' has no records: nothing was written to it yet"):
            driver.create_output_topic("out").read_value()
        driver.create_input_topic("in").pipe_input("k", "v")
        out = driver.create_output_topic("out")
        assert out.read_value() == "v"
        with pytest.raises(LookupError, match="topic 'out' does not have more records"):
            out.read_value()


def test_an_output_that_the_serdes_of_the_test_cannot_read_is_told_and_stays() -> None:
    with TopologyTestDriver(remember(), TEXT) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
        wrong = driver.create_output_topic("out", Serdes.STRING, Serdes.LONG)
        says = (
            "the value of a record of topic 'out' cannot be read by the test: ValueError: long: .*create_output_topic"
        )
        with pytest.raises(DeserializationError, match=says):
            wrong.read_value()
        assert driver.create_output_topic("out").read_value() == "v"


def test_a_topic_that_an_extractor_may_write_to_is_not_unknown() -> None:
    topology = Topology().add_source("from", "in").add_sink("to", lambda key, value, context: value, "from")
    with TopologyTestDriver(topology, TEXT) as driver:
        later = driver.create_output_topic("later")
        with pytest.raises(LookupError, match="'later' has no records: nothing was written to it yet"):
            later.read_value()
        driver.create_input_topic("in").pipe_input("k", "later")
        assert later.read_value() == "later"


def test_a_missing_serde_is_told() -> None:
    topology = Topology().add_source("from", "in", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    topology.add_sink("one", lambda *_: "gold", "from", value_serde=Serdes.LONG)
    topology.add_sink("two", lambda *_: "gold", "from", value_serde=Serdes.STRING)
    says = r"'other' may be chosen by functions of the sinks 'one', 'two', which have different .*give value_serde= to"
    with (
        TopologyTestDriver(topology, {"default.key.serde": Serdes.STRING}) as driver,
        pytest.raises(ConfigError, match=says),
    ):
        driver.create_output_topic("other", Serdes.STRING)


def test_a_topic_has_the_serdes_of_its_source_or_sink() -> None:
    topology = Topology().add_source("from", "in", key_serde="string", value_serde="long")
    topology.add_sink("to", "out", "from", key_serde="string", value_serde="long")
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in").pipe_input("k", 3)
        assert driver.create_output_topic("out", value_serde="bytes").read_value() == bytes([0] * 7 + [3])
        driver.create_input_topic("in").pipe_input("k", 4)
        assert driver.create_output_topic("out").read_value() == 4


def test_after_close_there_is_only_what_was_produced() -> None:
    driver = TopologyTestDriver(remember(), TEXT)
    source, out = driver.create_input_topic("in"), driver.create_output_topic("out")
    plainly = driver.get_key_value_store("timed")
    source.pipe_input("k", "v")
    driver.close()
    driver.close()
    for use in (
        lambda: source.pipe_input("k", "v"),
        lambda: driver.advance_wall_clock_time(1),
        lambda: driver.create_input_topic("in"),
        lambda: driver.create_output_topic("out"),
        lambda: driver.get_state_store("plain"),
        lambda: driver.get_all_state_stores(),
    ):
        with pytest.raises(StreamsError, match="the test driver is closed: make a new one"):
            use()
    with pytest.raises(StreamsError, match="store 'timed' is closed"):
        plainly.get("k")
    assert not plainly.is_open
    assert out.read_values() == ["v"]


def test_an_error_leaves_what_was_produced_before_it_and_the_driver_usable() -> None:
    def refuse(value: str) -> str:
        if value == "bad":
            raise ValueError("bad indeed")
        return value

    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.to("before")
    stream.map_values(refuse).to("after")
    with TopologyTestDriver(builder.build(), TEXT) as driver:
        source = driver.create_input_topic("in")
        with pytest.raises(StreamsError, match="bad indeed"):
            source.pipe_input("k", "bad")
        source.pipe_input("k", "good")
        assert driver.create_output_topic("before").read_values() == ["bad", "good"]
        assert driver.create_output_topic("after").read_values() == ["good"]


def test_an_error_of_the_test_is_not_hidden_by_one_of_the_close() -> None:
    class Closing(Echo):
        def close(self) -> None:
            raise StreamsError("closing failed")

    topology = Topology().add_source("from", "in").add_processor("closing", Closing, "from")
    with pytest.raises(KeyError, match="the test's own"), TopologyTestDriver(topology, TEXT):
        raise KeyError("the test's own")
    with pytest.raises(StreamsError, match="closing failed"), TopologyTestDriver(topology, TEXT):
        pass


def test_taking_what_was_produced_reads_it() -> None:
    """Bytes of every topic, in order; what was read through an output topic is not in it."""
    with TopologyTestDriver(echo(), TEXT) as driver:
        out = driver.create_output_topic("out")
        for number in range(3):
            driver.pipe_raw("in", b"k", b"%d" % number, number, [("h", b"1")])
        assert out.read_value() == "0"
        assert driver.take_produced() == {"out": [(b"k", b"1", 1, [("h", b"1")]), (b"k", b"2", 2, [("h", b"1")])]}
        assert driver.take_produced() == {}
        assert out.is_empty


@pytest.mark.parametrize(
    "given",
    [
        "org.apache.kafka.streams.processor.WallclockTimestampExtractor",
        "processor_api.timestamps:wallclock_timestamp_extractor",
        wallclock_timestamp_extractor,
    ],
)
def test_the_extractor_by_the_wall_clock_is_given_like_the_others(given: Any) -> None:
    """It had to be called first, and failed at the first record otherwise."""
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source")
    before = SystemClock().time_ms()
    with TopologyTestDriver(topology, {**TEXT, "default.timestamp.extractor": given}) as driver:
        driver.create_input_topic("in").pipe_input("k", "v", timestamp=7)
        (record,) = driver.create_output_topic("out").read_records()
    assert before <= record.timestamp <= SystemClock().time_ms()
