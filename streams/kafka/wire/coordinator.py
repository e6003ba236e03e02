"""Finds the broker that coordinates a group through any bootstrap server, and finds it again when it has moved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Protocol, Self, TypeVar

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError
from streams.kafka.wire import error_codes
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.connection import Connection, Connections, Deadline, connect
from streams.kafka.wire.messages import FIND_COORDINATOR, GROUP_KEY, TRANSACTION_KEY, FindCoordinatorRequest

LATER = frozenset(
    (error_codes.COORDINATOR_LOAD_IN_PROGRESS, error_codes.COORDINATOR_NOT_AVAILABLE, error_codes.NOT_COORDINATOR)
)
"""Answers after which the coordinator is looked up again: it moves, or is not ready."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0

T = TypeVar("T")
Q = TypeVar("Q")


class CoordinatorAnswer(Protocol):
    """The fields that every answer of a coordinator has."""

    @property
    def error_code(self) -> int: ...


R = TypeVar("R", bound=CoordinatorAnswer)


class Coordinator:
    """Sends the requests of a group, or of a transactional id, to its coordinator. For one thread.

    :param group: the name of the group, or the transactional id.
    :param kind: `GROUP_KEY` or `TRANSACTION_KEY`.
    """

    def __init__(self, settings: ClientSettings, group: str, clock: Clock | None = None, kind: int = GROUP_KEY) -> None:
        self._settings = settings
        self._kind = kind
        self._what = f"transactional id {group!r}" if kind == TRANSACTION_KEY else f"group {group!r}"
        self._group = group
        self._clock = clock or SystemClock()
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; may be called again, and the next call connects again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, api: Api[Q, R], request: Q, timeout_s: float) -> R:
        """Sends a request, again if necessary: it must be one that does no harm when it arrives twice.

        :returns: an answer that is not one of `LATER`; other error codes are the caller's.
        :raises RetryableError: if there was none within the time.
        :raises StreamsError: at once, if a login or a certificate is refused, or the group may not be seen.
        """
        deadline = Deadline(timeout_s, self._clock)
        pause_s = _FIRST_PAUSE_S
        failure: RetryableError | None = None
        while True:
            try:
                limit = deadline if self._connection is None else deadline.of_rested()
                answer = self._connected(deadline).call(api, request, limit)
                if answer.error_code not in LATER:
                    return answer
                failure = self._not_ready(answer.error_code)
            except RetryableError as error:
                if failure is None or deadline.left_s():  # otherwise the error would say only that the time was over
                    failure = error
            self.close()
            if not deadline.wait(pause_s):
                raise failure
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def call_once(self, api: Api[Q, R], request: Q, timeout_s: float) -> R:
        """Sends a request once, for those that change something which the answer alone tells.

        :returns: an answer that is not one of `LATER`; other error codes are the caller's.
        :raises RetryableError: if there was no answer within the time, or the coordinator moves.
        :raises StreamsError: as for :meth:`call`.
        """
        deadline = Deadline(timeout_s, self._clock)
        try:
            answer = self._connected(deadline).call(api, request, deadline)
            if answer.error_code in LATER:
                raise self._not_ready(answer.error_code)
        except RetryableError:
            self.close()
            raise
        return answer

    def _connected(self, deadline: Deadline) -> Connection:
        if self._connection is None:
            address = through_any_server(self._settings, deadline, self._find)
            # A part of the time: the coordinator may have died, and another one can be found in the rest.
            self._connection = connect(address, self._settings, deadline.share(2))
        return self._connection

    def _find(self, connection: Connection, deadline: Deadline) -> Address:
        request = FindCoordinatorRequest(self._kind, (self._group,))
        found = connection.call(FIND_COORDINATOR, request, deadline).coordinators
        if len(found) != 1:
            raise StreamsError(f"{connection.address} named {len(found)} coordinators of {self._what}, not one")
        if found[0].error_code in LATER:
            raise self._not_ready(found[0].error_code)
        if found[0].error_code != error_codes.NONE:
            reason = error_codes.described(found[0].error_code, found[0].error_message)
            raise StreamsError(f"the coordinator of {self._what} cannot be found: {reason}")
        return Address(found[0].host, found[0].port)

    def _not_ready(self, code: int) -> RetryableError:
        return RetryableError(f"the coordinator of {self._what} is not ready: {error_codes.described(code)}")


def through_any_server(settings: ClientSettings, deadline: Deadline, ask: Callable[[Connection, Deadline], T]) -> T:
    """Returns the answer of the first bootstrap server that can be asked, by a connection that is closed then.

    :raises StreamsError: as :meth:`streams.kafka.wire.connection.Connections.any`.
    """
    with closing(Connections(settings)) as connections:
        return connections.any(deadline, ask)
