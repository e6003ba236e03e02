"""Window and session stores opened as timestamped on plain rows (KIP-258), or with headers on both (KIP-1271): old
segments stay old, new ones are new."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processor_api.errors import StateError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from state.engine.port import OFFSETS
from state.formats.offsets import read_offset
from state.registry.kinds import families_held
from state_support.killed_writer import kill_after
from state_support.store_kit import StoreKit, restored

S = Serdes.STRING
SIZE, RETENTION, INTERVAL = 10, 200, 50
Builder = StoreBuilder[Any, Any]
KEYS = ["", "a", "ab", "b"]
FORMS = ["window", "session", "time-ordered-window", "time-ordered-session"]
SUFFIXES = ["plain", "timestamped", "headers"]
WAYS = [(0, 1), (0, 2), (1, 2)]
"""From which of these to which."""
KIN = [("a", b"1"), ("b", None)]


def builders(form: str) -> tuple[Builder, Builder, Builder]:
    """Plain, timestamped, and with headers."""
    ordered = form.startswith("time-ordered")
    if form.endswith("window"):
        windows = Stores.persistent_window_store("s", RETENTION, SIZE, segment_interval=INTERVAL, time_ordered=ordered)
        return (
            Stores.window_store_builder(windows, S, S),
            Stores.timestamped_window_store_builder(windows, S, S),
            Stores.timestamped_window_store_with_headers_builder(windows, S, S),
        )
    sessions = Stores.persistent_session_store("s", RETENTION, segment_interval=INTERVAL, time_ordered=ordered)
    return (
        Stores.session_store_builder(sessions, S, S),
        Stores.timestamped_session_store_builder(sessions, S, S),
        Stores.session_store_with_headers_builder(sessions, S, S),
    )


def value_of(builder: Builder, value: str, timestamp: int, headers: list[Any]) -> Any:
    """As a store of this kind has it."""
    if builder.kind.endswith("headers-session"):
        return AggregationWithHeaders(value, headers)
    if "headers" in builder.kind:
        return ValueTimestampHeaders(value, timestamp, headers)
    return ValueAndTimestamp(value, timestamp) if "timestamped" in builder.kind else value


class Model:
    """A store and a dictionary of what it should have: (key, start, end) to value, timestamp and headers."""

    def __init__(self, form: str, directory: Path, way: tuple[int, int], *, cached: bool) -> None:
        self.windows, self.ordered = form.endswith("window"), form.startswith("time-ordered")
        older, newer = (builders(form)[kind] for kind in way)
        self.older = older.with_caching_enabled() if cached else older
        self.newer = newer.with_caching_enabled() if cached else newer
        self.kit = StoreKit(self.older, directory)
        self.rows: dict[tuple[str, int, int], tuple[str, int, list[Any]]] = {}
        self.time = -1
        self.saved: tuple[dict[Any, Any], int] = {}, -1

    def observed(self, row: tuple[str, int, int]) -> int:
        return row[1] if self.windows else row[2]

    def alive(self) -> dict[Windowed[str], Any]:
        limit = self.time - RETENTION
        shows_limit = self.windows and self.ordered
        return {
            Windowed(row[0], Window(row[1], row[2])): value_of(self.kit.builder, *found)
            for row, found in self.rows.items()
            if self.observed(row) > limit or (shows_limit and self.observed(row) == limit)
        }

    def put(self, key: str, start: int, length: int, value: str | None, timestamp: int) -> None:
        row = key, start, start + (SIZE if self.windows else length)
        kind = self.kit.builder.kind
        given = None if value is None else value_of(self.kit.builder, value, timestamp, KIN)
        facade = self.kit.at(timestamp).facade
        if self.windows:
            facade.put(key, given, start)
        else:
            facade.put(Windowed(key, Window(row[1], row[2])), given)
        self.time = max(self.time, self.observed(row))
        self.rows.pop(row, None)
        if value is not None:
            known = "timestamped" in kind or "headers" in kind
            self.rows[row] = value, timestamp if known else -1, KIN if "headers" in kind else []

    def upgrade(self) -> None:
        self.kit.restart(self.newer)
        self.rows, self.time = dict(self.saved[0]), self.saved[1]

    def commit(self) -> None:
        self.kit.commit()
        self.saved = dict(self.rows), self.time

    def back(self, *, restart: bool) -> None:
        self.kit.restart() if restart else self.kit.abort()
        self.rows, self.time = dict(self.saved[0]), self.saved[1]

    def check(self) -> None:
        """Every way to read, and nothing is written by one."""
        facade, wanted = self.kit.facade, self.alive()
        before = self.on_disk()
        with facade.all() if self.windows else facade.fetch_keys(None, None) as rows:
            found = list(rows)
        assert len(found) == len(wanted)
        assert dict(found) == wanted
        with facade.backward_all() if self.windows else facade.backward_fetch_keys(None, None) as rows:
            assert dict(rows) == wanted
        for key in KEYS:
            of_key = {row.window.start: value for row, value in wanted.items() if row.key == key}
            if self.windows:
                with facade.fetch_range(key, 0, 10_000) as rows:
                    assert list(rows) == sorted(of_key.items())
            else:
                with facade.fetch(key) as rows:
                    assert dict(rows) == {row: value for row, value in wanted.items() if row.key == key}
        for row, value in wanted.items():
            start, end = row.window
            assert (
                facade.fetch(row.key, start) if self.windows else facade.fetch_session(row.key, start, end)
            ) == value
        assert self.on_disk() == before

    def on_disk(self) -> dict[str, list[tuple[bytes, bytes]]]:
        engine = self.kit.engine
        return {name: list(engine.family(name).range()) for name in families_held(self.kit.builder, engine)}

    def check_disk(self) -> None:
        families = [[key for key, _ in rows] for rows in self.on_disk().values()]
        keys = [key for family in families for key in family]
        assert len(keys) == len(set(keys)), "a row is in two families"

    def restored(self, directory: Path) -> None:
        """The changelog of both lives gives a store of the newer kind, with the headers that were put."""
        other = restored(self.newer, self.kit.committed, directory)
        with other.facade.all() if self.windows else other.facade.fetch_keys(None, None) as rows:
            found = {row: (value[0], value[-1] if "headers" in self.newer.kind else []) for row, value in rows}
        shown = self.alive()
        known = {Windowed(row[0], Window(*row[1:])): (value, headers) for row, (value, _, headers) in self.rows.items()}
        assert found == {row: known[row] for row in shown}
        other.close()


@settings(max_examples=15)
@given(form=st.sampled_from(FORMS), way=st.sampled_from(WAYS), cached=st.booleans(), seed=st.integers(0, 1 << 32))
def test_rows_move_one_by_one(form: str, way: tuple[int, int], cached: bool, seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        model = Model(form, Path(root) / "db", way, cached=cached)
        now = 0
        for step in range(120):
            now += chance.choice([0, 0, 3, 30])
            if step == 50:
                model.commit()
                model.upgrade()
                model.check()
            call = chance.random()
            if call < 0.7:
                if model.rows and chance.random() < 0.4:
                    key, start, end = chance.choice(sorted(model.rows))
                    length = end - start
                else:
                    key, start, length = chance.choice(KEYS), max(now - chance.randrange(60), 0), chance.randrange(9)
                late = start + (0 if model.windows else length) <= model.time - RETENTION + INTERVAL
                if not late:
                    value = None if chance.random() < 0.2 else str(step)
                    model.put(key, start, length, value, step)
            elif call < 0.85:
                model.commit()
                model.check_disk()
            elif call < 0.9:
                model.back(restart=chance.random() < 0.5)
            else:
                model.check()
        model.commit()
        model.check()
        model.restored(Path(root) / "other")
        model.put("a", now + 3 * RETENTION, 0, "last", 7)
        model.commit()
        model.check_disk()
        assert len(families_held(model.newer, model.kit.engine)) == 1, "what expired is gone from the old family"
        model.kit.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_old_segments_stay_old_and_new_ones_are_new(form: str, way: tuple[int, int], tmp_path: Path) -> None:
    model = Model(form, tmp_path / "db", way, cached=False)
    older, newer = (f"s.{form}-{SUFFIXES[kind]}" for kind in way)
    model.put("a", 10, 0, "old", 3)
    model.put("b", 60, 0, "old", 3)
    model.commit()
    logged = len(model.kit.logged)
    model.upgrade()
    model.check()
    before = model.on_disk()
    assert list(before) == [newer, older]
    model.put("a", 110, 0, "new", 9)
    model.commit()
    after = model.on_disk()
    assert after[older] == before[older][:-1], "only the note of the time has moved"
    key, data, timestamp, _ = model.kit.logged[logged]
    assert (data, timestamp) == (b"new", 9)
    assert key == model.kit.logged[0][0].replace((10).to_bytes(8), (110).to_bytes(8)).replace(
        (20).to_bytes(8), (120).to_bytes(8)
    )
    model.check()
    model.kit.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_there_is_no_way_back(form: str, way: tuple[int, int], tmp_path: Path) -> None:
    older, newer = (builders(form)[kind] for kind in way)
    kit = StoreKit(newer, tmp_path / "db")
    key, value = Windowed("a", Window(10, 20)), value_of(newer, "v", 1, KIN)
    kit.at(1).facade.put("a", value, 10) if form.endswith("window") else kit.at(1).facade.put(key, value)
    kit.commit()
    with pytest.raises(
        StateError, match=rf"store 's' is a {older.kind} store.* a {newer.kind} store.*streams state rebuild s"
    ):
        kit.restart(older)
    kit.engine.close()


# ------------------------------------------------------------------------ killed on the way

WRITER = """
import random, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_timed_upgrade import builders, operations
from processor_api.serde import Serdes
from state.write_buffer.memory_budget import Budget
from state.row_format.record_context import Cursor
from state.engine.port import OFFSETS
from state.registry.kinds import families_of, open_store
from state.formats.offsets import read_offset, write_offset
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import RocksSettings, SharedMemory

builder = builders("window")[1]
memory = SharedMemory(RocksSettings(write_buffer_bytes=1 << 16, log_bytes=1 << 16))
engine = RocksEngine(Path(sys.argv[1]), families_of(builder), memory)
store = open_store(
    builder, engine=engine, cursor=Cursor(), budget=Budget(1 << 16), log=None,
    key_serde=Serdes.STRING, value_serde=Serdes.STRING,
)
found = engine.family(OFFSETS).get(b"log-0")
number = 0 if found is None else read_offset(found) + 1
while True:
    for key, value, start in operations(number):
        store.facade.fetch(key, start)
        store.facade.put(key, value, start)
    store.drain()
    batch = engine.batch()
    store.apply(batch)
    batch.put(b"log-0", write_offset(number), engine.family(OFFSETS).handle)
    engine.write(batch)
    store.applied()
    print(number, flush=True)
    number += 1
"""


HERE = Path(__file__).resolve()
FOLDERS = [str(HERE.parent), str(HERE.parents[1] / "support")]


def operations(number: int) -> list[tuple[str, ValueAndTimestamp[str] | None, int]]:
    """Puts of one commit. Time moves on by a millisecond with every second commit."""
    chance = random.Random(number)
    made: list[tuple[str, ValueAndTimestamp[str] | None, int]] = []
    for _ in range(20):
        value = None if chance.random() < 0.2 else ValueAndTimestamp(f"new {number}", number)
        made.append((f"k{chance.randrange(40)}", value, 180 + number // 2 - chance.randrange(100)))
    return made


def _kill_often(directory: Path, kills: int) -> None:
    path = directory / "db"
    plain, timestamped, _ = builders("window")
    kit = StoreKit(plain, path)
    live: dict[tuple[str, int], ValueAndTimestamp[str]] = {}
    for start in range(180):
        for key in range(0, 40, 3):
            kit.facade.put(f"k{key}", "old", start)
            live[f"k{key}", start] = ValueAndTimestamp("old", -1)
    kit.commit()
    kit.close()
    applied, time, chance = -1, 179, random.Random(7)
    for _ in range(kills):
        told = kill_after(chance.choice([0, 1, 3, 30, 100]), WRITER, str(path), *FOLDERS)
        kit = StoreKit(timestamped, path)
        found = kit.engine.family(OFFSETS).get(b"log-0")
        offset = -1 if found is None else read_offset(found)
        assert offset >= told, "a commit that had returned is lost"
        for number in range(applied + 1, offset + 1):
            for key, value, start in operations(number):
                time = max(time, start)
                if value is None:
                    live.pop((key, start), None)
                else:
                    live[key, start] = value
        applied = offset
        wanted = {row: value for row, value in live.items() if row[1] > time - RETENTION}
        with kit.facade.all() as rows:
            assert {(row.key, row.window.start): value for row, value in rows} == wanted
        kit.close()
    assert applied > 0


def test_nothing_is_lost_when_the_process_is_killed_on_the_way(tmp_path: Path) -> None:
    _kill_often(tmp_path, 5)


@pytest.mark.slow
def test_nothing_is_lost_however_often_it_is_killed(tmp_path: Path) -> None:
    _kill_often(tmp_path, 150)
