"""What a custom store is given (`processor_api.stores.custom.StateStoreContext`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processor_api.errors import StoreError
from processor_api.metrics import StreamsMetrics
from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.stores.custom import RestoreCallback
from processor_api.task_id import TaskId
from state.write_buffer.record_context import Cursor

__all__ = ["StoreContext"]

WriteChange = Callable[..., None]
"""``(key, value, timestamp_ms, headers)`` to the changelog."""


@dataclass(kw_only=True, eq=False)
class StoreContext:
    """Of one store object, from its ``init`` to its ``close``."""

    store: str
    application_id: str
    task_id: TaskId
    state_dir: Path
    changelog_topic: str | None
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    cursor: Cursor
    settings: Callable[[], Mapping[str, Any]]
    make_metrics: Callable[[], StreamsMetrics]
    time_ms: Callable[[], int]
    request_commit: Callable[[], None]

    restore: RestoreCallback | None = None
    """What the store has registered."""
    dirty: bool = False
    """Whether anything may have been written since the last commit."""
    closed: bool = False
    running: bool = False
    """Whether records are processed, so that there are changes."""
    write: WriteChange | None = None
    """To the changelog."""
    logged_for_it: bool = False
    """Whether the runtime logs its changes."""

    def register(self, restore: RestoreCallback) -> None:
        if not callable(restore):
            raise StoreError(f"store {self.store!r} registers {restore!r}, which cannot be called", store=self.store)
        self.restore = restore

    def log_change(
        self, key: bytes, value: bytes | None, timestamp: int | None = None, headers: HeaderList | None = None
    ) -> None:
        if not self.running or self.closed or self.logged_for_it:
            self._refuse()
        if type(key) is not bytes or (value is not None and type(value) is not bytes):
            raise StoreError(
                f"store {self.store!r} logs the key {key!r} with the value {value!r}: a changelog takes bytes, and None"
                " for a value that is deleted",
                store=self.store,
            )
        self.dirty = True
        if self.write is not None:
            self.write(key, value, self.cursor.timestamp if timestamp is None else timestamp, headers)

    def _refuse(self) -> None:
        if self.logged_for_it:
            why = "it is a byte store, whose changes are logged for it"
        elif self.closed:
            why = "it is closed"
        else:
            why = "it is being initialised or restored: what comes from the changelog does not go there again"
        raise StoreError(f"store {self.store!r} logs a change, but {why}", store=self.store)

    def current_stream_time_ms(self) -> int:
        return self.cursor.stream_time

    def current_system_time_ms(self) -> int:
        return self.time_ms()

    def record_timestamp_ms(self) -> int:
        return self.cursor.timestamp

    def commit(self) -> None:
        self.request_commit()

    def app_configs(self) -> Mapping[str, Any]:
        return self.settings()

    def metrics(self) -> StreamsMetrics:
        return self.make_metrics()
