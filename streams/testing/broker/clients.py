"""The embedded broker behind the port to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streams.testing.broker.admin import EmbeddedAdmin
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.consumer import EmbeddedConsumer
from streams.testing.broker.producer import EmbeddedProducer
from streams.testing.broker.streams_requests import EmbeddedStreamsGroup


class EmbeddedClients:
    """Implements `streams.kafka.ports.KafkaClients` over one broker. Settings that have no meaning here are ignored."""

    ends_with_process = True
    """The broker is in the memory of this process, so there is nothing to run on for when its script has ended."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker

    def consumer(self, config: Mapping[str, Any]) -> EmbeddedConsumer:
        return EmbeddedConsumer(self.broker, config)

    def producer(self, config: Mapping[str, Any]) -> EmbeddedProducer:
        return EmbeddedProducer(self.broker, config)

    def admin(self, config: Mapping[str, Any]) -> EmbeddedAdmin:
        return EmbeddedAdmin(self.broker)

    def streams_group(self, config: Mapping[str, Any]) -> EmbeddedStreamsGroup:
        return EmbeddedStreamsGroup(self.broker, config)

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        self.broker.leave_group(group, instance_id)
