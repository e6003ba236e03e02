"""Lets other processes of this machine use an embedded broker, which then outlives them.

Each client of another process is a connection, and has a client of its own here, which a thread serves. What crosses
the connection is pickled: ``(method, arguments)`` there, and back the reports of deliveries with the result, or with
the error. While a call runs, the listener of a consumer is called in the other process: it may make calls of its own
before it answers.

A connection that ends without a close is a process that died: its consumer is out of the group at once, where a real
broker waits for the session to end, and its transaction stays open until another producer has its id.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from processor_api.task_id import TopicPartition
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.clients import EmbeddedClients, EmbeddedStreamsGroup
from streams.testing.broker.consumer import EmbeddedConsumer
from streams.threads import SYSTEM_THREADS, Threads

Answer = tuple[str, Any, list[tuple[int, Any, Any]]]
"""``(kind, value, delivery reports)``: kind is ``result``, ``error``, or the name of a call of the listener."""


class BrokerServer:
    """Serves a broker to :class:`~streams.testing.broker.remote.RemoteClients`. It is a context manager.

    :param address: a path for a socket, which does not exist, or host and port; chosen by the platform if not given.
    """

    def __init__(
        self, broker: EmbeddedBroker, address: str | tuple[str, int] | None = None, threads: Threads = SYSTEM_THREADS
    ) -> None:
        self.key = os.urandom(32)
        """The secret that a client has to know to connect."""
        self._clients = EmbeddedClients(broker)
        self._threads = threads
        self._listener = Listener(address, authkey=self.key)
        self.address: Any = self._listener.address
        """Where clients connect to."""
        self._closed = False
        self._accepting = threads.thread(self._accept, "broker-server")
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except (OSError, EOFError, AuthenticationError):  # a client that died at once, or does not know the key
                if self._closed:
                    return
                continue
            if self._closed:
                connection.close()
                return
            self._threads.thread(partial(self._serve, connection), "broker-connection").start()

    def _serve(self, connection: Connection) -> None:
        try:
            kind, config = connection.recv()
            if kind == "leave_group":
                self._clients.leave_group({}, *config)
                connection.send(("result", None, []))
                return
            client = getattr(self._clients, kind)(config)
        except (OSError, EOFError):
            return
        served = _ServedClient(connection, client)
        try:
            served.answer_calls()
        except (OSError, EOFError):
            served.abandon()
        finally:
            connection.close()

    def close(self) -> None:
        """Takes no more clients; those that are connected stay."""
        if not self._closed:
            self._closed = True
            Client(self.address, authkey=self.key).close()  # ends the wait for the next one
            self._accepting.join()
            self._listener.close()

    def __enter__(self) -> BrokerServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _ServedClient:
    """A client of another process."""

    def __init__(self, connection: Connection, client: Any) -> None:
        self._connection = connection
        self._client = client
        self._reports: list[tuple[int, Any, Any]] = []

    def answer_calls(self) -> None:
        """Answers calls until the client is closed.

        :raises EOFError: if the other process died.
        :raises OSError: the same.
        """
        while True:
            name, arguments = self._connection.recv()
            self._answer(name, arguments)
            if name == "close":
                return

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            kind, value = "result", self._call(name, arguments)
        except (OSError, EOFError):
            raise
        except Exception as error:
            kind, value = "error", error
        reports, self._reports = self._reports, []
        self._connection.send((kind, value, reports))

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "subscribe":
            return self._client.subscribe(arguments[0], _RemoteListener(self._listen))
        if name == "produce":
            *record, number = arguments
            return self._client.produce(*record[:4], self._reporting(number), None, *record[4:])
        return getattr(self._client, name)(*arguments)

    def _reporting(self, number: int | None) -> Callable[[Any, Any], None] | None:
        """Returns the delivery callback of a record; ``None`` if the other process has none for it."""
        return None if number is None else lambda error, record: self._reports.append((number, error, record))

    def _listen(self, name: str, partitions: Collection[TopicPartition]) -> None:
        """Has the listener called, and answers the calls that it makes."""
        self._connection.send((name, frozenset(partitions), []))
        while True:
            call, arguments = self._connection.recv()
            if call == "listened":
                return
            self._answer(call, arguments)

    def abandon(self) -> None:
        """Leaves the client as that of a process that died."""
        if isinstance(self._client, (EmbeddedConsumer, EmbeddedStreamsGroup)):
            self._client.evict()


class _RemoteListener:
    """Implements `streams.kafka.ports.RebalanceListener` by the one of the other process."""

    def __init__(self, listen: Callable[[str, Collection[TopicPartition]], None]) -> None:
        self._listen = listen

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._listen("on_assigned", partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._listen("on_revoked", partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._listen("on_lost", partitions)
