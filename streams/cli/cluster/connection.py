"""The clients of a command that works on a cluster."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.task_id import TopicPartition
from processor_api.topology import Topology
from streams.cli.failures import CannotRun
from streams.cli.settings_options import given_settings
from streams.cli.topology_function import load_topology

if TYPE_CHECKING:  # pydantic and the client are not needed to print the help
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin, Consumer, KafkaClients, Producer, TopicInfo

__all__ = ["Connection", "Target", "partitions_of", "target_of"]

REACH_S = 10.0
_STAND_IN = "streams-cli"


@dataclass(frozen=True)
class Target:
    """The application that a command is about, and its settings."""

    config: StreamsConfig
    topology: Topology | None
    app: str | None
    """The application as it was given, for hints; ``None`` if none was."""
    has_id: bool
    """Whether an application id is given or follows from the application's file."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings under Kafka's names."""
        return self.config.dotted()

    def known_topology(self) -> Topology:
        """Returns the topology of a command that needs one."""
        if self.topology is None:
            raise CannotRun("name the application, such as app.py")
        return self.topology


def target_of(arguments: argparse.Namespace) -> Target:
    """Returns the application of a command, loaded.

    Nothing is logged but what the command prints, since its lines say what the clients would log.

    :raises ConfigError: if settings are wrong or missing.
    :raises CannotRun: if the application cannot be loaded.
    """
    from streams.config import StreamsConfig

    logging.getLogger("streams").addHandler(logging.NullHandler())
    given = given_settings(arguments, derives_id=True).settings
    has_id = "application.id" in given
    config = StreamsConfig.of(given if has_id else {**given, "application.id": _STAND_IN})
    app = arguments.topology
    topology = None if app is None else load_topology(app, lambda: config)
    return Target(config, topology, app, has_id)


class Connection:
    """Makes the clients of one command.

    :param clients: makes them; librdkafka's if not given.
    """

    def __init__(self, config: StreamsConfig, clients: KafkaClients | None = None) -> None:
        from streams.config import clients as client_configs

        self._config = config
        self._settings = client_configs
        self._client_id = f"{config.application_id}-cli"
        self._clients = clients if clients is not None else _reachable(config, self._client_id)

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """Makes an admin client, and closes it."""
        found = self._clients.admin(self._settings.admin(self._config, f"{self._client_id}-admin"))
        try:
            yield found
        finally:
            found.close()

    @contextmanager
    def consumer(self, *, committed: bool = True) -> Iterator[Consumer]:
        """Makes a consumer that joins no group, and closes it.

        :param committed: leaves out records of transactions that are open or were rolled back.
        """
        settings = self._settings.restore_consumer(self._config, f"{self._client_id}-consumer")
        isolation = "read_committed" if committed else "read_uncommitted"
        found = self._clients.consumer({**settings, "isolation.level": isolation})
        try:
            yield found
        finally:
            found.close()

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        """Makes a producer that reports each delivery, and closes it."""
        settings = self._settings.producer(self._config, f"{self._client_id}-producer")
        found = self._clients.producer({**settings, "delivery.report.only.error": False})
        try:
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
    """Returns librdkafka's clients once a broker has answered: librdkafka would go on trying for half a minute.

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
