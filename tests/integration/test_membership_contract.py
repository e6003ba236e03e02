"""Each kind of membership passes the contract on a real Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from client_contracts.membership import MembershipContract
from membership_kit import ClientsKit, StreamsGroupKit
from processor_api.clock import SystemClock


class TestControlTopicsOnKafka(MembershipContract):
    @pytest.fixture(autouse=True)
    def _kit(self, kafka: str) -> Iterator[None]:
        from streams.kafka.confluent import ConfluentClients

        clock = SystemClock()
        name = f"membership-{uuid.uuid4().hex[:8]}"
        self.kit = ClientsKit(ConfluentClients(kafka), clock, lambda seconds: None, name, 60)
        yield
        self.kit.close()


class TestStreamsGroupOnKafka(MembershipContract):
    @pytest.fixture(autouse=True)
    def _kit(self, kafka: str) -> Iterator[None]:
        from streams.kafka.confluent import ConfluentClients

        clients = ConfluentClients(kafka)
        name = f"membership-{uuid.uuid4().hex[:8]}"
        self.kit = StreamsGroupKit(clients, SystemClock(), name, 60, spreads_subtopologies=False)
        yield
        self.kit.close()
