"""The contracts of stores of one's own: passed by stores of every sort, and failed by those that break them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from state_support.bytes_stores import ForwardsOnly, MemoryBytes, PlainBytes, TimestampedBytes
from state_support.texts import Buffering, InMemory, Managing, Texts
from streams.testing.contracts.stores import CustomStoreContract, KeyValueBytesStoreContract


class OfTexts(CustomStoreContract):
    store: type[Texts]

    def make_store(self) -> Any:
        return self.store()

    def change(self, store: Any, number: int) -> None:
        store.put(f"key-{number % 5}", f"value-{number}")

    def contents(self, store: Any) -> Any:
        return store.everything()


class TestManagesItsOffsets(OfTexts):
    store = Managing


class TestBuffersItsWrites(OfTexts):
    store = Buffering


class TestDoesNeither(OfTexts):
    store = Texts


class TestIsInMemory(OfTexts):
    store = InMemory


class OfBytes(KeyValueBytesStoreContract):
    store: type[PlainBytes | ForwardsOnly]

    def make_store(self) -> Any:
        return self.store()


class TestPlainBytes(OfBytes):
    store = PlainBytes


class TestTimestampedBytes(OfBytes):
    store = TimestampedBytes


class TestBytesInMemory(OfBytes):
    store = MemoryBytes


class TestBytesForwardsOnly(OfBytes):
    store = ForwardsOnly


# ---------------------------------------------------------------------- stores that break the contract


class ForgetsOffsets(Managing):
    def _save(self) -> None:
        self._offsets.clear()
        super()._save()


class WritesThrough(Managing):
    """Says that it manages its offsets, and writes before the commit."""

    def _set(self, key: str, value: str | None) -> None:
        self.rows[key] = value or ""
        self._save()


class LogsNothing(Texts):
    def put(self, key: str, value: str) -> None:
        self._set(key, value)


class RestoresHalf(Texts):
    def _restore(self, records: Any) -> None:
        super()._restore(records[:1])


class StaysOpen(Texts):
    def close(self) -> None:
        """Does nothing."""


class TellsNoBytes(Buffering):
    def approximate_num_uncommitted_bytes(self) -> int:
        return 0


class KeepsNothing(Texts):
    def _save(self) -> None:
        """Does nothing."""


class Unsorted(PlainBytes):
    def _between(self, low: bytes | None, high: bytes | None, reverse: bool) -> Any:
        return iter([(key, self._rows[key]) for key in self._rows])


class Live(PlainBytes):
    """Its iterators show what is put while they are read."""

    def all(self) -> Any:
        return ((key, self._rows[key]) for key in sorted(self._rows) if key in self._rows)


class TakesNoDeletions(PlainBytes):
    def put_all(self, entries: Any) -> None:
        super().put_all([(key, value) for key, value in entries if value is not None])


BROKEN: list[tuple[type[OfTexts | OfBytes], type[Any]]] = [
    *((OfTexts, store) for store in (ForgetsOffsets, WritesThrough, LogsNothing, RestoresHalf)),
    *((OfTexts, store) for store in (StaysOpen, TellsNoBytes, KeepsNothing)),
    *((OfBytes, store) for store in (Unsorted, Live, TakesNoDeletions)),
]


@pytest.mark.parametrize(("contract", "store"), BROKEN, ids=[store.__name__ for _, store in BROKEN])
def test_the_contract_finds_it(contract: type[Any], store: type[Any], tmp_path: Path) -> None:
    suite = type("Suite", (contract,), {"store": store})()
    failed = []
    for name in [name for name in dir(suite) if name.startswith("test_")]:
        path = tmp_path / name
        path.mkdir()
        try:
            getattr(suite, name)(path)
        except (AssertionError, KeyError, RuntimeError, StopIteration):
            failed.append(name)
    assert failed
