"""The clients of a command that works on a cluster."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.task_id import TopicPartition
from processor_api.texts import shown
from processor_api.topology.topology import Topology
from streams.cli.output.causes import CannotRun
from streams.cli.output.terminal import say_error
from streams.cli.output.waiting_notice import WaitingNotice
from streams.cli.settings_options import given_settings
from streams.cli.topology_function import load_topology
from streams.kafka.producing.batch_limits import limited

if TYPE_CHECKING:  # pydantic and the client are not needed to print the help
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin, Consumer, KafkaClients, Producer, TopicInfo

REACH_S = 10.0
DELIVERY_MS = 30_000
"""The time for which a record is tried to be delivered; the client's own, two minutes to five, is long for a person."""
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
            raise CannotRun("specify the application, such as app.py")
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


class ClusterConnection:
    """Makes the clients of one command.

    :param clients: makes them; librdkafka's if not given.
    :param read_only: whether they must not change the cluster, as those of a dry run.
    """

    def __init__(self, config: StreamsConfig, clients: KafkaClients | None = None, *, read_only: bool = False) -> None:
        from streams.config import clients as client_configs
        from streams.kafka.read_only import ReadOnlyClients, for_now

        self._config = config
        self._settings = client_configs
        self._client_id = f"{config.application_id}-cli"
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


class _OutageLines(logging.Handler):
    """Writes what clients log about the loss and the return of the brokers, a line each, to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        named = [str(vars(record)[name]) for name in ("servers", "error") if name in vars(record)]
        text = f"{record.getMessage()} ({': '.join(named)})" if named else record.getMessage()
        if (after_s := vars(record).get("after_s")) is not None:
            text += f" after {after_s} s"
        sys.stdout.flush()
        say_error(shown(text))
        sys.stderr.flush()


@contextmanager
def outages_said() -> Iterator[None]:
    """Has standard error say when the brokers are lost, and when they are back; a context manager."""
    log, handler = logging.getLogger("streams.kafka.client"), _OutageLines()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


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
    with WaitingNotice(f"a broker at {settings['bootstrap.servers']}"):
        describe_cluster(settings, timeout_s=REACH_S)
    return ConfluentClients()
