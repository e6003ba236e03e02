"""The embedded broker passes the contract of Kafka clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client_contracts.clients import Cluster, KafkaClientsContract
from processor_api.clock import ManualClock, SystemClock
from streams.testing.broker import EmbeddedBroker, EmbeddedClients


class TestEmbeddedClients(KafkaClientsContract):
    @pytest.fixture(autouse=True)
    def _cluster(self) -> Iterator[None]:
        clock = ManualClock(SystemClock().time_ms())
        broker = EmbeddedBroker(clock)
        self.cluster = Cluster(
            EmbeddedClients(broker),
            let_time_pass=lambda seconds: clock.advance(int(seconds * 1000)),
            patience_s=5,
            clean=broker.clean,
        )
        yield
        self.cluster.close()
