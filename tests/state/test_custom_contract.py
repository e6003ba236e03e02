"""The contracts of stores of one's own: passed by stores of every sort, and failed by those that break them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from processor_api.custom_stores import CustomStateStore, StateStoreContext
from processor_api.task_id import TopicPartition
from state_support.bytes_stores import ForwardsOnly, MemoryBytes, PlainBytes, TimestampedBytes
from streams.testing.contracts.stores import CustomStoreContract, KeyValueBytesStoreContract


class Texts(CustomStateStore):
    """Texts by texts. What it promises is said by its class."""

    persistent_ = True
    manages = False
    buffers = False

    def __init__(self) -> None:
        self._open = False
        self.rows: dict[str, str] = {}
        self._waiting: dict[str, str] = {}
        self._offsets: dict[TopicPartition, int] = {}

    name = "store"  # type: ignore[assignment]

    @property
    def persistent(self) -> bool:
        return self.persistent_

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def manages_offsets(self) -> bool:
        return self.manages

    @property
    def buffers_writes(self) -> bool:
        return self.buffers

    def init(self, context: StateStoreContext) -> None:
        self._context = context
        self._file = context.state_dir / "texts.json"
        if self.persistent_ and self._file.exists():
            found: Any = json.loads(self._file.read_text())
            self.rows = found["rows"]
            self._offsets = {TopicPartition(topic, part): offset for topic, part, offset in found["offsets"]}
        context.register(self._restore)
        self._open = True

    def _restore(self, records: Any) -> None:
        for record in records:
            self._set(record.key.decode(), None if record.value is None else record.value.decode())

    def _set(self, key: str, value: str | None) -> None:
        rows = self._waiting if self.buffers or self.manages else self.rows
        rows[key] = value or ""
        if rows is self.rows:
            self._save()

    def put(self, key: str, value: str) -> None:
        self._context.log_change(key.encode(), value.encode())
        self._set(key, value)

    def get(self, key: str) -> str | None:
        return self._waiting.get(key, self.rows.get(key)) or None

    def everything(self) -> dict[str, str]:
        return {key: value for key, value in sorted({**self.rows, **self._waiting}.items()) if value}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.rows.update(self._waiting)
        self._waiting.clear()
        if self.manages:
            self._offsets.update(offsets)
        self._save()

    def _save(self) -> None:
        if self.persistent_:
            offsets = [[*partition, offset] for partition, offset in self._offsets.items()]
            aside = self._file.with_suffix(".tmp")
            aside.write_text(json.dumps({"rows": self.rows, "offsets": offsets}))
            aside.replace(self._file)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition) if self.manages else None

    def approximate_num_uncommitted_bytes(self) -> int:
        return sum(len(key) + len(value) for key, value in self._waiting.items())

    def close(self) -> None:
        self._open = False


class Managing(Texts):
    manages = True


class Buffering(Texts):
    buffers = True


class InMemory(Texts):
    persistent_ = False


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
