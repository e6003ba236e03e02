"""An embedded broker of another process passes the contract of Kafka clients; a process that dies is out of its
group."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_contracts.clients import Cluster, KafkaClientsContract
from processor_api.clock import ManualClock, SystemClock
from processor_api.errors import RetryableError
from streams.testing.broker import EmbeddedBroker
from streams.testing.broker.remote import RemoteClients
from streams.testing.broker.server import BrokerServer

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


class TestRemoteClients(KafkaClientsContract):
    @pytest.fixture(autouse=True)
    def _cluster(self) -> Iterator[None]:
        clock = ManualClock(SystemClock().time_ms())
        broker = EmbeddedBroker(clock)
        with BrokerServer(broker) as server:
            self.cluster = Cluster(
                RemoteClients(server.address, server.key),
                let_time_pass=lambda seconds: clock.advance(int(seconds * 1000)),
                patience_s=20,
                clean=broker.clean,
            )
            yield
            self.cluster.close()


MEMBER = """
import sys
from streams.testing.broker.remote import RemoteClients
class Listener:
    def on_assigned(self, partitions):
        print(len(partitions), flush=True)
    on_revoked = on_lost = on_assigned
address, key = sys.stdin.readline().strip(), bytes.fromhex(sys.stdin.readline())
consumer = RemoteClients(address, key).consumer({"group.id": "g", "session.timeout.ms": 3_600_000})
consumer.subscribe(["t"], Listener())
while True:
    consumer.poll(0.05)
"""


def test_a_process_that_is_killed_is_out_of_its_group_at_once() -> None:
    broker = EmbeddedBroker()
    broker.create_topic("t", 3)
    with (
        BrokerServer(broker) as server,
        subprocess.Popen(
            [sys.executable, "-c", MEMBER], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{server.address}\n{server.key.hex()}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "3\n"
        admin = RemoteClients(server.address, server.key).admin({})
        assert len(admin.group_members("g")) == 1
        process.kill()
        process.wait(DEADLINE_S)
        deadline = SystemClock().monotonic() + DEADLINE_S
        while admin.group_members("g"):
            assert SystemClock().monotonic() < deadline
        admin.close()


def test_a_broker_that_is_gone_and_a_wrong_key_are_errors() -> None:
    server = BrokerServer(EmbeddedBroker())
    admin = RemoteClients(server.address, server.key).admin({})
    assert admin.topics() == {}
    with pytest.raises(Exception, match="digest"):
        RemoteClients(server.address, b"another").admin({})
    assert RemoteClients(server.address, server.key).admin({}).topics() == {}
    server.close()
    with pytest.raises(RetryableError, match="cannot be reached"):
        RemoteClients(server.address, server.key).admin({})
