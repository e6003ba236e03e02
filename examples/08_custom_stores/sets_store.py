"""A custom store with files of its own: for each key the set of values seen.

Its writes wait in memory until the commit, which writes one file with rows and offsets: it manages its offsets, so that
it is never rebuilt after a crash. It passes `streams.testing.contracts.stores.CustomStoreContract`
(tests/examples/test_sets_store.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streams import ChangelogRecord, CustomStateStore, StateStoreContext, TopicPartition


class SetsStore(CustomStateStore):
    """A store of sets of texts, by texts. A value once added stays."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open = False
        self._rows: dict[str, set[str]] = {}
        self._offsets: dict[TopicPartition, int] = {}
        self._uncommitted = 0

    # ------------------------------------------------------------------ for processors

    def add(self, key: str, value: str) -> bool:
        """Adds a value; returns whether it is new."""
        values = self._rows.setdefault(key, set())
        if value in values:
            return False
        self._context.log_change(key.encode() + b"\0" + value.encode(), b"")
        values.add(value)
        self._uncommitted += len(key) + len(value)
        return True

    def values(self, key: str) -> frozenset[str]:
        return frozenset(self._rows.get(key, ()))

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    # ------------------------------------------------------------------ for the runtime

    @property
    def name(self) -> str:
        return self._name

    @property
    def persistent(self) -> bool:
        return True

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def manages_offsets(self) -> bool:
        return True

    def init(self, context: StateStoreContext) -> None:
        self._context = context
        self._file: Path = context.state_dir / "sets.json"
        context.register(self._restore)
        if self._file.exists():
            found: Any = json.loads(self._file.read_text(encoding="utf-8"))
            self._rows = {key: set(values) for key, values in found["rows"].items()}
            self._offsets = {TopicPartition(topic, part): offset for topic, part, offset in found["offsets"]}
        self._open = True

    def _restore(self, records: Sequence[ChangelogRecord]) -> None:
        for record in records:
            key, _, value = record.key.partition(b"\0")
            self._rows.setdefault(key.decode(), set()).add(value.decode())
            self._uncommitted += len(record.key)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes everything to a new file, beside the old one, and puts it in its place."""
        self._offsets.update(offsets)
        rows = {key: sorted(values) for key, values in self._rows.items()}
        aside = self._file.with_suffix(".tmp")
        with aside.open("w", encoding="utf-8") as file:
            json.dump({"rows": rows, "offsets": [[*one, offset] for one, offset in self._offsets.items()]}, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._file)
        self._uncommitted = 0

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)

    def approximate_num_uncommitted_bytes(self) -> int:
        return self._uncommitted

    def close(self) -> None:
        self._open = False
