"""Views of stores that a thread puts into, drains, evicts, commits and aborts as fast as it can, read by others.

Each round writes its number to all keys and is committed as a whole: at READ_COMMITTED all rows have one number, and at
READ_UNCOMMITTED numbers fall by at most one, in the order in which keys are put. Nothing is ever deleted: no key may be
missing.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.errors import StoreError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel
from state.read_views.view import open_view
from state_support.store_kit import StoreKit

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
KEYS = [f"key-{i:02}" for i in range(60)]
WRITES = KEYS * 2
"""Each round puts every key twice: what is dirty is put again."""
RETENTION = 20
"""Of versions."""
ROUNDS_LEAST, READS_LEAST, ABORTS = 120, 40, 3
DEADLINE_S = 120.0
STRING, LONG = Serdes.STRING, Serdes.LONG


@pytest.fixture(autouse=True)
def _threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Stress:
    """One writer, and readers of both levels, until all have done enough or one has failed."""

    def __init__(self, kit: StoreKit, put: Callable[[Any, str, int], None]) -> None:
        self.kit = kit
        self.put = put
        self.failures: list[str] = []
        self.reads: dict[str, int] = {}
        self.round = 0
        self.ended = False
        self.reopened = 0

    def run(self, **readers: Callable[[Any], Any]) -> None:
        """Each reader gets a view's store, reads, and says what is wrong."""
        threads = []
        for name, reader in readers.items():
            self.reads[name] = 0
            level = COMMITTED if name.startswith("committed") else UNCOMMITTED
            threads.append(threading.Thread(target=self._read, args=(name, level, reader)))
        self._write_round()
        self.kit.commit()
        for thread in threads:
            thread.start()
        try:
            self._write()
        finally:
            self.ended = True
            self.kit.close()
            for thread in threads:
                thread.join(60)
        assert not self.failures
        assert not any(thread.is_alive() for thread in threads)
        assert min(self.reads.values()) >= READS_LEAST, self.reads

    def _write(self) -> None:
        clock = SystemClock()
        deadline = clock.monotonic() + DEADLINE_S
        aborts = 0
        while (self.round < ROUNDS_LEAST or min(self.reads.values()) < READS_LEAST) and not self.failures:
            assert clock.monotonic() < deadline, self.reads
            self._write_round()
            if aborts < ABORTS and self.round % 30 == 0:
                aborts += 1
                self.round -= 1  # it never was
                self.kit.abort()
            else:
                self.kit.commit()

    def _write_round(self) -> None:
        self.round += 1
        for i, key in enumerate(WRITES):
            self.put(self.kit.at(self.round).facade, key, self.round)
            if self.round % 3 == 0 and i % 50 == 49:
                self.kit.store.drain()

    def _read(self, name: str, level: IsolationLevel, reader: Callable[[Any], Any]) -> None:
        try:
            while not self.ended and not self.failures:
                try:
                    store = self.kit.store
                    with open_view(store, level) as view:
                        view.of = store  # type: ignore[attr-defined]
                        for _ in range(5):
                            self._check(name, reader(view))
                except StoreError as error:  # the store was closed, by an abort or at the end
                    if "is closed" not in str(error):
                        raise
        except BaseException as error:
            self.failures.append(f"{name}: {type(error).__name__}: {error}")

    def _check(self, name: str, wrong: Any) -> None:
        if wrong:
            self.failures.append(f"{name}: {wrong}")
        self.reads[name] += 1


def one_number(rows: list[tuple[str, int]]) -> Any:
    """At READ_COMMITTED."""
    return len({number for _, number in rows}) != 1 or ([key for key, _ in rows] != KEYS and rows)


def falling(rows: list[tuple[str, int]]) -> Any:
    """At READ_UNCOMMITTED: a round goes through the keys in order."""
    numbers = [number for _, number in rows]
    steps = [a - b for a, b in itertools.pairwise(numbers) if a != b]
    return steps not in ([], [1]) or ([key for key, _ in rows] != KEYS and rows)


def never_back() -> Callable[[Any], Any]:
    """As long as the store is open no key's number is missing or falls: not when it is put again either, nor drained,
    evicted or committed."""
    seen: dict[str, int] = {}
    of: list[Any] = [None]

    def read(view: Any) -> Any:
        if view.of is not of[0]:
            of[0] = view.of
            seen.clear()
        wrong = []
        for found in ({key: view.store.get(key) for key in KEYS}, *(dict(view.store.all()) for _ in range(10))):
            wrong += [(key, found.get(key), seen.get(key)) for key in KEYS if (found.get(key) or 0) < seen.get(key, 1)]
            seen.update(found)
        return wrong

    return read


def _builder(kind: str) -> StoreBuilder[Any, Any]:
    persistent = "memory" not in kind
    supplier = Stores.persistent_key_value_store("s") if persistent else Stores.in_memory_key_value_store("s")
    builder = Stores.key_value_store_builder(supplier, STRING, LONG)
    return builder.with_caching_enabled() if "cached" in kind else builder


@pytest.mark.parametrize("log_each", [False, True])
@pytest.mark.parametrize("kind", ["cached", "cached in memory", "plain", "plain in memory"])
def test_key_value_rows(kind: str, log_each: bool, tmp_path: Path) -> None:
    kit = StoreKit(_builder(kind), tmp_path, cache_bytes=3000, log_each=log_each)

    def agree(wanted: Callable[[list[tuple[str, int]]], Any]) -> Callable[[Any], Any]:
        def read(view: Any) -> Any:
            """A scan, one backwards, and single rows and a scan of a frozen view."""
            with view.frozen() as frozen:
                one_by_one = [(key, frozen.store.get(key)) for key in KEYS]
                if list(frozen.store.all()) != one_by_one:
                    return "a frozen view changes"
            forward, backward = list(view.store.all()), list(view.store.reverse_all())[::-1]
            return wanted(forward) or wanted(backward) or wanted(one_by_one)

        return read

    Stress(kit, lambda facade, key, number: facade.put(key, number)).run(
        committed=agree(one_number),
        uncommitted=agree(falling),
        committed_get=never_back(),
        uncommitted_get=never_back(),
    )


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("persistent", [True, False])
def test_windows(persistent: bool, ordered: bool, tmp_path: Path) -> None:
    """Each round puts windows of its own time, so that those of an older one expire: of a key never more and never
    fewer than the retention keeps are seen."""
    retention = 3
    make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
    how: Any = {"segment_interval": 2} if persistent else {}
    builder = Stores.window_store_builder(make("s", retention, 1, time_ordered=ordered, **how), STRING, LONG)
    kit = StoreKit(builder.with_caching_enabled(), tmp_path, cache_bytes=8000)
    kept = retention + 1 if ordered else retention

    def times_of(rows: Any) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for (key, window), number in rows:
            assert number == window.start
            found.setdefault(key, []).append(number)
        return found

    def scan(view: Any) -> Any:
        return times_of(view.store.all())

    def committed(view: Any) -> Any:
        found = scan(view)
        last = max(map(max, found.values()))
        wanted = list(range(max(1, last - kept + 1), last + 1))
        return {key: times for key, times in found.items() if times != wanted} or len(found) != len(KEYS)

    def uncommitted(view: Any) -> Any:
        found = scan(view)
        last = max(map(max, found.values()))
        wanted = list(range(max(1, last - kept + 1), last + 1))
        wrong = {key: times for key, times in found.items() if times not in (wanted, wanted[:-1])}
        order = [key for key in KEYS if found.get(key, [0])[-1] == last]
        return wrong or order != KEYS[: len(order)]

    def of_key(view: Any) -> Any:
        times = [start for start, _ in view.store.fetch_range(KEYS[7], 0, 1 << 40)]
        return not 1 <= len(times) <= kept or times != list(range(times[0], times[0] + len(times)))

    Stress(kit, lambda facade, key, number: facade.put(key, number, number)).run(
        committed=committed, uncommitted=uncommitted, committed_key=of_key, uncommitted_key=of_key
    )


@pytest.mark.parametrize("persistent", [True, False])
def test_versions(persistent: bool, tmp_path: Path) -> None:
    """Each round puts a version: of a key they follow each other without a gap, and each is found as of its time."""
    make = Stores.persistent_versioned_key_value_store if persistent else Stores.in_memory_versioned_key_value_store
    builder = Stores.versioned_key_value_store_builder(make("s", RETENTION, segment_interval=5), STRING, LONG)
    kit = StoreKit(builder, tmp_path)

    def chained(versions: list[Any]) -> Any:
        """Oldest first."""
        ends = [version.valid_to for version in versions]
        starts = [version.timestamp for version in versions]
        return ends != [*starts[1:], None] or ([version.value for version in versions] != starts and versions)

    def of_key(view: Any) -> Any:
        back = list(view.store.backward_versions(KEYS[5]))
        return chained(list(view.store.versions(KEYS[5]))) or chained(back[::-1])

    def of_range(view: Any) -> Any:
        found: dict[str, list[Any]] = {}
        for key, version in view.store.range_versions(KEYS[3], KEYS[9]):
            found.setdefault(key, []).append(version)
        return list(found) != KEYS[3:10] or [versions for versions in found.values() if chained(versions)]

    def as_of(view: Any) -> Any:
        """Not found is only what has expired meanwhile."""
        time = max(1, view.store.get(KEYS[5]).timestamp - 8)
        found = view.store.get(KEYS[5], time)
        if found is None:
            return view.store.get(KEYS[5]).timestamp - time < RETENTION - 1
        return (found.value, found.timestamp) != (time, time)

    def put(facade: Any, key: str, number: int) -> None:
        facade.put(key, number, number)

    Stress(kit, put).run(
        **{
            f"{level}_{read.__name__}": read
            for level in ("committed", "uncommitted")
            for read in (of_key, of_range, as_of)
        }
    )
