"""The metrics of a process's Kafka clients: under Kafka's names where its clients have them (docs/monitoring.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat

from processor_api.metrics import Metric, MetricName
from streams.kafka.client_statistics import BrokerFigures, ClientStatistics, TopicFigures
from streams.metrics.registry import Gauge

Figures = Iterable[tuple[str, str, float | None]]
"""The name, the description and the value of each metric."""


def client_statistics_metrics(clients: Iterable[ClientStatistics]) -> Iterator[Metric]:
    """Yields the metrics of clients, of the brokers that they talk to, and of the topics that they write.

    The values are those of the statistics given: clients add them up from time to time.
    """
    for client in clients:
        kind = "producer" if client.is_producer else "consumer"
        tags = {"client-id": client.client_id}
        yield from _metrics(f"{kind}-metrics", tags, _of_client(client))
        for broker in client.brokers:
            yield from _metrics(f"{kind}-node-metrics", {**tags, "node-id": f"node-{broker.node}"}, _of_broker(broker))
        for topic in client.topics:
            yield from _metrics(f"{kind}-topic-metrics", {**tags, "topic": topic.topic}, _of_topic(topic))


def _metrics(group: str, tags: Mapping[str, str], figures: Figures) -> Iterator[Metric]:
    for name, what, value in figures:
        read = repeat(math.nan if value is None else value).__next__
        yield Gauge(MetricName(name, group, what, tags), read)


def _of_client(client: ClientStatistics) -> Figures:
    brokers = client.brokers
    yield "connection-count", "open connections", sum(one.state == "UP" for one in brokers)
    yield "connection-creation-total", "connection attempts", sum(one.connects for one in brokers)
    yield "connection-close-total", "closed connections", sum(one.disconnects for one in brokers)
    if client.queue_bytes_max is not None:
        free = client.queue_bytes_max - client.queued_bytes
        yield "buffer-total-bytes", "bytes of the record buffer", client.queue_bytes_max
        yield "buffer-available-bytes", "free bytes of the record buffer", free
        yield "queued-records", "records that are queued for the brokers", client.queued_records
    else:
        yield "fetch-queue-records", "records that were fetched but not polled", client.queued_records
        yield "fetch-queue-bytes", "bytes of the records that were fetched but not polled", client.queued_bytes


def _of_broker(broker: BrokerFigures) -> Figures:
    yield "request-latency-avg", "mean time from a request to its response, in ms", broker.latency_avg_ms
    yield "request-latency-max", "largest time from a request to its response, in ms", broker.latency_max_ms
    yield "request-latency-p99", "99th percentile of the request time, in ms", broker.latency_p99_ms
    yield "throttle-time-avg", "mean time for which the broker throttled requests, in ms", broker.throttle_avg_ms
    yield "request-total", "requests sent", broker.requests
    yield "response-total", "responses received", broker.responses
    yield "outgoing-byte-total", "bytes sent", broker.bytes_out
    yield "incoming-byte-total", "bytes received", broker.bytes_in
    yield "request-queue-size", "requests queued to be sent", broker.queued
    yield "requests-in-flight", "requests that wait for a response", broker.in_flight
    yield "request-timeout-total", "requests that timed out", broker.timeouts
    yield "connection-count", "whether the connection is open", int(broker.state == "UP")
    yield "connection-close-total", "closed connections", broker.disconnects


def _of_topic(topic: TopicFigures) -> Figures:
    yield "batch-size-avg", "mean size of a batch, in bytes", topic.batch_bytes_avg
    yield "batch-size-max", "largest size of a batch, in bytes", topic.batch_bytes_max
    yield "records-per-batch-avg", "mean number of records in a batch", topic.batch_records_avg
