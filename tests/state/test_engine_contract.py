"""Every engine passes the public contract of engines."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from state.engine.memory import MemoryEngine
from state.rocksdb.engine import RocksEngine
from streams.testing.contracts.engines import FAMILIES, EngineContract

DEADLINE_S = 30.0


class TestMemoryEngine(EngineContract):
    def open_engine(self, path: Path) -> Any:
        return MemoryEngine()


class TestRocksEngine(EngineContract):
    def open_engine(self, path: Path) -> Any:
        return RocksEngine(path, FAMILIES)


# ------------------------------------------------------------------ engines that keep a rule only almost


class _Live:
    """A snapshot that shows rows as they are."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine

    def family(self, name: str) -> Any:
        return self._engine.family(name)

    def close(self) -> None: ...


class _Interrupted(MemoryEngine):
    """Other threads than the one that writes can wait for a write, so that it always comes in between."""

    def __init__(self) -> None:
        super().__init__()
        self._writer, self._writes, self._written = threading.get_ident(), 0, threading.Condition()

    def write(self, batch: Any) -> None:
        super().write(batch)
        with self._written:
            self._writes += 1
            self._written.notify_all()

    def wait_for_write(self) -> None:
        if threading.get_ident() != self._writer:
            with self._written:
                writes = self._writes
                self._written.wait_for(lambda: self._writes > writes, timeout=DEADLINE_S)


class _EachOfItsOwn:
    """A snapshot each of whose families is as it was when somebody first asked for it."""

    def __init__(self, engine: _Interrupted) -> None:
        self._engine = engine
        self._taken: dict[str, Any] = {}

    def family(self, name: str) -> Any:
        if name not in self._taken:
            if self._taken:
                self._engine.wait_for_write()
            self._taken[name] = MemoryEngine.snapshot(self._engine, [name])
        return self._taken[name].family(name)

    def close(self) -> None: ...


class _ShowsWhatIsThere(MemoryEngine):
    def snapshot(self, families: Any) -> Any:
        return _Live(self)


class _NotOfOneMoment(_Interrupted):
    def snapshot(self, families: Any) -> Any:
        return _EachOfItsOwn(self)


class _LocksNobodyOut(_Interrupted):
    @property
    def lock(self) -> Any:
        return nullcontext()

    def family(self, name: str) -> Any:
        if name != FAMILIES[0]:
            self.wait_for_write()
        return super().family(name)


class _OutlivesItsEngine(MemoryEngine):
    def close(self) -> None:
        self._closed = True


@pytest.mark.parametrize(
    ("engine", "rule"),
    [
        (_ShowsWhatIsThere, "test_a_snapshot_shows_all_its_families_as_they_were"),
        (_ShowsWhatIsThere, "test_ranges_of_a_snapshot_have_their_lower_bound_and_not_their_upper_one"),
        (_ShowsWhatIsThere, "test_a_closed_snapshot_refuses_reads"),
        (_ShowsWhatIsThere, "test_snapshots_may_be_dropped"),
        (_NotOfOneMoment, "test_snapshots_from_other_threads_have_whole_batches"),
        (_LocksNobodyOut, "test_who_has_the_lock_finds_the_engine_between_two_writes"),
        (_OutlivesItsEngine, "test_snapshots_end_with_their_engine"),
    ],
)
def test_the_contract_notices(engine: type[MemoryEngine], rule: str, tmp_path: Path) -> None:
    """Each engine breaks the rule."""

    class Contract(EngineContract):
        def open_engine(self, path: Path) -> Any:
            return engine()

    with pytest.raises(AssertionError):
        getattr(Contract(), rule)(tmp_path)
