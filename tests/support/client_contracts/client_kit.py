"""The kit of the contract tests of Kafka clients: a cluster with unique names, and waiting on conditions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from processor_api.clock import SystemClock
from processor_api.errors import StreamsError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.kafka.ports import AT_BEGINNING, Admin, Consumer, KafkaClients, NewTopic, OnDelivery, Producer

__all__ = ["Cluster", "Deliveries", "Until", "contents", "raises", "read", "read_to_end", "send"]

T = TypeVar("T")


class Until:
    """Repeats an attempt until it gives something, and fails when patience is out. The attempt itself waits a little,
    by polling."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._clock = SystemClock()

    def __call__(self, what: str, attempt: Callable[[], T | None]) -> T:
        deadline_s = self._clock.monotonic() + self.patience_s
        while self._clock.monotonic() < deadline_s:
            result = attempt()
            if result:
                return result
        raise AssertionError(f"after {self.patience_s} s it is not true that {what}")


OF_MEMBER = {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 300}
"""The settings of a member of a group."""


class Cluster:
    """Clients of one cluster, with names of its own so that a cluster may be shared by many tests.

    :param let_time_pass: ``let_time_pass(seconds)`` moves the cluster's time; with a real one it waits.
    :param patience_s: how long a condition may take to come true.
    :param clean: ``clean(topic)`` makes the cluster compact and delete records that are due, if it does not do so by
        itself.
    """

    def __init__(
        self,
        clients: KafkaClients,
        *,
        let_time_pass: Callable[[float], None],
        patience_s: float = 30,
        clean: Callable[[str], None] = lambda topic: None,
    ) -> None:
        self.clients = clients
        self.let_time_pass = let_time_pass
        self.clean = clean
        self.until = Until(patience_s)
        self._opened = ExitStack()
        self._admin: Admin | None = None

    def now_ms(self) -> int:
        """Returns about the cluster's time."""
        return SystemClock().time_ms()

    def name(self, kind: str) -> str:
        """Returns a name that no other test uses."""
        return f"{kind}-{uuid.uuid4().hex}"

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = self.clients.admin({})
            self._opened.callback(self._admin.close)
        return self._admin

    def topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates a topic that keeps its records whatever their timestamps are."""
        name = self.name("topic")
        new = NewTopic(name=name, partitions=partitions, configs={"retention.ms": "-1", **(configs or {})})
        self.admin.create_topics([new])
        return name

    def producer(self, **settings: Any) -> Producer:
        """Makes a producer; settings in keywords, with ``_`` for ``.``."""
        producer = self.clients.producer({"partitioner": "murmur2_random", **_dotted(settings)})
        self._opened.callback(producer.close)
        return producer

    def transactional(self, transactional_id: str | None = None, **settings: Any) -> Producer:
        """Makes a transactional producer, initialised."""
        producer = self.producer(transactional_id=transactional_id or self.name("transactional-id"), **settings)
        producer.init_transactions()
        return producer

    def consumer(self, **settings: Any) -> Consumer:
        """Makes a consumer in a group of its own that reads committed records and reports the ends of partitions;
        settings in keywords, with ``_`` for ``.``."""
        consumer = self._new_consumer(settings)
        self._opened.callback(consumer.close)
        return consumer

    @contextmanager
    def reading(self) -> Iterator[Consumer]:
        """Makes a consumer for one read, which may be repeated many times, and closes it."""
        consumer = self._new_consumer({})
        try:
            yield consumer
        finally:
            consumer.close()

    def _new_consumer(self, settings: Mapping[str, Any]) -> Consumer:
        return self.clients.consumer(
            {
                "group.id": self.name("group"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                **OF_MEMBER,
                "topic.metadata.refresh.interval.ms": 500,
                **_dotted(settings),
            }
        )

    def close(self) -> None:
        """Closes every client, the newest first."""
        self._opened.close()


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


class Deliveries:
    """A delivery callback that keeps what it was given."""

    def __init__(self) -> None:
        self.reports: list[tuple[Any, Any]] = []

    def __call__(self, error: Any, message: Any) -> None:
        self.reports.append((error, message))

    @property
    def errors(self) -> list[str | None]:
        """Returns the names of the errors, ``None`` for a delivered record."""
        return [None if error is None else error.name() for error, _ in self.reports]

    @property
    def offsets(self) -> list[int]:
        return [message.offset() for error, message in self.reports if error is None]


def send(
    producer: Producer,
    topic: str,
    *values: bytes | str | None,
    key: bytes | str | None = None,
    partition: int = 0,
    timestamp: int = 1_000,
    headers: HeaderList | None = None,
    on_delivery: OnDelivery | None = None,
) -> None:
    """Produces one record for each value, without waiting."""
    for value in values:
        producer.produce(topic, value, key, partition, on_delivery, None, timestamp, headers)


def raises(kind: type[StreamsError], call: Callable[[], Any]) -> StreamsError:
    """Fails unless the call raises an error of this kind."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def contents(messages: Iterable[Any]) -> list[Any]:
    """Returns the values of messages."""
    return [message.value() for message in messages]


def read(until: Until, consumer: Consumer, count: int) -> list[Any]:
    """Returns the next ``count`` records of the assigned partitions; ends of partitions are skipped."""
    records: list[Any] = []

    def attempt() -> bool:
        message = consumer.poll(0.1)
        if message is not None and not _is_end(consumer, message):
            records.append(message)
        return len(records) >= count

    until(f"{count} records were read", attempt)
    return records


def read_to_end(
    until: Until, consumer: Consumer, partitions: Collection[TopicPartition], start: int | None = AT_BEGINNING
) -> list[Any]:
    """Assigns the partitions from ``start``, unless it is ``None``, and reads each up to its end."""
    if start is not None:
        consumer.assign(dict.fromkeys(partitions, start))
    open_partitions = set(partitions)
    records: list[Any] = []

    def attempt() -> bool:
        message = consumer.poll(0.1)
        if message is None:
            return False
        if _is_end(consumer, message):
            open_partitions.discard(TopicPartition(message.topic(), message.partition()))
        else:
            records.append(message)
        return not open_partitions

    until("the end of every partition was reached", attempt)
    return records


def _is_end(consumer: Consumer, message: Any) -> bool:
    error = message.error()
    assert error is None or error.code() == consumer.partition_eof, f"unexpected event: {error}"
    return error is not None
