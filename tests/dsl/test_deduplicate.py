"""Deduplication of a stream: against a recomputation from all records that were kept, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl import Consumed, KStream, Materialized, StreamsBuilder
from dsl.processors.record_id_serde import RecordIdSerde
from processor_api.errors import ProcessingError, TopologyError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.time_to_live import TimeToLive
from processor_api.topology.topology import Topology
from runtime_support.running_app import CLOSE_TIMEOUT, Cluster
from runtime_support.task_kit import TaskKit
from streams import log_and_continue_processing
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG: dict[str, Any] = {"default.key.serde": S, "default.value.serde": S}
MINUTE = 60_000


class Given(NamedTuple):
    key: str | None
    value: str
    timestamp: int


def random_records(chance: Random) -> list[Given]:
    keys = ["a", "a", "b", None]
    return [Given(chance.choice(keys), chance.choice("xy"), chance.randrange(80)) for _ in range(chance.randrange(40))]


def by_value(key: str, value: str) -> str:
    return value


def topology(config: dict[str, Any] | None = None, **options: Any) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in")
    stream.deduplicate(**options).to("out")
    return builder.build({**CONFIG, **(config or {})})


def run(made: Topology, given_records: list[Given], config: dict[str, Any]) -> tuple[list[Given], float]:
    with TopologyTestDriver(made, {**CONFIG, **config}) as driver:
        source = driver.create_input_topic("in")
        for record in given_records:
            source.pipe_input(record.key, record.value, timestamp=record.timestamp)
        found = driver.create_output_topic("out").read_records()
        return [Given(r.key, r.value, r.timestamp) for r in found], driver.metrics()["dropped-records-total"]


def expected(given_records: list[Given], within: int, grace: int, by_id: bool) -> tuple[list[Given], int]:
    """Keeps everything that was kept, for ever, and compares each record with all of it."""
    kept: list[Given] = []
    dropped, newest = 0, -1
    for record in given_records:
        newest = max(newest, record.timestamp)
        if record.key is None or record.timestamp < newest - grace:
            dropped += 1
        elif not any(
            one.key == record.key
            and (not by_id or one.value == record.value)
            and abs(one.timestamp - record.timestamp) < within
            for one in kept
        ):
            kept.append(record)
    return kept, dropped


@pytest.mark.parametrize("seed", range(6))
def test_it_keeps_what_a_comparison_with_everything_keeps(seed: int) -> None:
    """Late and out-of-order records included: no two that are kept are nearer to each other than ``within``."""
    chance = Random(seed)
    for _ in range(25):
        given_records = random_records(chance)
        within, grace, by_id = chance.randrange(1, 30), chance.choice([None, 0, 10, 40]), chance.random() < 0.5
        engine, form = chance.choice(["in_memory", "rocksDB"]), chance.choice(["DEFAULT", "HEADERS"])
        config = {"default.dsl.store": engine, "dsl.store.format": form}
        made = topology(config, within=within, grace=grace, id_selector=by_value if by_id else None)
        found, dropped = run(made, given_records, config)
        wanted = expected(given_records, within, within if grace is None else grace, by_id)
        assert (found, dropped) == wanted, (given_records, within, grace, by_id)


def test_a_key_comes_again_when_the_time_is_over() -> None:
    made = topology(within=timedelta(hours=1))
    given_records = [Given("k", str(minute), minute * MINUTE) for minute in (0, 30, 59, 60, 61, 120)]
    assert [record.value for record in run(made, given_records, {})[0]] == ["0", "60", "120"]


def test_headers_and_null_values_pass_as_they_are() -> None:
    with TopologyTestDriver(topology(within=10), CONFIG) as driver:
        driver.create_input_topic("in").pipe_input("k", None, timestamp=3, headers=[("h", b"1")])
        (found,) = driver.create_output_topic("out").read_records()
        assert (found.key, found.value, found.timestamp, list(found.headers)) == ("k", None, 3, [("h", b"1")])


def test_rows_are_gone_when_no_record_can_be_compared_with_them() -> None:
    made = topology(within=1000, grace=0, materialized="kept")
    with TopologyTestDriver(made, CONFIG) as driver:
        source = driver.create_input_topic("in")
        for n in range(300):
            source.pipe_input(f"k{n}", "v", timestamp=n * 1000)
        assert len(list(driver.get_window_store("kept").all())) <= 2


def test_a_changed_key_goes_through_a_topic_first() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in")
    stream.select_key(by_value).deduplicate(within=10, name="once").group_by_key().count(materialized="counts")
    described = builder.build(CONFIG).describe()
    assert described.count("(topic: once-repartition)") == 1
    assert "counts-repartition" not in described
    builder = StreamsBuilder()
    same: KStream[str, str] = builder.stream("in")
    same.deduplicate(within=10)
    assert "repartition" not in builder.build(CONFIG).describe()


def test_serdes_go_on_down() -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", Consumed(key_serde=Serdes.LONG, value_serde=Serdes.LONG))
    numbers.deduplicate(within=10).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", Serdes.LONG, Serdes.LONG).pipe_input(7, 8)
        assert driver.create_output_topic("out", Serdes.LONG, Serdes.LONG).read_key_values() == [(7, 8)]


# ---------------------------------------------------------------------- restarts


@pytest.mark.parametrize("lost", [False, True], ids=["with its state", "from the changelog"])
@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_what_was_kept_is_known_after_a_restart(tmp_path: Path, guarantee: str, engine: str, lost: bool) -> None:
    """So is the operator's stream time: a record that was late is late."""
    made = topology(within=10, grace=5)
    config = {"default.dsl.store": engine, "processing.guarantee": guarantee}
    with Cluster(tmp_path, one_state=not lost) as cluster:
        app = cluster.app(made, config)
        cluster.send("first", key="a", timestamp=100)
        cluster.send("newest", key="b", timestamp=104)
        cluster.until_out("first", "newest")
        cluster.until(lambda: cluster.committed("in") == 2)
        assert app.close(CLOSE_TIMEOUT)
        cluster.app(made, config)
        cluster.send("again", key="a", timestamp=109)
        cluster.send("late", key="c", timestamp=98)
        cluster.send("not late", key="d", timestamp=99 + 5)
        cluster.send("later", key="a", timestamp=110)
        cluster.until_out("first", "newest", "not late", "later")


def test_a_record_that_is_read_again_is_not_taken_for_its_copy(tmp_path: Path) -> None:
    """At least once, its row may have been written while its result was lost. What one record gives twice is a copy."""
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in")
    stream.flat_map_values(str.split).deduplicate(within=10, id_selector=by_value).to("out")
    made = builder.build(CONFIG)
    for _ in range(2):  # the second task finds the rows of the first, and starts at the same offset
        with TaskKit(made, tmp_path) as kit:
            kit.pipe("in", b"k", b"a a b", 0)
            kit.pipe("in", b"k", b"b c", 1)
            kit.commit()
            kit.pipe("in", b"k", b"a c d", 2)
            kit.commit()
            assert [value for _, value, _ in kit.sent("out")] == [b"a", b"b", b"c", b"d"]


# ---------------------------------------------------------------------- ids


ids = st.recursive(
    st.text() | st.binary() | st.integers(),
    lambda parts: st.lists(parts, min_size=1, max_size=3).map(tuple),
    max_leaves=4,
)


@given(one=st.tuples(st.text(), ids), other=st.tuples(st.text(), ids))
def test_keys_and_ids_are_told_apart_and_read_back(one: Any, other: Any) -> None:
    serde = RecordIdSerde(S)
    assert serde.deserialize(serde.serialize(one)) == one
    assert (serde.serialize(one) == serde.serialize(other)) == (one == other)


def test_a_record_without_an_id_is_dropped_and_one_of_another_kind_is_an_error() -> None:
    made = topology(within=10, id_selector=lambda key, value: {"none": None, "list": ["x"]}.get(value, value))
    config = {"processing.exception.handler": log_and_continue_processing}
    given_records = [Given("k", "none", 0), Given("k", "list", 0), Given("k", "x", 0)]
    assert run(made, given_records, config) == ([Given("k", "x", 0)], 2)
    with pytest.raises(ProcessingError, match="the id of a record must be a str, bytes or int, or a tuple of these"):
        run(made, given_records, {})


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": 0}, "within of node 'KSTREAM-DEDUPLICATE-0000000001' is at least 1 ms, got 0 ms"),
        ({"within": 10, "grace": -1}, "grace of node .* is at least 0 ms"),
        ({"within": 10, "id_selector": "id"}, "takes a function as its id_selector"),
        ({"within": 10, "materialized": Materialized(retention=5)}, "own window store: remove retention;"),
        (
            {"within": 10, "materialized": Materialized(time_to_live=TimeToLive(5))},
            "own window store: remove time_to_live;",
        ),
        ({"within": 10, "materialized": Materialized(value_serde=S)}, "own window store: remove value_serde;"),
        (
            {"within": 10, "materialized": Materialized(supplier=Stores.in_memory_key_value_store("s"))},
            "own window store: remove supplier;",
        ),
        ({"within": 10, "name": "no/name"}, "contains a character"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        topology(**options)


def test_a_duration_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"within of node .* must be a timedelta or integer milliseconds, got 1.5"):
        topology(within=1.5)


def test_generated_names_are_refused_where_names_must_be_given() -> None:
    builder = StreamsBuilder()
    builder.stream("in").deduplicate(within=10)
    with pytest.raises(TopologyError, match=r"STATE-STORE-0000000002 .*or with Materialized"):
        builder.build({**CONFIG, "ensure.explicit.internal.resource.naming": True})
