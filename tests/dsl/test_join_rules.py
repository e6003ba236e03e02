"""Rules of joins that a recomputation of their results does not show."""

from __future__ import annotations

import itertools
from typing import Any

from dsl import Consumed, JoinWindows, KStream, Produced, StreamJoined, StreamsBuilder
from processor_api.serde import Serde, Serdes
from streams.testing import TopologyTestDriver

S = Serdes.STRING
SETTINGS = {"default.key.serde": S, "default.value.serde": S}


def joined(kind: str, *, select_keys: bool = False) -> StreamsBuilder:
    builder = StreamsBuilder()
    sides: list[KStream[str, str]] = [builder.stream(topic) for topic in ("left", "right")]
    left, right = (side.select_key(lambda key, value: key) if select_keys else side for side in sides)
    windows = JoinWindows.of_time_difference_and_grace(10, 5)
    options = StreamJoined(name="j", store_name="j")
    join: Any = getattr(left, kind)
    join(right, lambda one, two: f"{one}+{two}", windows=windows, joined=options).to("out")
    return builder


def test_an_unmatched_record_does_not_leave_without_a_new_record() -> None:
    """However much wall-clock time passes; nor for a record that does not move stream time (semantics 57, 60)."""
    with TopologyTestDriver(joined("left_join"), SETTINGS) as driver:
        left, out = driver.create_input_topic("left"), driver.create_output_topic("out")
        left.pipe_input("a", "one", timestamp=100)
        driver.advance_wall_clock_time(3_600_000)
        left.pipe_input("b", "two", timestamp=115)
        assert out.is_empty
        driver.advance_wall_clock_time(3_600_000)
        left.pipe_input("b", "three", timestamp=114)
        assert out.is_empty
        left.pipe_input("b", "four", timestamp=116)
        assert out.read_key_values() == [("a", "one+None")]


def test_a_null_value_takes_a_sequence_number_and_a_changelog_record() -> None:
    """It is dropped, and the record behind it has the number after it (semantics 125)."""
    with TopologyTestDriver(joined("join"), SETTINGS) as driver:
        left = driver.create_input_topic("left")
        for value in ("one", None, "two"):
            left.pipe_input("a", value, timestamp=100)
        assert driver.metrics()["dropped-records-total"] == 1
        (changelog,) = [
            records
            for topic, records in driver.take_produced().items()
            if topic.endswith("j-this-join-store-changelog")
        ]
    numbers = [int.from_bytes((record.key or b"")[-4:], "big") for record in changelog]
    assert [record.value for record in changelog] == [b"one", None, b"two"]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_null_keys_pass_both_repartition_topics_before_a_left_join() -> None:
    """Those of the right side are dropped by the join (semantics 28, 126); before an inner join none pass."""
    for kind, passing, results in (("left_join", 1, ["one+None"]), ("join", 0, [])):
        with TopologyTestDriver(joined(kind, select_keys=True), SETTINGS) as driver:
            out = driver.create_output_topic("out")
            driver.create_input_topic("left").pipe_input(None, "one", timestamp=100)
            driver.create_input_topic("right").pipe_input(None, "two", timestamp=100)
            assert out.read_values() == results
            produced = driver.take_produced()
            for side in ("left", "right"):
                found = [records for topic, records in produced.items() if topic.endswith(f"j-{side}-repartition")]
                assert sum(map(len, found)) == passing


def test_answers_to_a_row_that_is_written_differently_each_time_are_thrown_away() -> None:
    """A foreign-key join compares rows by their bytes: equal values must be written in the same way (semantics 67)."""
    numbers = itertools.count()
    unstable: Serde[str] = Serde(
        lambda value: f"{value}#{next(numbers)}".encode(), lambda data: data.decode().partition("#")[0]
    )
    assert results_of_a_foreign_key_join(S) == ([("1", "tea of Ann")], 0)
    assert results_of_a_foreign_key_join(unstable) == ([], 1)


def results_of_a_foreign_key_join(serde: Serde[str]) -> tuple[list[Any], float]:
    """Returns the results, and how many records were dropped.

    :param serde: of the left table's values."""
    builder = StreamsBuilder()
    left = builder.table("left", Consumed(key_serde=S, value_serde=serde))
    rows = left.foreign_key_join(builder.table("right"), lambda value: "ann", lambda row, name: f"{row} of {name}")
    rows.to_stream().to("out", Produced(key_serde=S, value_serde=S))
    with TopologyTestDriver(builder, SETTINGS) as driver:
        driver.create_input_topic("right").pipe_input("ann", "Ann", timestamp=0)
        driver.create_input_topic("left", S, S).pipe_input("1", "tea", timestamp=0)
        return driver.create_output_topic("out").read_key_values(), driver.metrics()["dropped-records-total"]
