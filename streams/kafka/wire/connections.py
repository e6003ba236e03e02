"""Keeps connections to the brokers of a cluster for later requests, of any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from processor_api.errors import RetryableError, StreamsError
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.connection import Connection, Deadline, connect

T = TypeVar("T")


class Connections:
    """Makes connections, each used by one thread at a time, and keeps those that work. May be used by any thread.

    A connection that has rested may be half open: what is sent over it vanishes. So after an error of one, others that
    rest at the same address are closed.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: dict[Address, list[Connection]] = {}
        self._servers = settings.servers

    def _rested(self, address: Address) -> Connection | None:
        with self._lock:
            kept = self._idle.get(address)
            return kept.pop() if kept else None

    @contextmanager
    def _used(self, connection: Connection) -> Iterator[Connection]:
        address = connection.address
        try:
            yield connection
        except BaseException:
            with self._lock:
                closed = [connection, *self._idle.pop(address, ())]
            for one in closed:
                one.close()
            raise
        with self._lock:
            self._idle.setdefault(address, []).append(connection)

    def ask(self, address: Address, deadline: Deadline, ask: Callable[[Connection, Deadline], T]) -> T:
        """Returns the answer of a broker, over a new connection if one that has rested brings none in time.

        :param ask: is called again then, so it does no harm to call it twice.
        :raises StreamsError: as :func:`streams.kafka.wire.connection.connect`, and what ``ask`` raises.
        """
        if (rested := self._rested(address)) is not None:
            lost = False
            try:
                with self._used(rested):
                    try:
                        return ask(rested, deadline.of_rested())
                    except RetryableError:
                        lost = not rested.is_open
                        raise
            except RetryableError:
                if not lost:  # the answer came, and was one that may pass
                    raise
        with self._used(connect(address, self._settings, deadline)) as connection:
            return ask(connection, deadline)

    def any(self, deadline: Deadline, ask: Callable[[Connection, Deadline], T]) -> T:
        """Returns the answer of the first bootstrap server that can be asked; each gets its part of the time. The one
        that answered last is asked first.

        :raises StreamsError: if none can. The error of a refused login or certificate is preferred to that of a server
            that did not answer, since it is what the user has to repair.
        """
        refused: StreamsError | None = None
        unreachable: RetryableError | None = None
        servers = self._servers
        for tried, address in enumerate(servers):
            part = deadline.share(len(servers) - tried)
            try:
                answer = self.ask(address, part, ask)
            except RetryableError as error:
                unreachable = error
            except StreamsError as error:
                refused = refused or error
            else:
                if tried:
                    self._servers = (*servers[tried:], *servers[:tried])
                return answer
        raise refused or unreachable or StreamsError("there are no bootstrap servers")

    def close(self) -> None:
        """Closes the connections that are not in use; may be called again."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()
