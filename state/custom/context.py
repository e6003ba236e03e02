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
from processor_api.user_code.checks import check_function
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


class StoreChanges:
    """The changes that a custom store logs, and whether it may log any."""

    def __init__(self, store: str, cursor: Cursor) -> None:
        self._store, self._cursor = store, cursor
        self._write: WriteChange | None = None
        """Writes a change to the changelog."""
        self._running = False
        """Whether records are processed, so that there are changes."""
        self.dirty = False
        """Whether anything may have been written since the last commit."""
        self.closed = False
        self.logged_for_it = False
        """Whether the runtime logs them."""

    def begin(self, write: WriteChange | None) -> None:
        """Records are processed from now on.

        :param write: ``None`` without a changelog.
        """
        self._write, self._running = write, True

    def log(
        self, key: bytes, value: bytes | None, timestamp: int | None = None, headers: HeaderList | None = None
    ) -> None:
        """Logs a change, as :meth:`~processor_api.stores.custom.StateStoreContext.log_change` says."""
        if not self._running or self.closed or self.logged_for_it:
            self._refuse()
        if type(key) is not bytes or (value is not None and type(value) is not bytes):
            raise StoreError(
                f"store {self._store!r} logs the key {repr_of(key)} with the value {repr_of(value)}: a changelog"
                " accepts bytes, and None for a deleted value",
                store=self._store,
            )
        self.dirty = True
        if self._write is not None:
            self._write(key, value, self._cursor.timestamp if timestamp is None else timestamp, headers)

    def _refuse(self) -> None:
        if self.logged_for_it:
            why = "it is a byte store, so the library logs its changes"
        elif self.closed:
            why = "it is closed"
        else:
            why = "it is being initialized or restored: rows from the changelog must not be logged again"
        raise StoreError(f"store {self._store!r} logs a change, but {why}", store=self._store)


class StoreContext:
    """The context of one store object, from its ``init`` to its ``close``."""

    def __init__(self, environment: StoreEnvironment) -> None:
        self._environment = environment
        self.application_id = environment.application_id
        self.task_id = environment.task_id
        self.state_dir = environment.state_dir
        self.changelog_topic = environment.changelog_topic
        self.key_serde = environment.key_serde
        self.value_serde = environment.value_serde
        self.restore: RestoreCallback | None = None
        """The callback that the store has registered."""
        self.changes = StoreChanges(environment.store, environment.cursor)
        self.log_change = self.changes.log

    def register(self, restore: RestoreCallback) -> None:
        store = self._environment.store
        check_function(restore, "restore callback", f"store {store!r}", ("records",), store=store)
        self.restore = restore

    def current_stream_time_ms(self) -> int:
        return self._environment.cursor.stream_time

    def current_system_time_ms(self) -> int:
        return self._environment.time_ms()

    def record_timestamp_ms(self) -> int:
        return self._environment.cursor.timestamp

    def commit(self) -> None:
        self._environment.request_commit()

    def app_configs(self) -> Mapping[str, Any]:
        return self._environment.settings()

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        return with_prefix(self.app_configs(), prefix)

    def metrics(self) -> StreamsMetrics:
        return self._environment.make_metrics()
