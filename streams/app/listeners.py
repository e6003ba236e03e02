"""Restore listeners of the user: what they raise is logged, and the application goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from processor_api.task_id import TopicPartition
from processor_api.texts import plain_str
from streams.restore.reports import StateRestoreListener
from streams.user_exits import passes

log = logging.getLogger("streams.client")


class GuardedRestoreListener:
    """Passes calls on to a listener, and logs the first error of each kind of call."""

    def __init__(self, listener: StateRestoreListener) -> None:
        self._listener = listener
        self._logged: set[str] = set()

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """Passes the call on."""
        self._call("on_restore_start", partition, store, start, end)

    def on_batch_restored(self, partition: TopicPartition, store: str, end_offset: int, restored: int) -> None:
        """Passes the call on."""
        self._call("on_batch_restored", partition, store, end_offset, restored)

    def on_restore_end(self, partition: TopicPartition, store: str, restored: int) -> None:
        """Passes the call on."""
        self._call("on_restore_end", partition, store, restored)

    def on_restore_suspended(self, partition: TopicPartition, store: str, restored: int) -> None:
        """Passes the call on."""
        self._call("on_restore_suspended", partition, store, restored)

    def _call(self, name: str, partition: TopicPartition, store: str, *numbers: int) -> None:
        call: Callable[..., Any] | None = getattr(self._listener, name, None)
        if call is None:  # a listener need not have them all
            return
        try:
            call(partition, store, *numbers)
        except BaseException as error:
            if passes(error):
                raise
            if name in self._logged:
                return
            self._logged.add(name)
            log.error(
                "%s of the restore listener %s raised %s for store %r; restoring goes on, and further errors of this"
                " call are not logged",
                name,
                type(self._listener).__qualname__,
                type(error).__name__,
                store,
                extra={"error": plain_str(error)},
                exc_info=error,
            )
