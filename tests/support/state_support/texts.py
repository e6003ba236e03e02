"""Custom stores as users write them: texts by texts, in one file, with promises of every sort."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from processor_api.stores.custom import CustomStateStore, StateStoreContext
from processor_api.task_id import TopicPartition

__all__ = ["Buffering", "InMemory", "Managing", "Texts"]


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
