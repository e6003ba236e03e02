"""Topics of a test on a real broker: making, filling and reading them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from waiting import DEADLINE_S, wait_until

PASSING = (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class Topics:
    """The topics of one test."""

    def __init__(self, bootstrap: str, unique_name: Callable[[str], str]) -> None:
        self.bootstrap = bootstrap
        self._unique_name = unique_name
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, kind: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = self._unique_name(kind)
        self.create_named(name, partitions, config)
        return name

    def create_named(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """The broker knows it when this returns: a moment after it was made, it may say that there is no such topic."""
        self._admin.create_topics([NewTopic(name, partitions, config=dict(config or {}))])[name].result(60)
        self._until_known(name, partitions)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Gives it so many in all."""
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(60)
        self._until_known(name, partitions)

    def _until_known(self, name: str, partitions: int) -> None:
        wait_until(
            f"topic {name} is known",
            lambda: len(self._admin.list_topics(name, timeout=60).topics[name].partitions) == partitions,
        )

    def partitions(self, name: str) -> int:
        return len(self._admin.list_topics(name, timeout=60).topics[name].partitions)

    def names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=60).topics)

    def send(
        self,
        topic: str,
        records: Iterable[tuple[str | None, str]],
        partitions: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Sends and waits; with ``partitions`` the records go round robin over so many, with ``timestamp`` all have
        it."""
        with self._sending() as produce:
            for number, (key, value) in enumerate(records):
                place = {} if partitions is None else {"partition": number % partitions}
                place |= {} if timestamp is None else {"timestamp": timestamp}
                produce(topic, value, key, **place)

    @contextmanager
    def _sending(self) -> Iterator[Callable[..., None]]:
        """Gives a producer's call; at the end everything was delivered."""
        settings = {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "message.max.bytes": 3_000_000}
        settings["partitioner"] = "murmur2_random"  # as Kafka Streams and its producers choose partitions
        producer = Producer(settings)
        failed: list[Any] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        yield partial(producer.produce, on_delivery=delivered)
        assert producer.flush(60) == 0
        assert not failed

    def send_timed(self, topic: str, records: Iterable[tuple[str | None, str | bytes | None, int]]) -> None:
        """Sends records with timestamps of their own, in order, and waits; a null value is a tombstone."""
        with self._sending() as produce:
            for key, value, timestamp in records:
                produce(topic, value, key, timestamp=timestamp)

    def committed(self, group: str, topic: str, partitions: int = 1) -> dict[int, int]:
        """The group's committed offsets of a topic, without those partitions that have none."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "enable.auto.commit": False})
        try:
            found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=60)
        finally:
            consumer.close()
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def end_offsets(self, topic: str, partitions: int = 1) -> dict[int, int]:
        """The end of each partition's log, transaction markers included."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends"})
        try:
            places = [TopicPartition(topic, number) for number in range(partitions)]
            return {one.partition: consumer.get_watermark_offsets(one, timeout=60)[1] for one in places}
        finally:
            consumer.close()

    def reader(self, topic: str, *, committed_only: bool = True) -> "Reader":
        return Reader(self.bootstrap, topic, committed_only=committed_only)


def _texts(*parts: bytes | None) -> list[str | None]:
    return [None if part is None else part.decode() for part in parts]


class Reader:
    """Reads a topic from its beginning; a context manager."""

    def __init__(self, bootstrap: str, topic: str, *, committed_only: bool) -> None:
        self.records: list[Any] = []
        self.values: dict[str | None, list[str | None]] = defaultdict(list)
        """Of each key, in order."""
        self._last: dict[int, int] = {}
        """The last offset of each partition."""
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
                "auto.offset.reset": "error",
            }
        )
        count = len(self._consumer.list_topics(topic, timeout=60).topics[topic].partitions)
        self._places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(count)]
        self._consumer.assign(self._places)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def latest(self) -> dict[str | None, str | None]:
        return {key: values[-1] for key, values in self.values.items()}

    @property
    def places(self) -> list[tuple[int, int, str | None, str | None]]:
        """Partition, offset, key and value of each record, by place."""
        return sorted((one.partition(), one.offset(), *_texts(one.key(), one.value())) for one in self.records)

    def read(self) -> None:
        """Takes what comes within a moment."""
        for message in self._consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                key, value = _texts(message.key(), message.value())
                self.records.append(message)
                self._take_place(message)
                self.values[key].append(value)
            else:
                assert error.code() in PASSING or error.retriable(), error

    def _take_place(self, message: Any) -> None:
        """A record that is read twice would look like one that was written twice."""
        partition, offset = message.partition(), message.offset()
        last = self._last.get(partition, -1)
        assert offset > last, f"the reader got offset {offset} of partition {partition} after offset {last}"
        self._last[partition] = offset

    def until(
        self, what: str, condition: Callable[["Reader"], Any], deadline_s: float = DEADLINE_S, tell: Any = None
    ) -> None:
        """Reads until the condition holds."""
        wait_until(
            what,
            lambda: condition(self) or self.read(),
            tell or (lambda: self.latest),
            deadline_s=deadline_s,
            pauses=False,
        )

    def to_end(self) -> None:
        """Reads what the log holds by now; nothing may be written meanwhile."""
        ends = {
            place.partition: self._consumer.get_watermark_offsets(place, timeout=60, cached=False)[1]
            for place in self._places
        }

        def at_end(_: Reader) -> bool:
            positions = {one.partition: one.offset for one in self._consumer.position(self._places)}
            return all(end == 0 or positions[number] >= end for number, end in ends.items())

        self.until(f"the end of {self._topic} is reached", at_end)
