"""The brokers of a cluster, added up from what each client of a process knows of them."""

from __future__ import annotations

from collections.abc import Iterable

from streams.kafka.client_statistics import BrokerFigures, ClientStatistics
from streams.observing.status import BrokerStatus


def broker_statuses(clients: Iterable[ClientStatistics]) -> tuple[BrokerStatus, ...]:
    """Returns the brokers by id. Latencies are those of producers: a fetch waits at the broker for records."""
    found: dict[tuple[int, str], list[tuple[bool, BrokerFigures]]] = {}
    for client in clients:
        for broker in client.brokers:
            address = "" if broker.node >= 0 else broker.address  # the ids of those that were given are all -1
            found.setdefault((broker.node, address), []).append((client.is_producer, broker))
    return tuple(_added(node, parts) for (node, _), parts in sorted(found.items(), key=lambda each: each[0]))


def _added(node: int, parts: list[tuple[bool, BrokerFigures]]) -> BrokerStatus:
    brokers = [broker for _, broker in parts]
    means = [one.latency_avg_ms for is_producer, one in parts if is_producer and one.latency_avg_ms is not None]
    slowest = [one.latency_p99_ms for is_producer, one in parts if is_producer and one.latency_p99_ms is not None]
    return BrokerStatus(
        id=node,
        address=brokers[-1].address,
        connected=sum(one.state == "UP" for one in brokers),
        unreachable=sum(one.is_unreachable for one in brokers),
        partitions=max(one.partitions for one in brokers),
        latency_ms=sum(means) / len(means) if means else None,
        latency_p99_ms=max(slowest, default=None),
        queued=sum(one.queued for one in brokers),
        unanswered=sum(one.timeouts for one in brokers),
        disconnects=sum(one.disconnects for one in brokers),
    )
