"""The librdkafka adapter passes the contract of Kafka clients on a real Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from client_contracts.client_groups import ConsumerProtocolContract
from client_contracts.clients import Cluster, KafkaClientsContract
from processor_api.clock import SystemClock
from streams.kafka.confluent import ConfluentClients


@pytest.mark.integration
class TestConfluentClients(KafkaClientsContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, kafka: str) -> Iterator[None]:
        self.cluster = Cluster(ConfluentClients(kafka), let_time_pass=SystemClock().wait, patience_s=60)
        yield
        self.cluster.close()


@pytest.mark.integration
class TestConsumerProtocol(ConsumerProtocolContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, kafka: str) -> Iterator[None]:
        clients = ConfluentClients(kafka)
        self.bootstrap = kafka
        self.cluster = Cluster(clients, let_time_pass=SystemClock().wait, patience_s=60, protocol="consumer")
        yield
        self.cluster.close()

    def shorten_sessions(self, group: str) -> dict[str, Any]:
        entry = ConfigEntry("consumer.session.timeout.ms", "6000", incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.incremental_alter_configs([changed]).values():
            future.result(30)
        return {}
