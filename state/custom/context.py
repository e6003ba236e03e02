"""The context that a custom store is initialised with (`processor_api.stores.custom.StateStoreContext`)."""

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
from processor_api.texts import repr_of
from processor_api.user_code.given_values import with_prefix
from state.row_format.record_context import Cursor

WriteChange = Callable[..., None]
"""``(key, value, timestamp_ms, headers)`` to the changelog."""


@dataclass(frozen=True, kw_only=True)
class StoreEnvironment:
    """Holds what the runtime gives to a custom store: its place, its serdes, and functions of its task."""

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


class StoreContext:
    """The context of one store object, from its ``init`` to its ``close``."""

    def __init__(self, environment: StoreEnvironment) -> None:
        self._environment = environment
        self.store = environment.store
        self.application_id = environment.application_id
        self.task_id = environment.task_id
        self.state_dir = environment.state_dir
        self.changelog_topic = environment.changelog_topic
        self.key_serde = environment.key_serde
        self.value_serde = environment.value_serde
        self.cursor = environment.cursor
        self.restore: RestoreCallback | None = None
        """The callback that the store has registered."""
        self.dirty = False
        """Whether anything may have been written since the last commit."""
        self.closed = False
        self.running = False
        """Whether records are processed, so that there are changes."""
        self.write: WriteChange | None = None
        """Writes a change to the changelog."""
        self.logged_for_it = False
        """Whether the runtime logs its changes."""

    def register(self, restore: RestoreCallback) -> None:
        if not callable(restore):
            raise StoreError(
                f"store {self.store!r} registers {repr_of(restore)}, which cannot be called", store=self.store
            )
        self.restore = restore

    def log_change(
        self, key: bytes, value: bytes | None, timestamp: int | None = None, headers: HeaderList | None = None
    ) -> None:
        if not self.running or self.closed or self.logged_for_it:
            self._refuse()
        if type(key) is not bytes or (value is not None and type(value) is not bytes):
            raise StoreError(
                f"store {self.store!r} logs the key {repr_of(key)} with the value {repr_of(value)}: a changelog takes"
                " bytes, and None for a value that is deleted",
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
        return self._environment.time_ms()

    def record_timestamp_ms(self) -> int:
        return self.cursor.timestamp

    def commit(self) -> None:
        self._environment.request_commit()

    def app_configs(self) -> Mapping[str, Any]:
        return self._environment.settings()

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        return with_prefix(self.app_configs(), prefix)

    def metrics(self) -> StreamsMetrics:
        return self._environment.make_metrics()
