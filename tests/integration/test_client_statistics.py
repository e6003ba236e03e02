"""The figures of an application's clients, and of a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration_support.topics import Topics
from processor_api.serde import Serdes
from runtime_support.running_app import passing_on
from streams import BrokerStatus, KafkaStreams, why_no_output
from waiting import wait_until

S = Serdes.STRING


def test_clients_and_the_broker_are_in_the_metrics_and_the_status(
    kafka: str, topics: Topics, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, sink, name = topics.create("in"), topics.create("out"), unique_name("app")
    settings = {
        "application.id": name,
        "bootstrap.servers": kafka,
        "state.dir": str(tmp_path),
        "commit.interval.ms": 100,
        "default.key.serde": S,
        "default.value.serde": S,
        "statistics.interval.ms": 200,
    }
    with KafkaStreams(passing_on(lambda value: None, source, out=sink), settings) as app:

        def metrics(group: str, metric: str) -> dict[str, Any]:
            found = {key: value for key, value in app.metrics().items() if (key.group, key.name) == (group, metric)}
            return {key.tags["client-id"]: value.metric_value() for key, value in found.items()}

        def is_known() -> bool:
            topics.send(source, [("k", "v")])
            latency = metrics("producer-node-metrics", "request-latency-avg")
            return any(one > 0 for one in latency.values()) and bool(metrics("consumer-metrics", "fetch-queue-bytes"))

        wait_until("both clients have told", is_known)
        assert all(
            client.startswith(app.status().client_id) for client in metrics("producer-metrics", "queued-records")
        )
        assert max(metrics("producer-metrics", "connection-count").values()) >= 1

        def has_latency() -> bool:
            topics.send(source, [("k", "v")])
            found.extend(app.status().brokers)
            return bool(found and found[-1].latency_ms)

        found: list[BrokerStatus] = []
        wait_until("it is in the status", has_latency)
        broker = found[-1]
        assert broker.address == kafka
        assert broker.connected >= 2
        assert (broker.unreachable, broker.unanswered) == (0, 0)
        assert "broker" not in [one.cause for one in why_no_output(app.status())]
        rebalances = {key.name: value.metric_value() for key, value in app.metrics().items() if "rebalance" in key.name}
        assert rebalances["rebalance-total"] >= 1
        assert rebalances["failed-rebalance-total"] == 0
        assert rebalances["rebalance-latency-max"] > 0
    assert app.status().brokers == ()
