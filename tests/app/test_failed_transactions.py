"""A transaction that fails in the middle of a call is rolled back, and its records are processed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.testing.broker import EmbeddedBroker
from waiting import wait_until

CALLS = 5


def many(broker: EmbeddedBroker, refusals: list[str]) -> Topology:
    """Forwards each value several times in one call; the first calls meet an error of the broker in between."""

    class Many(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            broker.accept("out")
            error = refusals.pop() if refusals else None
            for number in range(CALLS):
                if number == 2 and error:
                    broker.refuse("out", error)
                self.context.forward(record.with_value(f"{record.value}-{number}"))
                self.context.commit()

    return Topology().add_source("source", "in").add_processor("p", Many, "source").add_sink("sink", "out", "p")


@pytest.mark.parametrize("error", ["REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS"])
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_an_outage_in_the_middle_of_a_call_ends_nothing(tmp_path: Path, error: str, linger_ms: int) -> None:
    """The client takes no more records in a transaction that failed, which ended the application."""
    with Cluster(tmp_path) as cluster:
        settings = {"processing.guarantee": "exactly_once_v2", "retry.backoff.ms": 1, "producer.linger.ms": linger_ms}
        app = cluster.app(many(cluster.broker, [error, error]), settings)
        cluster.send("a", "b")
        wait_until("all is committed", lambda: cluster.committed() == 2 or app.failure)
        assert app.failure is None
        assert cluster.values() == [f"{value}-{number}" for value in "ab" for number in range(CALLS)]
