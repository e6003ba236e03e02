"""Byte stores as users write them: rows in one JSON file in the store's directory, or in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from processor_api.stores.custom import CustomStateStore, StateStoreContext, TimestampedBytesStore
from processor_api.task_id import TopicPartition

__all__ = ["BytesStore", "ForwardsOnly", "MemoryBytes", "PlainBytes", "PlainBytesSupplier", "TimestampedBytes"]

Row = tuple[bytes, bytes]


class BytesStore(CustomStateStore):
    """Rows are in a dictionary; `commit` of a persistent one writes them all, and keeps no offsets."""

    keeps = True

    def __init__(self, name: str = "store") -> None:
        self._name = name
        self._open = False
        self._rows: dict[bytes, bytes] = {}
        self.commits: list[Mapping[TopicPartition, int]] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def persistent(self) -> bool:
        return self.keeps

    @property
    def is_open(self) -> bool:
        return self._open

    def init(self, context: StateStoreContext) -> None:
        self._file = context.state_dir / "rows.json"
        if self.keeps and self._file.exists():
            found: Any = json.loads(self._file.read_text())
            self._rows = {bytes.fromhex(key): bytes.fromhex(value) for key, value in found.items()}
        self._open = True

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.commits.append(dict(offsets))
        if self.keeps:
            aside = self._file.with_suffix(".tmp")
            aside.write_text(json.dumps({key.hex(): value.hex() for key, value in self._rows.items()}))
            aside.replace(self._file)

    def close(self) -> None:
        self._open = False

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value

    def _between(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[Row]:
        keys = [key for key in self._rows if (low or b"") <= key and (high is None or key <= high)]
        return iter([(key, self._rows[key]) for key in sorted(keys, reverse=reverse)])

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Iterator[Row]:
        return self._between(from_key, to_key, False)

    def all(self) -> Iterator[Row]:
        return self._between(None, None, False)


class ForwardsOnly(BytesStore):
    """Has no call that goes backwards."""


class PlainBytes(BytesStore):
    """Persistent, without timestamps."""

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> Iterator[Row]:
        return self._between(from_key, to_key, True)

    def reverse_all(self) -> Iterator[Row]:
        return self._between(None, None, True)

    def approximate_num_entries(self) -> int:
        return len(self._rows)


class TimestampedBytes(PlainBytes, TimestampedBytesStore):
    """Persistent, with timestamps in front of its values."""


class MemoryBytes(PlainBytes):
    """In memory."""

    keeps = False


class PlainBytesSupplier:
    """Of byte stores of a class."""

    def __init__(self, name: str = "store", kind: type[BytesStore] = PlainBytes) -> None:
        self.name = name
        self._kind = kind

    def get(self) -> Any:
        return self._kind(self.name)
