"""The librdkafka adapter passes the contract of Kafka clients on a real Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
