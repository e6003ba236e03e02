"""A store opened on the rows of an older kind: plain to timestamped (KIP-258), and both to headers (KIP-1271)."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from processor_api.errors import StateError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from state.engine.port import OFFSETS
from state.formats.offsets import read_offset
from state.registry.kinds import families_held
from state_support.killed_writer import kill_after
from state_support.store_kit import StoreKit, load, restored

S = Serdes.STRING
SUPPLIER = Stores.persistent_key_value_store("s")
PLAIN: StoreBuilder[Any, Any] = Stores.key_value_store_builder(SUPPLIER, S, S)
TIMESTAMPED: StoreBuilder[Any, Any] = Stores.timestamped_key_value_store_builder(SUPPLIER, S, S)
HEADERS: StoreBuilder[Any, Any] = Stores.timestamped_key_value_store_with_headers_builder(SUPPLIER, S, S)
SUFFIXES = {"key-value": "plain", "timestamped-key-value": "timestamped", "headers-key-value": "headers"}
KEYS = [f"k{i}" for i in range(12)]
KIN = [("a", b"1"), ("b", None)]
Live = dict[str, tuple[str, int, list[Any]]]


def everything(kit: StoreKit) -> dict[str, list[tuple[bytes, bytes]]]:
    """All that is on disk, in whatever family."""
    names = [f"s.{suffix}" for suffix in SUFFIXES.values()]
    return {name: list(kit.engine.family(name).range()) for name in names if kit.engine.holds(name)}


def given(builder: StoreBuilder[Any, Any], value: str, timestamp: int) -> Any:
    if builder is PLAIN:
        return value
    if builder is TIMESTAMPED:
        return ValueAndTimestamp(value, timestamp)
    return ValueTimestampHeaders(value, timestamp, KIN)


def expected(builder: StoreBuilder[Any, Any], found: tuple[str, int, list[Any]]) -> Any:
    if builder is PLAIN:
        return found[0]
    return ValueAndTimestamp(*found[:2]) if builder is TIMESTAMPED else ValueTimestampHeaders(*found)


class Machine(RuleBasedStateMachine):
    """The store is opened as a newer kind once or twice on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.kit: Any = None

    @initialize(caching=st.booleans(), rows=st.dictionaries(st.sampled_from(KEYS), st.text(max_size=3), min_size=3))
    def start(self, caching: bool, rows: dict[str, str]) -> None:
        self.caching = caching
        self.builder = PLAIN
        self.kit = StoreKit(self._cached(PLAIN), self.directory / "db")
        self.live: Live = {}
        for key, value in rows.items():
            self.kit.at(3).facade.put(key, value)
            self.live[key] = value, -1, []
        self.commit()

    def _cached(self, builder: StoreBuilder[Any, Any]) -> StoreBuilder[Any, Any]:
        return builder.with_caching_enabled() if self.caching else builder

    @rule(headers=st.booleans())
    def upgrade(self, headers: bool) -> None:
        if self.builder is HEADERS:
            return
        self.builder = HEADERS if headers else TIMESTAMPED
        self.kit.restart(self._cached(self.builder))
        self.live = dict(self.saved)

    @rule(key=st.sampled_from(KEYS), value=st.text(max_size=3), timestamp=st.integers(0, 99))
    def put(self, key: str, value: str, timestamp: int) -> None:
        self.kit.at(timestamp).facade.put(key, given(self.builder, value, timestamp))
        known = -1 if self.builder is PLAIN else timestamp
        self.live[key] = value, known, KIN if self.builder is HEADERS else []

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        self.kit.at(100).facade.delete(key)
        self.live.pop(key, None)

    @rule(low=st.sampled_from(KEYS), high=st.sampled_from(KEYS))
    def reads(self, low: str, high: str) -> None:
        """They show every row, and write nothing."""
        before = everything(self.kit)
        facade = self.kit.facade
        wanted = [(key, expected(self.builder, found)) for key, found in sorted(self.live.items())]
        assert list(facade.all()) == wanted
        assert list(facade.reverse_all()) == wanted[::-1]
        assert list(facade.range(low, high)) == [row for row in wanted if low <= row[0] <= high]
        assert [facade.get(key) for key in KEYS] == [dict(wanted).get(key) for key in KEYS]
        if self.live == self.saved and not self.kit.store.pending and not self.kit.store.rows.dirty:
            self.kit.commit()
        assert everything(self.kit) == before

    @rule()
    def commit(self) -> None:
        self.kit.commit()
        self.saved = dict(self.live)
        rows = [key for family in everything(self.kit).values() for key, _ in family]
        assert sorted(rows) == sorted(key.encode() for key in self.live), "a key has a row in two families, or in none"

    @rule()
    def abort(self) -> None:
        self.kit.abort()
        self.live = dict(self.saved)

    @rule()
    def restart(self) -> None:
        self.kit.restart()
        self.live = dict(self.saved)

    def teardown(self) -> None:
        if self.kit is not None:
            self.kit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestUpgrades(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=20, stateful_step_count=30)


@pytest.fixture
def plain(tmp_path: Path) -> StoreKit:
    kit = StoreKit(PLAIN, tmp_path / "db")
    for i, key in enumerate(KEYS):
        kit.at(i).facade.put(key, f"v{i}")
    kit.commit()
    return kit


def test_keys_move_one_by_one_with_commits(plain: StoreKit) -> None:
    plain.restart(TIMESTAMPED)
    assert plain.facade.get("k3") == ValueAndTimestamp("v3", -1)
    plain.at(50).facade.put("k3", ValueAndTimestamp("new", 50))
    plain.facade.delete("k4")
    assert list(everything(plain)) == ["s.plain"]
    plain.commit()
    rows = everything(plain)
    assert [key for key, _ in rows["s.timestamped"]] == [b"k3"]
    assert sorted(key for key, _ in rows["s.plain"]) == sorted(key.encode() for key in KEYS if key not in ("k3", "k4"))
    for key in KEYS:
        plain.facade.delete(key)
    plain.commit()
    plain.restart()
    assert families_held(TIMESTAMPED, plain.engine) == ["s.timestamped"], "the older family is empty and forgotten"
    plain.close()


def test_the_changelog_of_a_plain_store_restores_the_newer_kinds(plain: StoreKit, tmp_path: Path) -> None:
    """With the timestamps of the records, which the plain rows did not have; and the records are the same."""
    for builder, value in ((TIMESTAMPED, ValueAndTimestamp("v3", 3)), (HEADERS, ValueTimestampHeaders("v3", 3, []))):
        other = restored(builder, plain.logged, tmp_path / builder.kind)
        assert other.facade.get("k3") == value
        other.at(3).facade.put("k3", value)
        assert [(key, data, time) for key, data, time, _ in other.logged] == [(b"k3", b"v3", 3)]
        other.close()
    plain.close()


def test_the_tail_of_a_changelog_goes_over_older_rows(plain: StoreKit) -> None:
    """As after a crash between the upgrade's first start and its first commit."""
    plain.restart(TIMESTAMPED)
    plain.close_store()
    load(TIMESTAMPED, plain.engine, [(b"k3", b"new", 70, None), (b"k4", None, 71, None)])
    plain.open()
    assert plain.facade.get("k3") == ValueAndTimestamp("new", 70)
    assert plain.facade.get("k4") is None
    assert len(list(plain.facade.all())) == len(KEYS) - 1
    plain.close()


def test_a_full_restore_clears_the_older_rows_too(plain: StoreKit) -> None:
    plain.restart(HEADERS)
    held = families_held(HEADERS, plain.engine)
    assert held == ["s.headers", "s.plain"]
    plain.close_store()
    plain.engine.clear(held)
    plain.open()
    assert list(plain.facade.all()) == []
    plain.close()


@pytest.mark.parametrize(
    ("newer", "older"), [(TIMESTAMPED, PLAIN), (HEADERS, PLAIN), (HEADERS, TIMESTAMPED)], ids=lambda b: b.kind
)
def test_there_is_no_way_back(newer: StoreBuilder[Any, Any], older: StoreBuilder[Any, Any], tmp_path: Path) -> None:
    """It is refused, with what to do, and the rows stay."""
    kit = StoreKit(newer, tmp_path / "db")
    kit.at(1).facade.put("k", given(newer, "v", 1))
    kit.commit()
    with pytest.raises(
        StateError, match=rf"store 's' is a {older.kind} store.* a {newer.kind} store.*streams state rebuild s"
    ) as caught:
        kit.restart(older)
    assert caught.value.store == "s"
    kit.engine.close()
    kit = StoreKit(newer, tmp_path / "db")
    assert kit.facade.get("k") == given(newer, "v", 1)
    kit.close()


# ------------------------------------------------------------------------ killed on the way

WRITER = """
import random, sys
from pathlib import Path
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from state.write_buffer.memory_budget import Budget
from state.row_format.record_context import Cursor
from state.engine.port import OFFSETS
from state.registry.kinds import families_of, open_store
from state.formats.offsets import read_offset, write_offset
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import RocksSettings, SharedMemory

supplier = Stores.persistent_key_value_store("s")
make, value_of = {
    "timestamped-key-value": (Stores.timestamped_key_value_store_builder, ValueAndTimestamp),
    "headers-key-value": (
        Stores.timestamped_key_value_store_with_headers_builder,
        lambda value, time: ValueTimestampHeaders(value, time, [("n", value.encode())]),
    ),
}[sys.argv[2]]
builder = make(supplier, Serdes.STRING, Serdes.STRING)
memory = SharedMemory(RocksSettings(write_buffer_bytes=1 << 16, log_bytes=1 << 16))
engine = RocksEngine(Path(sys.argv[1]), families_of(builder), memory)
store = open_store(
    builder, engine=engine, cursor=Cursor(), budget=Budget(1 << 16), log=None,
    key_serde=Serdes.STRING, value_serde=Serdes.STRING,
)
found = engine.family(OFFSETS).get(b"log-0")
number = 0 if found is None else read_offset(found) + 1
while True:
    chance = random.Random(number)
    for _ in range(20):
        key = f"k{chance.randrange(3000)}"
        store.facade.get(f"k{chance.randrange(3000)}")
        store.facade.put(key, None if chance.random() < 0.2 else value_of(f"new {number}", number))
    store.drain()
    batch = engine.batch()
    store.apply(batch)
    batch.put(b"log-0", write_offset(number), engine.family(OFFSETS).handle)
    engine.write(batch)
    store.applied()
    print(number, flush=True)
    number += 1
"""


Step = tuple[StoreBuilder[Any, Any], StoreBuilder[Any, Any]]
STEPS: list[Step] = [(PLAIN, TIMESTAMPED), (PLAIN, HEADERS), (TIMESTAMPED, HEADERS)]
every_step = pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].kind} to {step[1].kind}")


def _kill_often(directory: Path, kills: int, step: Step) -> None:
    path, (older, newer) = directory / "db", step
    kit = StoreKit(older, path)
    live: dict[str, Any] = {}
    for i in range(3000):
        kit.facade.put(f"k{i}", "old" if older is PLAIN else ValueAndTimestamp("old", i))
        live[f"k{i}"] = expected(newer, ("old", -1 if older is PLAIN else i, []))
    kit.commit()
    kit.close()
    applied, sizes = -1, random.Random(7)
    for _ in range(kills):
        told = kill_after(sizes.choice([0, 1, 3, 30]), WRITER, str(path), newer.kind)
        kit = StoreKit(newer, path)
        found = kit.engine.family(OFFSETS).get(b"log-0")
        offset = -1 if found is None else read_offset(found)
        assert offset >= told, "a commit that had returned is lost"
        for number in range(applied + 1, offset + 1):
            chance = random.Random(number)
            for _ in range(20):
                key = f"k{chance.randrange(3000)}"
                chance.randrange(3000)
                if chance.random() < 0.2:
                    live.pop(key, None)
                else:
                    value = f"new {number}"
                    live[key] = expected(newer, (value, number, [("n", value.encode())]))
        applied = offset
        assert list(kit.facade.all()) == sorted(live.items())
        kit.close()
    assert applied > 0


@every_step
def test_nothing_is_lost_when_the_process_is_killed_on_the_way(tmp_path: Path, step: Step) -> None:
    _kill_often(tmp_path, 5, step)


@pytest.mark.slow
@every_step
def test_nothing_is_lost_however_often_it_is_killed(tmp_path: Path, step: Step) -> None:
    _kill_often(tmp_path, 150, step)
