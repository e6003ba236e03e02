"""The Kafka clients of a bootstrap."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.own_names import former_publishing_id, publishing_id
from streams.kafka.ports import Admin, Consumer, KafkaClients, NewTopic, Producer, UnknownPartitionError
from streams.kafka.producing.batch_limits import limited
from streams.kafka.read_only import ReadOnlyClients

KNOWN_S = 30.0
"""How long topics may take to be deleted, or to be known by all brokers."""
PAUSE_S = 0.1
TRANSACTION_MS = 60_000


class Cluster:
    """Holds the clients that read and write one cluster for one application; a context manager that closes them.

    :param clients: makes them; librdkafka's by default.
    :param read_only: whether they must not change the cluster, as those of a dry run.
    """

    def __init__(
        self,
        config: StreamsConfig | Mapping[str, Any],
        clients: KafkaClients | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.config = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        found = clients or _librdkafka(self.config)
        self._clients: KafkaClients = ReadOnlyClients(found) if read_only else found
        self.client_id = f"{self.config.application_id}-bootstrap"
        self.admin: Admin = self._clients.admin(client_configs.admin(self.config, f"{self.client_id}-admin"))
        self._clock: Clock = SystemClock()
        self.reader: Consumer = self._reader("reader")
        """Reads committed records and the offsets of the application's group; it is not a member of it."""

    def _reader(self, name: str, **more: Any) -> Consumer:
        settings = client_configs.restore_consumer(self.config, f"{self.client_id}-{name}")
        return self._clients.consumer({**settings, "isolation.level": "read_committed", **more})

    @contextmanager
    def offsets_of(self, group: str) -> Iterator[Consumer]:
        """Makes a consumer that has the offsets of another group, of which it is not a member, and closes it."""
        found = self._reader("offsets", **{"group.id": group})
        try:
            yield found
        finally:
            found.close()

    @contextmanager
    def reading(self) -> Iterator[Consumer]:
        """Makes a consumer that knows nothing of topics that were deleted."""
        reader = self._reader("check")
        try:
            yield reader
        finally:
            reader.close()

    @contextmanager
    def producing(self, topics: Collection[str], *, transactional_id: str | None = None) -> Iterator[Producer]:
        """Makes an idempotent producer for some topics, transactional if it gets an id for that."""
        settings = limited(client_configs.producer(self.config, f"{self.client_id}-producer"), self.admin, topics)
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
            settings["transaction.timeout.ms"] = TRANSACTION_MS
        producer = self._clients.producer(settings)
        try:
            yield producer
        finally:
            producer.close()

    def end_publishing(self) -> None:
        """Ends an open transaction of an earlier call that was killed, or else its offsets could not be read before its
        time-out; also of a former version, which published under another transactional id."""
        application = self.config.application_id
        own = {publishing_id(application), former_publishing_id(application)}
        for name in own.intersection(self.admin.open_transactions()):
            self.admin.fence_producer(name)

    def ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends of partitions, of topics that may be so new that not all brokers know them."""
        if not places:
            return {}
        until = self._clock.monotonic() + KNOWN_S
        while True:
            try:
                return self.reader.end_offsets(places)
            except UnknownPartitionError:
                if self._clock.monotonic() > until:
                    raise
            self._clock.wait(PAUSE_S)

    def make_again(self, topic: NewTopic) -> None:
        """Deletes a topic with its records, and makes it again.

        :raises RetryableError: if the broker does not delete it in time.
        """
        self.admin.delete_topics([topic.name])
        until = self._clock.monotonic() + KNOWN_S
        while topic.name in self.admin.topics():
            if self._clock.monotonic() > until:
                raise RetryableError(
                    f"topic {topic.name!r} was not deleted within {KNOWN_S:.0f} s: see why in the broker's log, then"
                    " call bootstrap again",
                    topic=topic.name,
                )
            self._clock.wait(PAUSE_S)
        self.admin.create_topics([topic])
        self.ends([TopicPartition(topic.name, number) for number in range(topic.partitions)])

    def close(self) -> None:
        """Closes the clients."""
        try:
            self.reader.close()
        finally:
            self.admin.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _librdkafka(config: StreamsConfig) -> KafkaClients:
    from streams.kafka.confluent.clients import ConfluentClients

    return ConfluentClients(config.bootstrap_servers)
