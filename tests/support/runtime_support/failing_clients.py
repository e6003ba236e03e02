"""Kafka clients that a test can make fail."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from processor_api.errors import RetryableError
from streams.kafka.client_statistics import ClientStatistics
from streams.kafka.ports import Admin, Consumer, KafkaClients, Producer
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

__all__ = ["DeadlyClients", "Deaf", "FailingClients", "RefusingAdmin", "Trap", "Trapped", "no_trap", "trapped"]

Trap = Callable[[str], None]
"""Called with the name of a call before it is made; what it raises comes out of the call."""


def no_trap(call: str) -> None:
    """Lets every call pass."""


class Trapped:
    """A client of another, some of whose calls go through a trap first."""

    def __init__(self, client: Any, trap: Trap, calls: Collection[str]) -> None:
        self._client = client
        self._trap = trap
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in self._calls:
            return found

        def call(*given: Any, **named: Any) -> Any:
            self._trap(name)
            return found(*given, **named)

        return call


class RefusingAdmin:
    """An admin client each of whose calls gets no answer."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object) -> Any:
            raise RetryableError("no broker answers")

        return refuse


class Deaf:
    """A consumer that is never told of the end of a partition."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def _told(self, message: Any) -> bool:
        return message.error() is None or message.error().code() != self._consumer.partition_eof

    def consume(self, max_messages: int, timeout_s: float) -> Sequence[Any]:
        return [message for message in self._consumer.consume(max_messages, timeout_s) if self._told(message)]

    def poll(self, timeout_s: float) -> Any:
        message = self._consumer.poll(timeout_s)
        return message if message is None or self._told(message) else None


class DeadlyClients:
    """Makes the clients of another, of which a call kills this process.

    :param call: its name.
    :param times: how many such calls pass first.
    """

    def __init__(self, clients: KafkaClients, call: str, times: int) -> None:
        self._clients = clients
        self._call = call
        self._left = times

    def _count(self, call: str) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def __getattr__(self, name: str) -> Any:
        make = getattr(self._clients, name)
        if name not in ("admin", "consumer", "producer"):
            return make
        return lambda config: Trapped(make(config), self._count, {self._call})


class FailingClients:
    """Makes the clients of another, with traps in them.

    :param deaf: consumers are not told of the ends of partitions.
    """

    CONSUMER = frozenset(("committed", "commit", "end_offsets", "poll"))
    PRODUCER = frozenset(("init_transactions", "send_offsets", "commit_transaction", "abort_transaction"))
    ADMIN = frozenset(("topics", "group_members"))

    def __init__(self, clients: KafkaClients, trap: Trap = no_trap, *, deaf: bool = False) -> None:
        self._clients = clients
        self._trap = trap
        self._deaf = deaf

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        made: Any = Trapped(self._clients.consumer(config), self._trap, self.CONSUMER)
        if self._deaf and not str(config.get("client.id", "")).endswith("restore-consumer"):
            made = Deaf(made)
        return made  # type: ignore[no-any-return]

    def producer(self, config: Mapping[str, Any]) -> Producer:
        made: Any = Trapped(self._clients.producer(config), self._trap, self.PRODUCER)
        return made  # type: ignore[no-any-return]

    def admin(self, config: Mapping[str, Any]) -> Admin:
        made: Any = Trapped(self._clients.admin(config), self._trap, self.ADMIN)
        return made  # type: ignore[no-any-return]

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        self._clients.leave_group(config, group, instance_id)

    def statistics(self) -> list[ClientStatistics]:
        return self._clients.statistics()


def trapped(trap: Trap, *, deaf: bool = False) -> Callable[[EmbeddedBroker], FailingClients]:
    """Returns what makes such clients of a broker in memory, for `runtime_support.running_app.Cluster`."""
    return lambda broker: FailingClients(EmbeddedClients(broker), trap, deaf=deaf)
