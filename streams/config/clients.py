"""The settings that each client is made with, under librdkafka's names: pure functions of the configuration.

As in Kafka Streams, a setting under ``main.consumer.`` wins over one under ``consumer.``, and that over one without a
prefix. Settings on which the runtime depends win over all; the configuration has refused other values of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from processor_api.user_code.offset_reset import AutoOffsetReset
from streams.config.client_settings import client_setting, fits, offset_reset

if TYPE_CHECKING:  # pydantic is not needed to reach a broker
    from streams.config.model import StreamsConfig

_STATISTICS_MS = 15_000
"""How often a client adds up its figures: as often as Prometheus asks for them by default."""
_CONSUMER = {
    "allow.auto.create.topics": False,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # A full fetch queue is checked again after this time; the default of a second starves a fast task.
    "fetch.queue.backoff.ms": 5,
    # Half a second of a fast task; librdkafka's own, 64 MiB and 100,000 records a partition, is memory for nothing.
    "queued.max.messages.kbytes": 16_384,
    "queued.min.messages": 20_000,
    "statistics.interval.ms": _STATISTICS_MS,
}
_PRODUCER = {
    # The runtime counts the records it sends, and needs reports of failures only.
    "delivery.report.only.error": True,
    "enable.idempotence": True,
    "linger.ms": 5,
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 500_000,
    "statistics.interval.ms": _STATISTICS_MS,
}
_BUFFER_KBYTES = 32_768
"""Java's default of ``buffer.memory``: the bytes that can wait for the brokers before sending blocks."""
_EXACTLY_ONCE_PRODUCER = {
    # Transactions back to back wait this long for the markers of the one before.
    "retry.backoff.ms": 10,
    "transaction.timeout.ms": 10_000,
}
_ANSWER_MS, _CONNECT_MS, _RECONNECT_MOST_MS = 30_000, 10_000, 1000
"""The defaults of Java's clients. librdkafka's are 60,000, 30,000 and 10,000: it waits for a broker that answers no
more, and before it connects again to one that is back, for far longer."""
_MAX_POLL_RECORDS = 1000
_SESSION_TIMEOUT_MS = 45_000
_MAX_POLL_INTERVAL_MS = 300_000
_HEARTBEAT_MS = 1000
"""Kafka's default is 3000. A task that changes hands in a classic group is without an owner until the last member has
heard of the next rebalance, which it does with its next heartbeat."""
_METADATA_MAX_AGE_MS = 300_000
_RETRY_BACKOFF_MS, _RETRY_BACKOFF_MAX_MS = 100, 1000


class ClientConfig(Protocol):
    """The part of a configuration that all clients need."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def clients(self) -> Mapping[str, Any]: ...

    @property
    def enable_metrics_push(self) -> bool: ...

    @property
    def exactly_once(self) -> bool: ...


class AdminConfig(ClientConfig, Protocol):
    """The part of a configuration that an admin client needs."""

    @property
    def admin(self) -> Mapping[str, Any]: ...


def main_consumer(config: StreamsConfig, client_id: str, group_instance_id: str | None = None) -> dict[str, Any]:
    """Returns the settings of the consumer that joins the group and reads the input topics.

    :param group_instance_id: of this thread; ``None`` for dynamic membership.
    """
    found = _consumer(config, client_id, config.main_consumer)
    # The client has one policy for all topics. With "error" it stops a partition whose position has left the log, and a
    # member of a group cannot start it again, so the runtime finds the gap and continues by the policy of the source.
    found["auto.offset.reset"] = "earliest"
    if "heartbeat.interval.ms" not in found:  # three heartbeats in a session, at least
        session_ms = found.get("session.timeout.ms", _SESSION_TIMEOUT_MS)
        found["heartbeat.interval.ms"] = max(1, min(_HEARTBEAT_MS, session_ms // 3))
    found["partition.assignment.strategy"] = "cooperative-sticky"
    if group_instance_id is not None:
        found["group.instance.id"] = group_instance_id
    return found


def reads_inputs(settings: Mapping[str, Any]) -> bool:
    """Returns whether settings are those of :func:`main_consumer`."""
    return "partition.assignment.strategy" in settings


def restore_consumer(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """Returns the settings of the consumer that reads changelogs. It joins no group; the client wants a group id all
    the same."""
    defaults = _CONSUMER | {
        # The end of a changelog is reported by an empty answer, which the broker holds back for this time.
        "fetch.wait.max.ms": 20,
        # A changelog is read as fast as it comes: half a second of it may wait in the client.
        "queued.max.messages.kbytes": 65_536,
        "queued.min.messages": 200_000,
    }
    return {
        **_consumer(config, client_id, config.restore_consumer, defaults),
        "auto.offset.reset": "error",
        "statistics.interval.ms": 0,  # they would pile up: it is not polled while it has nothing to read
    }


def standby_consumer(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """Returns the settings of the consumer that follows the changelogs of standby tasks: those of the consumer that
    restores, with answers that gather more records and buffers that hold fewer. It joins no group."""
    defaults = _CONSUMER | {"fetch.wait.max.ms": 200, "fetch.min.bytes": 65_536}
    return {**_consumer(config, client_id, config.restore_consumer, defaults), "auto.offset.reset": "error"}


def global_consumer(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """Returns the settings of the consumer of global stores. It joins no group; the client wants a group id all the
    same."""
    # Statistics would pile up: it is not polled while a full disk keeps its records from being written.
    defaults = _CONSUMER | {"statistics.interval.ms": 0}
    return {**_consumer(config, client_id, config.global_consumer, defaults), "auto.offset.reset": "error"}


def producer(config: StreamsConfig, client_id: str, transactional_id: str | None = None) -> dict[str, Any]:
    """Returns the settings of a producer, idempotent always; under exactly_once_v2 it has a transactional id.

    In librdkafka no delivery may last longer than its transaction, so both timeouts end with it.
    """
    defaults = _PRODUCER | (_EXACTLY_ONCE_PRODUCER if config.exactly_once else {})
    given = _given(config, "P", config.producer)
    found = {**defaults, **_connections(given), **given, **_identity(config, client_id)}
    largest = found.get("message.max.bytes", 0)
    found.setdefault("queue.buffering.max.kbytes", max(_BUFFER_KBYTES, 2 * largest // 1024))  # otherwise it never fits
    if transactional_id is not None:
        if "socket.timeout.ms" not in given:  # librdkafka's is a little less than the transaction's
            del found["socket.timeout.ms"]
        found["transactional.id"] = transactional_id
        limit = found["transaction.timeout.ms"]
        for name in ("delivery.timeout.ms", "socket.timeout.ms"):
            if name in found:
                found[name] = min(found[name] or limit, limit)
    return found


def admin(config: AdminConfig, client_id: str) -> dict[str, Any]:
    """Returns the settings of the admin client, shared by the threads of a process."""
    given = _given(config, "A", config.admin)
    return {**_connections(given), **given, **_identity(config, client_id)}


def topic_settings(config: StreamsConfig) -> dict[str, str]:
    """Returns the settings given for internal topics, as text; they win over the built-in ones (semantics 133)."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in config.topic.items()}


def auto_offset_reset(config: StreamsConfig) -> AutoOffsetReset:
    """Returns where a partition without a committed offset is read from, unless its source says otherwise
    (KIP-1106)."""
    return offset_reset(_handled(config, "auto.offset.reset", "earliest"))


def max_poll_records(config: StreamsConfig) -> int:
    """Returns how many records a stream thread takes from the consumer at once."""
    return int(_handled(config, "max.poll.records", _MAX_POLL_RECORDS))


def max_poll_interval_ms(config: StreamsConfig) -> int:
    """Returns how long a stream thread may go without a call of its consumer."""
    return int(main_consumer(config, "").get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS))


def session_timeout_ms(config: StreamsConfig) -> int:
    """Returns how long the group waits for a stream thread of which it hears nothing, where the client decides it."""
    return int(main_consumer(config, "").get("session.timeout.ms", _SESSION_TIMEOUT_MS))


def topic_refresh_ms(config: StreamsConfig) -> int:
    """Returns how often the runtime looks for new topics on the cluster (``metadata.max.age.ms``)."""
    found = main_consumer(config, "").get("topic.metadata.refresh.interval.ms", _METADATA_MAX_AGE_MS)
    return int(found) if int(found) > 0 else _METADATA_MAX_AGE_MS


def retry_backoff_ms(config: StreamsConfig) -> tuple[int, int]:
    """Returns the shortest and the longest time in ms that a stream thread waits before it tries again."""
    shortest = int(_handled(config, "retry.backoff.ms", _RETRY_BACKOFF_MS))
    return shortest, max(shortest, int(_handled(config, "retry.backoff.max.ms", _RETRY_BACKOFF_MAX_MS)))


def group_instance_id(config: StreamsConfig) -> str | None:
    """Returns the start of the group instance ids of this process; ``None`` for dynamic membership."""
    found = _handled(config, "group.instance.id", None)
    return None if found is None else str(found)


def client_rack(config: StreamsConfig) -> str | None:
    """Returns the rack of this process (``client.rack``), if it is set."""
    found = _handled(config, "client.rack", None)
    return None if found is None else str(found)


def _consumer(
    config: StreamsConfig, client_id: str, own: Mapping[str, Any], defaults: Mapping[str, Any] = _CONSUMER
) -> dict[str, Any]:
    given = _given(config, "C", config.consumer, own)
    return {
        **defaults,
        "isolation.level": "read_committed",  # also at least once: others may have left what was rolled back
        **_connections(given),
        **given,
        **_identity(config, client_id),
        "group.id": config.application_id,
    }


def _identity(config: ClientConfig, client_id: str) -> dict[str, Any]:
    return {"bootstrap.servers": config.bootstrap_servers, "client.id": client_id}


def _given(config: ClientConfig, scope: str, *levels: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the user's settings that this kind of client has, later levels over earlier ones."""
    found: dict[str, Any] = {"enable.metrics.push": config.enable_metrics_push}
    for level in (config.clients, *levels):
        for name, value in level.items():
            if fits(name, scope):
                found |= client_setting(name, value, exactly_once=config.exactly_once, scope=scope)
    return found


def _connections(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how long a client waits for a broker, unless the user's settings say so or need more."""
    return {
        "reconnect.backoff.max.ms": max(_RECONNECT_MOST_MS, given.get("reconnect.backoff.ms", 0)),
        "socket.connection.setup.timeout.ms": _CONNECT_MS,
        "socket.keepalive.enable": True,
        "socket.timeout.ms": max(_ANSWER_MS, given.get("fetch.wait.max.ms", 0) + 1000),
    }


def _handled(config: StreamsConfig, name: str, default: Any) -> Any:
    for level in (config.main_consumer, config.consumer, config.clients):
        if name in level:
            return level[name]
    return default
