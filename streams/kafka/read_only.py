"""Clients that cannot write: what is called a trial or a dry run gets these, and nothing else.

They implement the ports, pass on what only reads, and raise :class:`WriteRefused` for everything else, so that a
method that a port gets later is refused until it is listed here as one that reads. These are writes:

* records, transactions and their offsets. ``init_transactions`` and ``fence_producer`` are writes because they end the
  transaction of another producer.
* committed offsets, and the membership of a group: ``subscribe`` makes its members give up tasks, and a commit that
  the client makes by itself (``enable.auto.commit``) is a commit.
* topics, partitions, groups and members that are made, changed or deleted, and deleted records.
* metadata requests that make the broker create a topic (``auto.create.topics.enable``). Consumers ask without that
  permission; ``prepare`` and ``partition_count`` of a producer are refused because a producer asks with it.

No producer of the client is made, because an idempotent one sends a request when it is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from processor_api.errors import InternalError
from streams.kafka.client_statistics import ClientStatistics
from streams.kafka.ports import Admin, Consumer, KafkaClients, Producer
from streams.trials import trial_in_effect

_NEVER_BY_ITSELF = {
    "allow.auto.create.topics": False,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
}
"""Settings with which a consumer writes nothing on its own, whatever its configuration says."""
CONSUMER_READS = frozenset(
    {
        "assign",
        "assignment",
        "beginning_offsets",
        "close",
        "committed",
        "consume",
        "end_offsets",
        "fetched_end",
        "group_metadata",
        "high_watermark",
        "log_start",
        "member_id",
        "offsets_for_time",
        "partition_eof",
        "pause",
        "poll",
        "position",
        "relieve",
        "resume",
        "seek",
        "unassign",
    }
)
PRODUCER_READS = frozenset({"close", "flush", "poll", "refused", "zero_timestamp_ms"})
ADMIN_READS = frozenset(
    {
        "close",
        "describe_group",
        "divergences",
        "group_members",
        "group_offsets",
        "groups",
        "log_ends",
        "offsets_for_time",
        "open_transactions",
        "topic_ids",
        "topic_settings",
        "topic_states",
        "topics",
    }
)
CLIENTS_READS = frozenset({"admin", "consumer", "producer", "statistics"})
"""The members of the ports that only read. Those of a producer, and those that make clients, are implemented here."""


class WriteRefused(InternalError):
    """A client that must not write was asked to; nothing was sent."""


def refuse(client: str, operation: str) -> NoReturn:
    """Raises the error of an operation that writes.

    :param client: the kind of the client: ``consumer``, ``producer``, ``admin`` or ``clients``.
    """
    raise WriteRefused(
        f"{operation}() of the {client} was rejected: this command must not change the cluster. Nothing was sent"
    )


class _ReadOnly:
    """A client of which only listed members can be reached."""

    def __init__(self, client: Any, kind: str, reads: Collection[str]) -> None:
        self._client, self._kind, self._reads = client, kind, reads

    def __getattr__(self, name: str) -> Any:
        if name in self._reads:
            return getattr(self._client, name)
        if name.startswith("_"):
            raise AttributeError(name)
        kind = self._kind

        def refused(*_: Any, **__: Any) -> NoReturn:
            refuse(kind, name)

        return refused


class _NoProducer:
    """The reading side of a producer, without one that could send."""

    zero_timestamp_ms = 0

    def poll(self, timeout_s: float) -> int:
        """Returns 0: nothing was sent, so nothing is reported."""
        return 0

    def flush(self, timeout_s: float = 0.0) -> bool:
        """Returns whether everything was delivered, which nothing is."""
        return True

    def refused(self, error: Exception, topic: str) -> NoReturn:
        """Raises the error of a record that could not be sent."""
        raise error

    def close(self) -> None:
        """Does nothing: there is no connection."""


def read_only_consumer(consumer: Consumer) -> Consumer:
    """Returns a consumer that can neither commit nor join a group. Its methods of the hot path are those of the client
    itself."""
    found: Any = _ReadOnly(consumer, "consumer", CONSUMER_READS)
    return found  # type: ignore[no-any-return]


def read_only_producer() -> Producer:
    """Returns a producer that refuses every record and every transaction."""
    found: Any = _ReadOnly(_NoProducer(), "producer", PRODUCER_READS)
    return found  # type: ignore[no-any-return]


def read_only_admin(admin: Admin) -> Admin:
    """Returns an admin client that can only describe and list."""
    found: Any = _ReadOnly(admin, "admin", ADMIN_READS)
    return found  # type: ignore[no-any-return]


class ReadOnlyClients:
    """Makes clients that cannot write, of those of another maker. Implements `streams.kafka.ports.KafkaClients`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        """Makes a consumer that can neither commit nor join a group."""
        return read_only_consumer(self._clients.consumer({**config, **_NEVER_BY_ITSELF}))

    def producer(self, config: Mapping[str, Any]) -> Producer:
        """Makes a producer that refuses every record and every transaction."""
        return read_only_producer()

    def admin(self, config: Mapping[str, Any]) -> Admin:
        """Makes an admin client that can only describe and list."""
        return read_only_admin(self._clients.admin(config))

    def streams_group(self, config: Mapping[str, Any]) -> NoReturn:
        """Raises an error: the first heartbeat joins the group."""
        refuse("clients", "streams_group")

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> NoReturn:
        """Raises an error: a member would be removed."""
        refuse("clients", "leave_group")

    def statistics(self) -> list[ClientStatistics]:
        """Returns the newest figures of the clients, as far as they keep any."""
        return self._clients.statistics()


def for_now(clients: KafkaClients) -> KafkaClients:
    """Returns clients as they are, or in a trial (`streams.trials`) those that cannot write."""
    return clients if trial_in_effect() is None else ReadOnlyClients(clients)
