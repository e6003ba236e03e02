"""Clients for work on a cluster beside an application: with its settings, and closed after use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from processor_api.errors import ConfigError
from processor_api.task_id import TopicPartition
from streams.kafka.producing.batch_limits import limited

if TYPE_CHECKING:  # pydantic and the client are not needed to print the help of a command
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin, Consumer, KafkaClients, Producer, TopicInfo

REACH_S = 10.0
DELIVERY_MS = 30_000
"""The time for which a record is tried to be delivered; the client's own, two minutes to five, is long for a person."""


class ClusterClients:
    """Makes clients with the settings of an application, and closes them.

    :param client_id: the begin of their client ids.
    :param clients: makes them; librdkafka's if not given.
    :param read_only: whether they must not change the cluster, as those of a dry run.
    :raises StreamsError: with the reason, if librdkafka's are to be made and no broker answers within 10 s.
    """

    def __init__(
        self, config: StreamsConfig, client_id: str, clients: KafkaClients | None = None, *, read_only: bool = False
    ) -> None:
        from streams.config import clients as client_configs
        from streams.kafka.read_only import ReadOnlyClients, for_now

        self._config = config
        self._settings = client_configs
        self._client_id = client_id
        found = clients if clients is not None else _reachable(config, self._client_id)
        self._clients: KafkaClients = ReadOnlyClients(found) if read_only else for_now(found)

    @property
    def clients(self) -> KafkaClients:
        """Makes the clients."""
        return self._clients

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """Makes an admin client, and closes it."""
        found = self._clients.admin(self._settings.admin(self._config, f"{self._client_id}-admin"))
        try:
            yield found
        finally:
            found.close()

    @contextmanager
    def consumer(self, *, committed: bool = True, group: str | None = None) -> Iterator[Consumer]:
        """Makes a consumer that joins no group, and closes it.

        :param committed: leaves out records of transactions that are open or were rolled back.
        :param group: whose committed offsets it reads; the application's if not given.
        """
        settings = self._settings.restore_consumer(self._config, f"{self._client_id}-consumer")
        if group is not None:
            settings["group.id"] = group
        isolation = "read_committed" if committed else "read_uncommitted"
        found = self._clients.consumer({**settings, "isolation.level": isolation})
        try:
            yield found
        finally:
            found.close()

    @property
    def servers(self) -> str:
        """The addresses of the brokers, for a sentence."""
        return self._config.bootstrap_servers

    def delivery_timeout_ms(self, given_s: float | None) -> int:
        """Returns how long a record is tried to be delivered: as given, or as the settings say, or 30 s."""
        if given_s is not None:
            return max(1, round(given_s * 1000))
        set_ms = self._settings.producer(self._config, self._client_id).get("delivery.timeout.ms")
        return int(set_ms or 0) or DELIVERY_MS

    @contextmanager
    def producer(self, topic: str, timeout_ms: int) -> Iterator[Producer]:
        """Makes a producer for a topic that reports each delivery, and closes it.

        :param timeout_ms: how long a record is tried to be delivered.
        """
        with self.admin() as admin:
            settings = limited(self._settings.producer(self._config, f"{self._client_id}-producer"), admin, [topic])
        reports = {"delivery.report.only.error": False, "delivery.timeout.ms": timeout_ms}
        found = self._clients.producer({**settings, **reports})
        try:
            yield found
        finally:
            found.close()

    @contextmanager
    def transactional_producer(self, topics: Collection[str], transactional_id: str) -> Iterator[Producer]:
        """Makes a producer for topics that writes in transactions, under each guarantee of the application, and closes
        it. It fences an earlier one with the same id."""
        config = self._config.model_copy(update={"processing_guarantee": "exactly_once_v2"})
        settings = self._settings.producer(config, f"{self._client_id}-producer", transactional_id)
        with self.admin() as admin:
            settings = limited(settings, admin, list(topics))
        found = self._clients.producer(settings)
        try:
            found.init_transactions()
            yield found
        finally:
            found.close()


def partitions_of(topics: Collection[str], existing: Mapping[str, TopicInfo]) -> list[TopicPartition]:
    """Returns the partitions of those topics that exist, in order."""
    return [
        TopicPartition(name, number)
        for name in sorted(set(topics))
        if name in existing
        for number in range(existing[name].partitions)
    ]


def _reachable(config: StreamsConfig, client_id: str) -> KafkaClients:
    """Returns librdkafka's clients once a broker has answered: librdkafka would keep trying for half a minute.

    :raises StreamsError: with the reason, if none answers.
    """
    from streams.config import clients as client_configs
    from streams.kafka.confluent import ConfluentClients
    from streams.kafka.wire.client_settings import ClientSettings
    from streams.kafka.wire.describe import describe_cluster

    settings = client_configs.admin(config, client_id)
    try:
        ClientSettings.of(settings)
    except ConfigError:  # a login that only librdkafka has
        return ConfluentClients()
    describe_cluster(settings, timeout_s=REACH_S)
    return ConfluentClients()
