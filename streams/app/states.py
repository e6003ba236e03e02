"""The states of an application, and its state listener (semantics 130)."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack

from processor_api.errors import InternalError
from processor_api.texts import plain_str
from streams.threads import SYSTEM_THREADS, Threads
from streams.user_exits import passes

log = logging.getLogger("streams.client")


class ClientState(enum.StrEnum):
    """The state of an application.

    ::

        with app:
            assert app.wait(timedelta(seconds=30), state=ClientState.RUNNING)
        assert app.state is ClientState.NOT_RUNNING
    """

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    """Every stream thread runs all of its tasks."""
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"

    def is_running_or_rebalancing(self) -> bool:
        """Whether the application processes records, or is about to.

        ::

            assert app.state.is_running_or_rebalancing()
        """
        return self in (ClientState.RUNNING, ClientState.REBALANCING)

    def has_ended(self) -> bool:
        """Whether the application has closed, by request or after an error.

        ::

            app.close()
            assert app.state.has_ended()
        """
        return self in ENDED


ENDED = (ClientState.NOT_RUNNING, ClientState.ERROR)

NEXT: Mapping[ClientState, Set[ClientState]] = {
    ClientState.CREATED: {ClientState.REBALANCING, ClientState.PENDING_SHUTDOWN},
    ClientState.REBALANCING: {ClientState.RUNNING, ClientState.PENDING_SHUTDOWN, ClientState.PENDING_ERROR},
    ClientState.RUNNING: {ClientState.REBALANCING, ClientState.PENDING_SHUTDOWN, ClientState.PENDING_ERROR},
    ClientState.PENDING_SHUTDOWN: {ClientState.NOT_RUNNING},
    ClientState.NOT_RUNNING: set(),
    ClientState.PENDING_ERROR: {ClientState.ERROR},
    ClientState.ERROR: set(),
}

StateListener = Callable[[ClientState, ClientState], None]
"""``(new_state, old_state)``, called by the thread that changed the state. It must not wait for the application."""

_LATE = {
    ClientState.PENDING_SHUTDOWN: (ClientState.REBALANCING, ClientState.RUNNING, ClientState.PENDING_ERROR),
    ClientState.PENDING_ERROR: (ClientState.REBALANCING, ClientState.RUNNING, ClientState.PENDING_SHUTDOWN),
}
"""Changes that are ignored while the application ends already: threads may still report them, or users ask for them."""


class StateMachine:
    """Holds the state of one application, and notifies its listener. May be used by any thread."""

    def __init__(self, threads: Threads = SYSTEM_THREADS) -> None:
        self.listener: StateListener | None = None
        self._state = self._announced = ClientState.CREATED
        self._changed = threads.condition()
        self._notifying = threads.lock()
        self._notifier: int | None = None
        self.at_end = ExitStack()
        """Closes what serves the application from outside, just before it is in a state of the end."""

    @property
    def state(self) -> ClientState:
        """The state now."""
        return self._state

    def become(self, state: ClientState, *, only_from: ClientState | None = None) -> bool:
        """Changes the state and notifies the listener, in order; returns whether the state changed.

        :param only_from: changes nothing in any other state than this one.
        :raises InternalError: if the application cannot go from its state to that one.
        """
        if state in ENDED:
            self.at_end.close()
        with self._notifying:
            with self._changed:
                old = self._state
                if only_from not in (None, old):
                    return False
                if state is old or old in ENDED or state in _LATE.get(old, ()):
                    return False
                if state not in NEXT[old]:
                    raise InternalError(f"an application cannot go from {old} to {state}")
                self._state = state
            log.info("state", extra={"state": state.value, "before": old.value})
            try:
                self._notify(state, old)
            finally:
                with self._changed:
                    self._announced = self._state
                    self._changed.notify_all()
            return True

    def _notify(self, state: ClientState, old: ClientState) -> None:
        if self.listener is None:
            return
        outer, self._notifier = self._notifier, threading.get_ident()
        try:
            self.listener(state, old)
        except BaseException as error:
            if passes(error):
                raise
            name = getattr(self.listener, "__qualname__", type(self.listener).__qualname__)
            log.error(
                "the state listener %s raised %s when the application went from %s to %s; the application goes on",
                name,
                type(error).__name__,
                old,
                state,
                extra={"error": plain_str(error)},
                exc_info=error,
            )
        finally:
            self._notifier = outer

    def is_notifying_here(self) -> bool:
        """Whether the caller is the state listener, for which the application waits."""
        return self._notifier == threading.get_ident()

    def wait(self, timeout_s: float | None, state: ClientState | None) -> bool:
        """Waits for a state (the end if none is given) and the listener's call for it; returns whether it was reached.

        It also returns when the application has ended.
        """

        def reached() -> bool:
            return self._announced in ENDED or self._announced is state

        with self._changed:
            self._changed.wait_for(reached, timeout_s)
            return self._announced is state if state is not None else self._announced in ENDED
