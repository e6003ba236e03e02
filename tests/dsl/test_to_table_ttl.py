"""Rows of ``to_table(ttl=...)`` expire; what a Materialized says is not said twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import KStream, Materialized, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.time_to_live import TimeToLive
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG: dict[str, Any] = {"default.key.serde": S, "default.value.serde": S}
HOUR = 3_600_000


def stream() -> tuple[StreamsBuilder, KStream[str, str]]:
    builder = StreamsBuilder()
    return builder, builder.stream("in")


@pytest.mark.parametrize("materialized", [None, "latest", Materialized(name="latest", caching=False)])
def test_a_row_is_gone_when_its_time_is_over_and_nothing_is_forwarded(materialized: Any) -> None:
    builder, records = stream()
    table = records.to_table(ttl=timedelta(hours=1), materialized=materialized)
    table.to_stream().to("out")
    questions: KStream[str, str] = builder.stream("questions")
    questions.left_join(table, lambda question, row: f"{question} {row}").to("answers")
    with TopologyTestDriver(builder, CONFIG) as driver:
        rows, asked = driver.create_input_topic("in"), driver.create_input_topic("questions")
        rows.pipe_input("a", "x", timestamp=0)
        asked.pipe_input("a", "1", timestamp=HOUR - 1)
        asked.pipe_input("a", "2", timestamp=HOUR)
        rows.pipe_input("a", "y", timestamp=HOUR + 1)
        asked.pipe_input("a", "3", timestamp=HOUR + 2)
        answers = [value for _, value in driver.create_output_topic("answers").read_key_values()]
        assert answers == ["1 x", "2 None", "3 y"]
        assert driver.create_output_topic("out").read_key_values() == [("a", "x"), ("a", "y")]


@pytest.mark.parametrize("materialized", [None, "latest", Materialized(name="latest", caching=False)])
@given(
    given_records=st.lists(
        st.tuples(st.booleans(), st.sampled_from("ab"), st.none() | st.sampled_from(["x", "y"]), st.integers(0, 40)),
        max_size=25,
    ),
    ttl=st.none() | st.integers(1, 15),
)
@settings(max_examples=25, deadline=None)
def test_questions_find_the_rows_of_a_recomputation(materialized: Any, given_records: list[Any], ttl: Any) -> None:
    """The last update of a key, whatever its time, until stream time is ``ttl`` behind that; late, doubled, deleted."""
    builder, records = stream()
    table = records.to_table(ttl=ttl, materialized=materialized)
    table.to_stream().to("out")
    questions: KStream[str, str] = builder.stream("questions")
    questions.left_join(table, lambda question, row: f"{row}").to("answers")
    rows: dict[str, tuple[str | None, int]] = {}
    wanted, now = [], -1
    with TopologyTestDriver(builder, CONFIG) as driver:
        updates, asked = driver.create_input_topic("in"), driver.create_input_topic("questions")
        for is_update, key, value, time in given_records:
            now = max(now, time)
            if is_update:
                rows[key] = value, time
                updates.pipe_input(key, value, timestamp=time)
            else:
                row, updated = rows.get(key, (None, 0))
                alive = ttl is None or now < updated + ttl
                wanted.append(f"{row if alive else None}")
                asked.pipe_input(key, "?", timestamp=time)
        assert [value for _, value in driver.create_output_topic("answers").read_key_values()] == wanted
        last = driver.create_output_topic("out").read_key_values_to_map()
    assert {key: value for key, value in last.items() if value} == {key: row for key, (row, _) in rows.items() if row}


def test_two_times_to_live_are_refused() -> None:
    _, records = stream()
    given = Materialized(name="t", time_to_live=TimeToLive(5, by="access"))
    with pytest.raises(TopologyError, match=r"two times to live, ttl=7 and TimeToLive.*remove one"):
        records.to_table(ttl=7, materialized=given)


@pytest.mark.parametrize("ttl", [0, -1, timedelta(0)])
def test_a_time_to_live_is_at_least_one_ms(ttl: Any) -> None:
    _, records = stream()
    with pytest.raises(TopologyError, match="a time to live must be at least 1 ms"):
        records.to_table(ttl=ttl)
