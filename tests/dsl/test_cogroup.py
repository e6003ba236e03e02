"""Several grouped streams aggregated into one table: against a recomputation, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import KTable, Materialized, SessionWindows, StreamsBuilder, TimeWindows
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from runtime_support.running_app import Cluster
from streams.testing.driver import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
RECORDS = st.lists(st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.sampled_from("xyz")))


def both(builder: StreamsBuilder, **options: Any) -> KTable[str, str]:
    """What left and right have, with a mark of where it came from."""
    left, right = (builder.stream(topic).group_by_key() for topic in ("left", "right"))
    together = left.cogroup(lambda key, value, so_far: f"{so_far}<{value}")
    shared = together.cogroup(right, lambda key, value, so_far: f"{so_far}>{value}")
    return shared.aggregate(str, materialized=Materialized(name="kept", key_serde=S, value_serde=S, **options))


@pytest.mark.parametrize("options", [{}, {"caching": False}, {"store_type": "memory"}], ids=str)
@given(records=RECORDS)
@settings(max_examples=30, deadline=None)
def test_the_aggregate_is_that_of_a_recomputation(options: Any, records: list[tuple[str, str, str]]) -> None:
    builder = StreamsBuilder()
    both(builder, **options).to_stream().to("out")
    expected: dict[str, str] = {}
    with TopologyTestDriver(builder.build(CONFIG), CONFIG) as driver:
        topics = {topic: driver.create_input_topic(topic) for topic in ("left", "right")}
        for topic, key, value in records:
            topics[topic].pipe_input(key, value)
            expected[key] = expected.get(key, "") + ("<" if topic == "left" else ">") + value
        assert driver.create_output_topic("out").read_key_values_to_map() == expected
        with driver.get_key_value_store("kept").all() as rows:
            assert dict(rows) == expected


def test_the_old_values_of_all_streams_are_known() -> None:
    """What is grouped again is taken out of its old group, whichever stream changed it."""
    builder = StreamsBuilder()
    counts = both(builder, caching=False).group_by(lambda key, value: (value[-1:], value)).count()
    counts.to_stream().map_values(str).to("out")
    with TopologyTestDriver(builder.build(CONFIG), CONFIG) as driver:
        for topic, value in (("left", "x"), ("right", "y"), ("left", "x")):
            driver.create_input_topic(topic).pipe_input("k", value)
        assert driver.create_output_topic("out").read_key_values_to_map() == {"x": "1", "y": "0"}


@pytest.mark.parametrize("store_type", ["rocksDB", "in_memory"])
@pytest.mark.parametrize(
    ("caching", "retention", "expected"),
    [
        (True, None, "a1 b2"),
        (False, None, "a1 b2"),
        (False, 1000, "a1 b2"),
        ("keep", None, "b2"),
    ],
    ids=["cached", "uncached", "uncached and kept longer", "uncached with Java's defects"],
)
def test_a_stream_far_behind_finds_what_the_store_still_shows(
    store_type: str, caching: bool | str, retention: int | None, expected: str
) -> None:
    """The first record of the other stream moves the store's time, and not that of the stream behind."""
    config = {**CONFIG, "default.dsl.store": store_type, "windowstore.changelog.additional.retention.ms": 0}
    if caching == "keep":
        config["dsl.java.defects"] = "keep"
    builder = StreamsBuilder()
    ahead, behind = (builder.stream(topic).group_by_key() for topic in ("left", "right"))
    kept = Materialized[str, str](
        name="kept",
        key_serde=S,
        value_serde=S,
        caching=caching is True,
        retention=retention and timedelta(milliseconds=retention),
    )

    def add(key: str, value: str, so_far: str) -> str:
        return f"{so_far} {value}".strip()

    windows = TimeWindows.of_size_and_grace(10, 7)
    table = ahead.cogroup(add).cogroup(behind, add).windowed_by(windows).aggregate(str, materialized=kept)
    table.to_stream(lambda window, value: window.key).to("out")
    with TopologyTestDriver(builder.build(config), config) as driver:
        left, right = driver.create_input_topic("left"), driver.create_input_topic("right")
        left.pipe_input("x", "a1", timestamp=5)
        left.pipe_input("y", "far", timestamp=100)
        right.pipe_input("x", "b2", timestamp=6)
        assert driver.create_output_topic("out").read_key_values_to_map()["x"] == expected


def test_topics_with_other_numbers_of_partitions_are_refused(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    both(builder).to_stream().to("out")
    says = "the same number of partitions: 'left' has 2, 'right' has 3"
    with (
        Cluster(tmp_path, topics={"left": 2, "right": 3, "out": 1}) as cluster,
        pytest.raises(TopologyError, match=says),
    ):
        cluster.app(builder.build())


def test_wrong_arguments_are_refused() -> None:
    builder, other = StreamsBuilder(), StreamsBuilder()
    grouped = builder.stream("left").group_by_key()
    shared = grouped.cogroup(lambda key, value, so_far: so_far)
    with pytest.raises(TopologyError, match="cogroup takes a function as its aggregator, got 'sum'"):
        grouped.cogroup("sum")  # type: ignore[arg-type]
    with pytest.raises(
        TopologyError, match="a grouped stream can be cogrouped with another grouped stream only, got KStream"
    ):
        shared.cogroup(builder.stream("right"), lambda key, value, so_far: so_far)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="come from different builders: use one StreamsBuilder"):
        shared.cogroup(other.stream("right").group_by_key(), lambda key, value, so_far: so_far)
    with pytest.raises(TopologyError, match="aggregate takes a function as its initializer, got 0"):
        shared.aggregate(0)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="windowed_by needs TimeWindows, SlidingWindows, SessionWindows"):
        shared.windowed_by(10)  # type: ignore[call-overload]


def test_windowed_ones_say_what_they_are() -> None:
    shared = StreamsBuilder().stream("left").group_by_key().cogroup(lambda key, value, so_far: so_far)
    assert repr(shared) == "CogroupedKStream(KSTREAM-SOURCE-0000000000)"
    windows = shared.windowed_by(TimeWindows.of_size_with_no_grace(10))
    sessions = shared.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
    windowed = "KTable(COGROUPKSTREAM-MERGE-0000000003, key=time-windowed default)"
    assert repr(windows.aggregate(str)) == windowed
    in_sessions = "KTable(COGROUPKSTREAM-MERGE-0000000006, key=session-windowed default)"
    assert repr(sessions.aggregate(str, lambda key, one, two: one + two)) == in_sessions
