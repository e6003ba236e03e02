"""A store that is restored from its changelog alone is the one that wrote it, and so is one that is opened again on its
directory: every kind, on both engines, cached or not, whatever is put, removed, late, committed, aborted or lost.

What they show is compared, and what they make of what comes next.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import as_supplier
from state_support.bytes_stores import PlainBytesSupplier
from state_support.restorable import RESTORABLE, WRITES, Restorable, Step, all_of
from state_support.store_kit import LogRecord, StoreKit, load, restored
from state_support.texts import Buffering, InMemory, Managing, Texts
from streams.testing.contracts.store_kit import StoreKit as ContractKit

TASK = ["drain", "commit", "commit", "abort", "crash", "restore", "go on restored", "again"]
STEPS = st.lists(st.one_of(WRITES, WRITES, WRITES, st.sampled_from(TASK)), max_size=30)
MESSAGE_TOPIC = "töpic"
ROOM_BYTES = 1 << 20
"""A cache that is never full."""


class Life:
    """One store and what becomes of it."""

    def __init__(self, kind: Restorable, directory: Path, chosen: dict[str, Any]) -> None:
        self.kind, self.directory, self.chosen = kind, directory, chosen
        builder = kind.build(chosen["rocksdb"])
        self.builder = builder.with_caching_enabled() if chosen["cached"] and kind.caches else builder
        self.kit = StoreKit(
            self.builder, directory / "first", cache_bytes=chosen["cache_bytes"], log_each=chosen["log_each"]
        )
        self.latest = self.committed = -1
        self.others = 0
        self.listen(self.kit)

    def listen(self, kit: StoreKit) -> None:
        if kit.store.cached and self.chosen["told"]:
            kit.store.operator.on_flush(lambda *change: None, old_values=self.chosen["olds"])

    # ------------------------------------------------------------------ steps

    def write(self, kit: StoreKit, call: str, key: str, value: str, ahead: int, length: int) -> Any:
        time = max(self.latest + ahead, 0)
        kit.cursor.stream_time = max(self.latest, time)
        kit.cursor.source = MESSAGE_TOPIC, 0
        kit.at(time, [("h", b"1")] if length else None)
        return self.kind.write(kit, Step(call, key, value, time, length, time))

    def step(self, step: Any) -> None:
        if isinstance(step, str):
            getattr(self, step.replace(" ", "_"))()
            return
        self.write(self.kit, *step)
        self.latest = self.kit.cursor.stream_time

    def drain(self) -> None:
        self.kit.store.drain()

    def commit(self) -> None:
        self.kit.commit()
        self.committed = self.latest

    def abort(self) -> None:
        self.kit.abort()
        self._goes_on()

    def crash(self) -> None:
        if self.builder.supplier.persistent:
            self.kit.restart()
        else:
            self.kit.abort()
        self._goes_on()

    def _goes_on(self) -> None:
        """As a task does, whose stream time is committed with its offsets."""
        self.latest = self.kit.cursor.stream_time = self.committed
        self.listen(self.kit)

    def again(self) -> None:
        """Offsets of changelogs are counted, and may lag behind: some records are restored once more."""
        self.commit()
        shown = all_of(self.kit, self.kind)
        self.kit.close_store()
        load(self.builder, self.kit.engine, self.kit.committed[-self.chosen["parts"] :], at_once=2)
        self.kit.open()
        self._goes_on()
        assert all_of(self.kit, self.kind) == shown

    def restore(self) -> None:
        self.commit()
        shown = all_of(self.kit, self.kind)
        for other in (self._restored(self.kit.committed), self._restored(self._compacted())):
            assert all_of(other, self.kind) == shown
            other.close()

    def go_on_restored(self) -> None:
        self.restore()
        other = self._restored(self._compacted())
        other.committed, other.logged = list(self.kit.committed), list(self.kit.committed)
        self.kit.close()
        self.kit = other

    def _compacted(self) -> Sequence[LogRecord]:
        if not self.kind.compacts:
            return self.kit.committed
        last = {record[0]: i for i, record in enumerate(self.kit.committed)}
        return [self.kit.committed[i] for i in sorted(last.values())]

    def _restored(self, records: Sequence[LogRecord]) -> StoreKit:
        """In two goes: a restore that is broken off goes on where it was."""
        self.others += 1
        half = len(records) * self.chosen["parts"] // 8
        other = restored(self.builder, records[:half], self.directory / str(self.others), at_once=3)
        other.close_store()
        load(self.builder, other.engine, records[half:], at_once=self.chosen["parts"])
        other.budget.cache_limit, other.log_each = self.kit.budget.cache_limit, self.kit.log_each
        other.open()
        other.cursor.stream_time = self.latest
        self.listen(other)
        return other

    def what_comes_next(self, steps: Sequence[Any]) -> None:
        """The same is done to the store, to one restored and to one opened again, and comes to the same."""
        self.restore()
        stores = [self.kit, self._restored(self.kit.committed), self._restored(self._compacted())]
        if self.builder.supplier.persistent:
            shown = all_of(self.kit, self.kind)
            self.kit.restart()
            self._goes_on()
            assert all_of(self.kit, self.kind) == shown
        if self.kit.store.cached and self.chosen["told"] and self.chosen["cache_bytes"] < ROOM_BYTES:
            steps = []  # when a full cache is drained, and what has come to nothing by then, is each store's own
        for step in steps:
            results = [self.write(kit, *step) for kit in stores]
            self.latest = stores[0].cursor.stream_time
            assert all(result == results[0] for result in results)
            found = [all_of(kit, self.kind) for kit in stores]
            assert all(each == found[0] for each in found)
        for kit in stores:
            kit.commit()
        found = [all_of(kit, self.kind) for kit in stores]
        assert all(each == found[0] for each in found)
        for kit in stores:
            kit.close()


CHOSEN = st.fixed_dictionaries(
    {
        "rocksdb": st.sampled_from([False, False, False, True]),
        "cached": st.booleans(),
        "cache_bytes": st.sampled_from([1, 200, ROOM_BYTES]),
        "log_each": st.booleans(),
        "told": st.booleans(),
        "olds": st.booleans(),
        "parts": st.integers(1, 7),
    }
)


def live_and_restore(kind: str, chosen: dict[str, Any], steps: Sequence[Any], after: Sequence[Any]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="lived-"))
    try:
        life = Life(RESTORABLE[kind], directory, chosen)
        for step in steps:
            life.step(step)
        life.what_comes_next(after)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


AFTER = st.lists(WRITES, max_size=6)


@pytest.mark.parametrize("kind", RESTORABLE)
@settings(max_examples=8)
@given(chosen=CHOSEN, steps=STEPS, after=AFTER)
def test_restored_equals_live(kind: str, chosen: dict[str, Any], steps: Sequence[Any], after: Sequence[Any]) -> None:
    live_and_restore(kind, chosen, steps, after)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESTORABLE)
@settings(max_examples=400)
@given(chosen=CHOSEN, steps=STEPS, after=AFTER)
def test_restored_equals_live_for_long(
    kind: str, chosen: dict[str, Any], steps: Sequence[Any], after: Sequence[Any]
) -> None:
    live_and_restore(kind, chosen, steps, after)


# ---------------------------------------------------------------------- stores of the user's own

CUSTOM_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["u", "v", "w"])),
        st.sampled_from(["commit", "abort", "crash", "restore"]),
    ),
    max_size=20,
)
TEXTS = {"managing": Managing, "buffering": Buffering, "neither": Texts, "in memory": InMemory}


def custom(kind: str) -> StoreBuilder[Any, Any]:
    if kind in TEXTS:
        return Stores.custom("store", TEXTS[kind])
    supplier: Any = as_supplier(PlainBytesSupplier("store"))
    return Stores.key_value_store_builder(supplier, Serdes.STRING, Serdes.STRING)


class CustomLife:
    """A custom store, of which nothing may be left that was not committed."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind, self.directory, self.others = kind, directory, 0
        self.committed: list[ChangelogRecord] = []
        self.kit, self.store = self._started("first", [])

    def _started(self, name: str, log: Sequence[ChangelogRecord]) -> tuple[ContractKit, Any]:
        kit = ContractKit(custom(self.kind), self.directory / name)
        return kit, self._continued(kit, log)

    def _continued(self, kit: ContractKit, log: Sequence[ChangelogRecord]) -> Any:
        """As a task does: from the changelog, as far as the store does not say that it holds it."""
        kit.logged[:] = log
        if kit.offset is None:
            kit.wipe()
        kit.restore(log)
        return kit.start()

    def contents(self, store: Any) -> Any:
        if self.kind in TEXTS:
            return store.everything()
        with store.all() as rows:
            return dict(rows)

    def step(self, step: Any) -> None:
        if isinstance(step, str):
            getattr(self, step)()
            return
        self.kit.at(1)
        self.store.put(*step)

    def commit(self) -> None:
        self.kit.commit()
        self.committed = list(self.kit.logged)

    def abort(self) -> None:
        self.kit.abort()
        self.store = self._continued(self.kit, self.committed)

    def crash(self) -> None:
        self.kit.close()
        self.kit, self.store = self._started("first", self.committed)

    def restore(self) -> None:
        self.commit()
        self.others += 1
        other, store = self._started(str(self.others), self.committed)
        shown = self.contents(self.store)
        assert self.contents(store) == shown
        other.close()
        self.crash()
        assert self.contents(self.store) == shown


@pytest.mark.parametrize("kind", [*TEXTS, "bytes"])
@settings(max_examples=8)
@given(steps=CUSTOM_STEPS)
def test_a_custom_store_restored_equals_live(kind: str, steps: Sequence[Any]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="lived-"))
    try:
        life = CustomLife(kind, directory)
        for step in steps:
            life.step(step)
        life.restore()
        life.kit.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
