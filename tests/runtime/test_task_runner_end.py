"""The end of a history: what waits for later records is sent on, as a record of a far future would have it sent."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from processor_api.serde import Serdes
from streams import Stores
from streams.runtime.runner.task_runner import TaskRunner
from streams.testing import TopologyTestDriver

S = Serdes.STRING
FAR = 10_000_000
CONFIG = {
    "application.id": "app",
    "bootstrap.servers": "unused:9092",
    "default.key.serde": "string",
    "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
}
COUNTS = {"left": 1, "right": 1, "out": 1}


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("left", Consumed(key_serde=S, value_serde=S)).group_by_key(
        Grouped(key_serde=S, value_serde=S)
    )


def written(builder: StreamsBuilder, table: Any) -> StreamsBuilder:
    stream = table.to_stream().map(lambda key, value: (str(getattr(key, "key", key)), f"{key}={value}"))
    stream.to("out", Produced(key_serde=S, value_serde=S))
    return builder


def counts(builder: StreamsBuilder, windows: Any, *, final: bool = False) -> Any:
    found = grouped(builder).windowed_by(windows)
    if final:
        found = found.emit_strategy(EmitStrategy.on_window_close())
    return found.count(materialized=Materialized(name="counts", key_serde=S, value_serde=Serdes.LONG))


def suppressed_windows() -> StreamsBuilder:
    builder = StreamsBuilder()
    table = counts(builder, TimeWindows.of_size_and_grace(ms(100), ms(50)))
    return written(builder, table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())))


def suppressed_table() -> StreamsBuilder:
    builder = StreamsBuilder()
    table = grouped(builder).count(materialized=Materialized(name="counts", key_serde=S, value_serde=Serdes.LONG))
    return written(builder, table.suppress(Suppressed.until_time_limit(ms(500), BufferConfig.unbounded())))


def final_windows() -> StreamsBuilder:
    builder = StreamsBuilder()
    return written(builder, counts(builder, TimeWindows.of_size_and_grace(ms(100), ms(50)), final=True))


def final_sliding() -> StreamsBuilder:
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(ms(100), ms(50))
    return written(builder, counts(builder, windows, final=True))


def final_sessions() -> StreamsBuilder:
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_and_grace(ms(60), ms(50))
    return written(builder, counts(builder, windows, final=True))


def one_behind_the_other() -> StreamsBuilder:
    """What the windows send on at the end has to pass the suppression too."""
    builder = StreamsBuilder()
    table = counts(builder, TimeWindows.of_size_and_grace(ms(100), ms(50)), final=True)
    return written(builder, table.suppress(Suppressed.until_time_limit(ms(500), BufferConfig.unbounded())))


def joined(kind: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, Consumed(key_serde=S, value_serde=S)) for topic in ("left", "right"))
    windows = JoinWindows.of_time_difference_and_grace(ms(100), ms(50))
    getattr(left, kind)(right, lambda one, other: f"{one}+{other}", windows=windows).to(
        "out", Produced(key_serde=S, value_serde=S)
    )
    return builder


def joined_with_grace() -> StreamsBuilder:
    builder = StreamsBuilder()
    store = Stores.persistent_versioned_key_value_store("versions", ms(10_000))
    table = builder.table("right", Consumed(key_serde=S, value_serde=S), materialized=Materialized(supplier=store))
    stream = builder.stream("left", Consumed(key_serde=S, value_serde=S))
    stream.left_join(table, lambda one, other: f"{one}+{other}", joined=Joined(name="waits", grace=500)).to(
        "out", Produced(key_serde=S, value_serde=S)
    )
    return builder


TOPOLOGIES: dict[str, Callable[[], StreamsBuilder]] = {
    "windows that are suppressed": suppressed_windows,
    "a table that is suppressed": suppressed_table,
    "windows, when they close": final_windows,
    "sliding windows, when they close": final_sliding,
    "sessions, when they close": final_sessions,
    "two operators": one_behind_the_other,
    "left join": lambda: joined("left_join"),
    "outer join": lambda: joined("outer_join"),
    "join with grace": joined_with_grace,
}


def history(seed: int) -> list[tuple[str, str, str, int]]:
    chance, now, found = random.Random(seed), 1_000, []
    for number in range(150):
        now += chance.choice((0, 5, 30, 120))
        topic = chance.choice(("left", "left", "right"))
        found.append((topic, chance.choice("abcd"), f"v{number}", max(0, now - chance.choice((0, 0, 40, 400)))))
    return found


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_all_that_waits_is_sent_on_at_the_end(name: str) -> None:
    """The truth are the outputs of the test driver after two more records, of a far future, on each input."""
    topology, records = TOPOLOGIES[name], history(5)
    # the table of a join last: its versions must be there when the records that wait are joined
    topics = sorted({topic for node in topology().build().nodes.values() for topic in getattr(node, "topics", ())})
    records = [one for one in records if one[0] in topics]
    with TopologyTestDriver(topology, CONFIG) as driver:
        for topic, key, value, time in [
            *records,
            *((topic, "far", "far", time) for time in (FAR, 2 * FAR) for topic in topics),
        ]:
            driver.pipe_raw(topic, key.encode(), value.encode(), time)
        truth = [(one.key, one.value, one.timestamp) for one in driver.take_produced()["out"]]
    runner = TaskRunner(topology, CONFIG, COUNTS, 0, 0)
    for number, (topic, key, value, time) in enumerate(records):
        runner.feed(topic, [key.encode()], [value.encode()], [time], [None], [number])
        runner.run()
    runner.commit()
    before = [one[1:4] for one in runner.take() if one[0] == "out"]
    found: list[Any] = []
    runner.end(lambda: found.extend(one[1:4] for one in runner.take() if one[0] == "out"))
    again: list[Any] = []
    runner.end(lambda: again.extend(runner.take()))
    runner.close()
    assert sorted([*before, *found]) == sorted(one for one in truth if one[0] != b"far")
    assert found
    assert again == [], "nothing waits any more"


def test_many_rows_are_sent_on_in_parts() -> None:
    """So that what they make can be written before it takes too much memory."""
    runner = TaskRunner(suppressed_table, CONFIG, COUNTS, 0, 0)
    keys = [b"%06d" % number for number in range(25_000)]
    runner.feed("left", keys, [b"v"] * len(keys), [1] * len(keys), [None] * len(keys), range(len(keys)))
    runner.run()
    parts: list[int] = []
    runner.end(lambda: parts.append(len([one for one in runner.take() if one[0] == "out"])))
    runner.close()
    assert parts == [10_000, 10_000, 5_000]
