"""Makes librdkafka's clients, and says which version of it is loaded."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import confluent_kafka

from processor_api.clock import Clock, SystemClock
from streams.kafka.client_statistics import ClientStatistics
from streams.kafka.confluent.admin import ConfluentAdmin
from streams.kafka.confluent.callbacks import LatestStatistics
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.confluent.consuming.group_place import check_metadata_form, group_metadata
from streams.kafka.confluent.outage import ClusterOutage
from streams.kafka.confluent.producer import ConfluentProducer
from streams.kafka.ports import Admin, Consumer, Producer
from streams.kafka.streams_group import StreamsGroupRequests
from streams.log import watch_outage


def librdkafka_version() -> str:
    """Returns the version of the library itself, which need not be that of the Python package around it."""
    version: str = confluent_kafka.libversion()[0]
    return version


LEAVE_LOST_S = 1.0
"""How long a member tries to leave its group while no broker answers: a stop waits for it."""


class ConfluentClients:
    """Implements `streams.kafka.ports.KafkaClients`.

    :param bootstrap_servers: used where a configuration names none.
    """

    def __init__(self, bootstrap_servers: str | None = None, clock: Clock | None = None) -> None:
        self._defaults = {} if bootstrap_servers is None else {"bootstrap.servers": bootstrap_servers}
        self._clock = clock or SystemClock()
        self._outages: dict[str | None, ClusterOutage] = {}
        self._statistics: WeakSet[LatestStatistics] = WeakSet()
        self._lock = threading.Lock()

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        made = ConfluentConsumer({**self._defaults, **config}, self._outage(config))
        self._watch(made.statistics)
        return made

    def producer(self, config: Mapping[str, Any]) -> Producer:
        made = ConfluentProducer({**self._defaults, **config}, self._clock, self._outage(config))
        self._watch(made.statistics)
        return made

    def admin(self, config: Mapping[str, Any]) -> Admin:
        return ConfluentAdmin({**self._defaults, **config}, self._clock, outage=self._outage(config))

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        from streams.kafka.wire.leave import LEAVE_S, leave_group

        settings = {**self._defaults, **config}
        timeout_s = LEAVE_LOST_S if self._outage(config).lasts else LEAVE_S
        leave_group(settings, group, instance_id, timeout_s=timeout_s, clock=self._clock)

    def streams_group(self, config: Mapping[str, Any]) -> StreamsGroupRequests:
        from streams.kafka.wire.streams_groups.requests import WireStreamsGroup

        settings = {**self._defaults, **config}
        check_metadata_form(settings)
        return WireStreamsGroup(settings, group_metadata, self._clock)

    def statistics(self) -> list[ClientStatistics]:
        with self._lock:
            known = list(self._statistics)
        found = [one for each in known if (one := each.get()) is not None]
        return sorted(found, key=lambda one: one.client_id)

    def _watch(self, statistics: LatestStatistics) -> None:
        with self._lock:
            self._statistics.add(statistics)

    def _outage(self, config: Mapping[str, Any]) -> ClusterOutage:
        """Returns that of the cluster of a configuration."""
        servers = {**self._defaults, **config}.get("bootstrap.servers")
        with self._lock:
            if servers not in self._outages:
                self._outages[servers] = ClusterOutage(servers, self._clock)
                watch_outage(self._outages[servers])
            return self._outages[servers]
