"""The contract of `streams.kafka.ports.KafkaClients`, for pytest.

Subclass `KafkaClientsContract` under a name that pytest collects and give each test a `Cluster`::

    class TestMyClients(KafkaClientsContract):
        @pytest.fixture(autouse=True)
        def _cluster(self):
            self.cluster = Cluster(MyClients(...), let_time_pass=SystemClock().wait)
            yield
            self.cluster.close()

The tests hold on a real Apache Kafka: names are unique, waits have a deadline, and nothing is assumed about batches.
Where implementations must differ, a property of the clients names it (`Producer.zero_timestamp_ms`).
"""

from __future__ import annotations

from client_contracts.client_admin import AdminContract
from client_contracts.client_batches import BatchContract
from client_contracts.client_consumer import ConsumerContract
from client_contracts.client_groups import GroupContract
from client_contracts.client_kit import Cluster
from client_contracts.client_log import LogContract
from client_contracts.client_producer import ProducerContract
from client_contracts.client_transactions import TransactionContract

__all__ = ["Cluster", "KafkaClientsContract"]


class KafkaClientsContract(
    ProducerContract,
    BatchContract,
    ConsumerContract,
    LogContract,
    TransactionContract,
    GroupContract,
    AdminContract,
):
    """Every rule of `streams.kafka.ports`, as tests over ``self.cluster``."""
