"""The figures that a Kafka client keeps of itself and of each broker that it talks to, whatever client it is.

Latencies are in ms, of the last interval in which the client has added them up; ``None`` where there was no request.
"""

from __future__ import annotations

from dataclasses import dataclass

IDLE = frozenset({"INIT", "UP", "UPDATE"})
"""The states of connections that work, or that nothing was sent on yet."""


@dataclass(frozen=True, kw_only=True)
class BrokerFigures:
    """The figures of one client about one broker."""

    node: int
    """The id of the broker; -1 for an address that the client was given, while it knows no broker."""
    address: str
    state: str
    """The state of the connection: ``UP``, ``INIT`` before the first request, or a step towards a connection."""
    partitions: int
    """The partitions of the client's topics that the broker leads."""
    latency_avg_ms: float | None
    """The mean time of a request until its answer. A fetch waits at the broker for records, for up to
    ``fetch.wait.max.ms``, so this tells of the broker only for producers."""
    latency_p99_ms: float | None
    latency_max_ms: float | None
    throttle_avg_ms: float | None
    """The mean time for which the broker has had the client wait, by its quotas."""
    requests: int
    responses: int
    bytes_out: int
    bytes_in: int
    queued: int
    """Requests that wait to be sent."""
    in_flight: int
    """Requests that wait for an answer."""
    timeouts: int
    """Requests that had no answer in time, since the client was made; and so the following."""
    connects: int
    disconnects: int

    @property
    def is_unreachable(self) -> bool:
        """Whether there is no connection, though the broker leads partitions of the client.

        Of an address that the client was given it is whether the client has tried in vain: it knows no broker then.
        """
        if self.node < 0:
            return self.state != "UP" and self.connects > 0
        return self.state not in IDLE and self.partitions > 0


@dataclass(frozen=True, kw_only=True)
class TopicFigures:
    """Holds the batches that a producer has sent to one topic in the last interval."""

    topic: str
    batch_bytes_avg: float | None
    batch_bytes_max: float | None
    batch_records_avg: float | None


@dataclass(frozen=True, kw_only=True)
class ClientStatistics:
    """The figures of a client about itself."""

    client_id: str
    is_producer: bool
    brokers: tuple[BrokerFigures, ...]
    topics: tuple[TopicFigures, ...]
    queued_records: int
    """Records that wait in a producer for the brokers, or in a consumer to be taken."""
    queued_bytes: int
    queue_bytes_max: int | None
    """How many bytes may wait in a producer."""
