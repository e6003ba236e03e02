"""Listeners of the user to restores and standby tasks: their errors are logged, and the application continues."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import isfunction, signature
from typing import Any

from processor_api.errors import TopologyError
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import plain_str, repr_of
from processor_api.user_code.checks import check_methods
from processor_api.user_code.given_values import attribute_of
from streams.restore.follower import StandbyUpdateListener, SuspendReason
from streams.restore.reports import StateRestoreListener
from streams.user_exits import passes

log = logging.getLogger("streams.client")


def _check_listener(listener: object, protocol: type, call: str) -> None:
    """Checks a listener: an object with at least one method of a protocol, which takes the arguments that are passed.

    :param call: the call that takes the listener, for the error.
    :raises TopologyError: if it is not such an object.
    """
    known = {
        name: tuple(signature(method).parameters)[1:]
        for name, method in vars(protocol).items()
        if not name.startswith("_") and isfunction(method)
    }
    if isinstance(listener, type) or not any(callable(attribute_of(listener, name)) for name in known):
        hint = ": give an object of the class" if isinstance(listener, type) else ""
        raise TopologyError(
            f"{call} takes a {protocol.__name__}, an object with at least one of the methods {', '.join(known)}, got"
            f" {repr_of(listener)}{hint}"
        )
    check_methods(listener, known, call)


class _GuardedCalls:
    """Calls methods of a listener, and logs the first error of each.

    :param kind: the kind of listener, for the log.
    :param work: what continues after an error, for the log.
    :param protocol: what the listener should have, and the call that takes it.
    :raises TopologyError: if it is not such a listener.
    """

    def __init__(self, listener: object, kind: str, work: str, protocol: type, setter: str) -> None:
        _check_listener(listener, protocol, setter)
        self._listener = listener
        self._kind, self._work = kind, work
        self._logged: set[str] = set()

    def __call__(self, name: str, partition: TopicPartition, store: str, *values: object) -> None:
        call: Callable[..., Any] | None = getattr(self._listener, name, None)
        if call is None:  # a listener need not have them all
            return
        try:
            call(partition, store, *values)
        except BaseException as error:
            if passes(error):
                raise
            if name in self._logged:
                return
            self._logged.add(name)
            log.error(
                "%s of the %s listener %s raised %s for store %r; %s goes on, and further errors of this call are not"
                " logged",
                name,
                self._kind,
                type(self._listener).__qualname__,
                type(error).__name__,
                store,
                self._work,
                extra={"error": plain_str(error)},
                exc_info=error,
            )


class GuardedRestoreListener:
    """Passes calls on to a listener of restores."""

    def __init__(self, listener: StateRestoreListener) -> None:
        self._call = _GuardedCalls(
            listener, "restore", "restoring", StateRestoreListener, "set_global_state_restore_listener"
        )

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


class GuardedStandbyListener:
    """Passes calls on to a listener of standby tasks."""

    def __init__(self, listener: StandbyUpdateListener) -> None:
        self._call = _GuardedCalls(
            listener, "standby update", "the standby task", StandbyUpdateListener, "set_standby_update_listener"
        )

    def on_update_start(self, partition: TopicPartition, store: str, starting_offset: int) -> None:
        """Passes the call on."""
        self._call("on_update_start", partition, store, starting_offset)

    def on_batch_loaded(
        self,
        partition: TopicPartition,
        store: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """Passes the call on."""
        self._call("on_batch_loaded", partition, store, task_id, batch_end_offset, batch_size, current_end_offset)

    def on_update_suspended(
        self, partition: TopicPartition, store: str, store_offset: int, current_end_offset: int, reason: SuspendReason
    ) -> None:
        """Passes the call on."""
        self._call("on_update_suspended", partition, store, store_offset, current_end_offset, reason)
