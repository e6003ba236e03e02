"""Joins against recomputations from scratch, where records are late, doubled or deleted: what the tests of each join
leave open.

Of joins of streams: when a record is forwarded without a partner. Of versioned tables: which rows are joined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import JoinWindows, KStream, KTable, Materialized, StreamJoined, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.stores.defaults import BuiltInDslStoreSuppliers
from processor_api.stores.factory import Stores
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
FAR = 1_000_000

# ---------------------------------------------------------------- streams


class Given(NamedTuple):
    number: int
    left: bool
    key: str
    time: int


streamed = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 40)), max_size=25).map(
    lambda drawn: [Given(number, *each) for number, each in enumerate(drawn)]
)


def forwarded(kind: str, over: JoinWindows, given_records: list[Given], *, in_memory: bool) -> list[tuple[Any, Any]]:
    """The numbers of each result's records, left and right."""
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    how: StreamJoined[Any, Any, Any] = StreamJoined(store_type=BuiltInDslStoreSuppliers.IN_MEMORY)
    join: Callable[..., KStream[str, str]] = getattr(left, kind)
    join(builder.stream("right"), "{} {}".format, windows=over, joined=how if in_memory else None).to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topics = {side: driver.create_input_topic(name) for side, name in ((True, "left"), (False, "right"))}
        for record in given_records:
            topics[record.left].pipe_input(record.key, str(record.number), timestamp=record.time)
        for number in range(4):
            topics[number % 2 == 0].pipe_input(f"end{number}", "end", timestamp=FAR * (number + 1))
        values = driver.create_output_topic("out").read_values()
    numbers = [[None if one == "None" else int(one) for one in text.split(" ")] for text in values if "end" not in text]
    return [(left, right) for left, right in numbers]


@settings(max_examples=120, deadline=None)
@given(
    streamed,
    st.builds(
        lambda before, after, grace: JoinWindows(before_ms=before, after_ms=after, grace_ms=grace),
        st.integers(0, 10),
        st.integers(0, 10),
        st.sampled_from([0, 5, 15]),
    ),
    st.sampled_from(["left_join", "outer_join"]),
    st.booleans(),
)
def test_a_record_without_a_partner_is_forwarded_alone_and_no_other(
    given_records: list[Given], over: JoinWindows, kind: str, in_memory: bool
) -> None:
    """Semantics 56 to 59. It has a partner if one was kept when it came, or comes before stream time has passed it by
    its window and the grace period. Of one whose first partner comes later than that, it depends on what else waits
    whether it was forwarded before."""
    found = forwarded(kind, over, given_records, in_memory=in_memory)
    matched = {pair for pair in found if None not in pair}
    alone = [left if right is None else right for left, right in found if None in (left, right)]
    assert len(set(alone)) == len(alone), "no record is forwarded alone twice"
    for record in given_records:
        if not record.left and kind == "left_join":
            assert record.number not in alone
            continue
        partners = sorted(
            right if record.left else left
            for left, right in matched
            if record.number == (left if record.left else right)
        )
        window = over.after_ms if record.left else over.before_ms
        before = [one.time for one in given_records[: record.number + 1]]
        if partners and partners[0] < record.number:
            assert record.number not in alone
        elif record.time + window < max(before):
            assert record.number in alone, "its window is closed, so it does not wait"
        else:
            leaves = next((one.number for one in given_records if one.time > record.time + window + over.grace_ms), FAR)
            first = partners[0] if partners else None
            if first is None:
                assert record.number in alone
            elif first < leaves:
                assert record.number not in alone


def test_records_leave_by_time_then_the_right_ones_then_by_their_keys() -> None:
    """Semantics 58; those of one key, time and side in the order in which they came."""
    waiting = [(True, "b", 2), (True, "a", 2), (False, "c", 2), (True, "a", 2), (False, "d", 1)]
    given_records = [Given(number, *each) for number, each in enumerate(waiting)]
    over = JoinWindows.of_time_difference_with_no_grace(5)
    found = forwarded("outer_join", over, given_records, in_memory=False)
    assert found == [(None, 4), (None, 2), (1, None), (3, None), (0, None)]


# ---------------------------------------------------------------- versioned tables


updates = st.lists(
    st.tuples(
        st.sampled_from(["left", "left", "right"]),
        st.sampled_from("abc"),
        st.none() | st.sampled_from(["a1", "a2", "b1", "c2"]),
        st.integers(0, 30),
    ),
    max_size=30,
)
Updates = list[tuple[str, str, str | None, int]]


class VersionedTable:
    """The latest version of each key by its timestamp; what is older than the history is refused."""

    def __init__(self, history_ms: int) -> None:
        self._history_ms = history_ms
        self._time = -1
        self._latest: dict[str, tuple[int, str | None]] = {}

    def put(self, key: str, value: str | None, time: int) -> None:
        self._time = max(self._time, time)
        if time >= self._time - self._history_ms and time >= self._latest.get(key, (-1, None))[0]:
            self._latest[key] = time, value

    def rows(self) -> dict[str, str]:
        return {key: value for key, (_, value) in self._latest.items() if value is not None}


def joined_rows(
    join: Callable[[KTable[str, str], KTable[str, str]], KTable[str, str]], given_updates: Updates, history_ms: int
) -> dict[str, str]:
    builder = StreamsBuilder()
    left, right = (
        builder.table(
            name, materialized=Materialized(supplier=Stores.persistent_versioned_key_value_store(name, history_ms))
        )
        for name in ("left", "right")
    )
    join(left, right).to_stream().to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topics = {name: driver.create_input_topic(name) for name in ("left", "right")}
        for topic, key, value, time in given_updates:
            topics[topic].pipe_input(key, value, timestamp=time)
        found = driver.create_output_topic("out").read_key_values_to_map()
    return {key: value for key, value in found.items() if value is not None}


def plus(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def latest_rows(given_updates: Updates, history_ms: int) -> tuple[dict[str, str], dict[str, str]]:
    tables = {name: VersionedTable(history_ms) for name in ("left", "right")}
    for topic, key, value, time in given_updates:
        tables[topic].put(key, value, time)
    return tables["left"].rows(), tables["right"].rows()


results: Any = st.sampled_from([None, Materialized(name="r"), Materialized(name="r", caching=False)])
histories = st.sampled_from([0, 5, 100])


@settings(max_examples=80, deadline=None)
@given(updates, st.sampled_from(["join", "left_join", "outer_join"]), results, histories)
def test_versioned_tables_are_joined_by_their_latest_rows(
    given_updates: Updates, kind: str, result: Any, history_ms: int
) -> None:
    """Semantics 38: whatever comes late."""
    found = joined_rows(
        lambda left, right: getattr(left, kind)(right, plus, materialized=result), given_updates, history_ms
    )
    left, right = latest_rows(given_updates, history_ms)
    keys = {"join": left.keys() & right.keys(), "left_join": left.keys(), "outer_join": left.keys() | right.keys()}
    assert found == {key: plus(left.get(key), right.get(key)) for key in keys[kind]}


@settings(max_examples=80, deadline=None)
@given(updates, st.booleans(), results, histories)
def test_versioned_tables_are_joined_by_foreign_keys_of_their_latest_rows(
    given_updates: Updates, keeps_left: bool, result: Any, history_ms: int
) -> None:
    def join(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, str]:
        call: Callable[..., KTable[str, str]] = left.foreign_key_left_join if keeps_left else left.foreign_key_join
        return call(right, lambda value: value[0], plus, materialized=result)

    found = joined_rows(join, given_updates, history_ms)
    left, right = latest_rows(given_updates, history_ms)
    assert found == {
        key: plus(value, right.get(value[0])) for key, value in left.items() if keeps_left or value[0] in right
    }
