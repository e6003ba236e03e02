"""Suppressions with each kind of buffer against a sorted list: how much may wait, and what comes of a full buffer."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import BufferConfig, KTable, Materialized, StreamsBuilder, Suppressed, TimeWindows
from dsl.suppressed import EagerBufferConfig, StrictBufferConfig
from processor_api.errors import StateError
from processor_api.serde import Serdes
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
TOPIC = "in"
FULL = "buffer of node 'n' is full"

Update = tuple[str, str | None, int]


class Limits(NamedTuple):
    records: int | None
    bytes: int | None
    strict: bool

    def buffer(self) -> EagerBufferConfig | StrictBufferConfig:
        config: Any = BufferConfig.unbounded()
        if self.records is not None:
            config = config.with_max_records(self.records)
        if self.bytes is not None:
            config = config.with_max_bytes(self.bytes)
        return config.shut_down_when_full() if self.strict else config.emit_early_when_full()

    def exceeded(self, waiting: list[Waiting]) -> bool:
        too_many = self.records is not None and len(waiting) > self.records
        return too_many or (self.bytes is not None and sum(one.size() for one in waiting) > self.bytes)


class Waiting(NamedTuple):
    due: int
    """The time of the first change that waits."""
    key: str
    prior: str | None
    """The value before the first change that waits."""
    old: str | None
    new: str | None
    time: int

    def size(self) -> int:
        """Formats 7: the time, the key, the context without headers, and the values, each once."""
        values = [self.prior, self.new, None if self.old == self.prior else self.old]
        return 8 + len(self.key) + 20 + len(TOPIC) + sum(len(value) for value in values if value is not None)


limits = st.builds(
    Limits,
    records=st.none() | st.integers(0, 3),
    bytes=st.none() | st.integers(0, 160),
    strict=st.booleans(),
)
updates: st.SearchStrategy[list[Update]] = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from(["x", "yyyy", "z" * 20]), st.integers(0, 40)),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(updates, st.integers(0, 20), limits, st.booleans())
def test_a_time_limit_with_any_buffer(given_updates: list[Update], wait: int, limit: Limits, caching: bool) -> None:
    """What is due leaves first. Then a full buffer sends its oldest change on, or ends the application."""
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table(TOPIC, materialized=Materialized(name="t", caching=caching))
    table.suppress(Suppressed.until_time_limit(wait, limit.buffer()).with_name("n")).to_stream().to("out")
    rows: dict[str, str] = {}
    waiting: list[Waiting] = []
    now = -1
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        source, out = driver.create_input_topic(TOPIC), driver.create_output_topic("out")
        for key, value, time in given_updates:
            old = rows.pop(key, None)
            if value is not None:
                rows[key] = value
            wanted = []
            if not (caching and value is None and old is None):  # a cache forwards no deletion of what nobody knows
                now = max(now, time)
                first = next((one for one in waiting if one.key == key), None)
                if first is not None:
                    waiting.remove(first)
                due, prior = (time, old) if first is None else (first.due, first.prior)
                waiting = sorted([*waiting, Waiting(due, key, prior, old, value, time)])
                while waiting and waiting[0].due <= now - wait:
                    wanted.append(waiting.pop(0))
                while not limit.strict and waiting and limit.exceeded(waiting):
                    wanted.append(waiting.pop(0))
            if limit.exceeded(waiting):
                with pytest.raises(StateError, match=FULL):
                    source.pipe_input(key, value, timestamp=time)
                return
            source.pipe_input(key, value, timestamp=time)
            found = [(one.key, one.value, one.timestamp) for one in out.read_records()]
            assert found == [(one.key, one.new, one.time) for one in wanted]
            view = driver.get_state_store("n-store")
            assert (view.num_records(), view.buffer_size()) == (len(waiting), sum(one.size() for one in waiting))


counted = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30)


@settings(max_examples=80, deadline=None)
@given(counted, st.sampled_from([0, 7]), st.none() | st.integers(0, 4), st.booleans())
def test_windows_that_close_with_any_strict_buffer(
    given_records: list[tuple[str, int]], grace: int, most: int | None, caching: bool
) -> None:
    """Each window once, by its end and then its key; never early: a full buffer ends the application."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(10, grace)
    strict = Limits(most, None, strict=True).buffer()
    counts = builder.stream(TOPIC).group_by_key().windowed_by(windows)
    table = counts.count(materialized=Materialized(name="counts", caching=caching, retention=1000))
    final = table.suppress(Suppressed.until_window_closes(strict).with_name("n"))  # type: ignore[arg-type]
    final.to_stream(lambda w, v: f"{w.key}@{w.window.start}").map_values(str).to("out")
    open_windows: dict[tuple[int, str], int] = {}
    now = -1
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        source, out = driver.create_input_topic(TOPIC), driver.create_output_topic("out")
        for key, time in given_records:
            now = max(now, time)
            start = time - time % 10
            is_late = start + 10 <= now - grace
            if not is_late:
                open_windows[start, key] = open_windows.get((start, key), 0) + 1
            closed = sorted(row for row in open_windows if not is_late and row[0] + 10 <= now - grace)
            wanted = [(f"{key}@{start}", str(open_windows.pop((start, key)))) for start, key in closed]
            if most is not None and len(open_windows) > most:
                with pytest.raises(StateError, match=FULL):
                    source.pipe_input(key, "v", timestamp=time)
                return
            source.pipe_input(key, "v", timestamp=time)
            assert out.read_key_values() == wanted
            assert driver.get_state_store("n-store").num_records() == len(open_windows)
