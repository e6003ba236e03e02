"""The place of a consumer in its group: the member that it is, the partitions that it owns, and the loss of both."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.errors import InternalError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.client_errors import instance_fenced
from streams.kafka.confluent import errors
from streams.kafka.confluent.callbacks import ClientLog
from streams.kafka.confluent.consuming.assigned import AssignedPartitions
from streams.kafka.confluent.outage import ClientOutage
from streams.kafka.ports import RebalanceListener

DOUBT_S = 60.0
"""Time after a broken connection in which a broker may still read what was sent over it."""
_METADATA = b"CGMDv2:"


def names_no_member(metadata: bytes) -> bool:
    """Whether a group's metadata, as librdkafka writes it, is without a generation or a member."""
    member = member_of(metadata)
    return member is not None and (generation_of(metadata) < 0 or not member)


def generation_of(metadata: bytes) -> int:
    """Returns the generation in a group's metadata."""
    # In the byte order of the machine, as librdkafka writes it.
    found: int = struct.unpack_from("=i", metadata, len(_METADATA))[0]
    return found


def group_metadata(group: str, epoch: int, member: str, instance: str | None = None) -> bytes:
    """Returns the metadata of a member of a group, in the form in which librdkafka writes them."""
    head = _METADATA + struct.pack("=i", epoch) + group.encode() + b"\0" + member.encode() + b"\0"
    return head + (b"\x01" if instance is None else b"\0" + instance.encode() + b"\0")


def check_metadata_form(config: Mapping[str, Any]) -> None:
    """Compares the metadata that :func:`group_metadata` writes with those of a client.

    Their form is not documented, and a producer that is given another one would commit without a check of any member.

    :raises InternalError: if the forms differ.
    """
    group = str(config["group.id"])
    settings = {"bootstrap.servers": config["bootstrap.servers"], "group.id": group}
    client = Client(settings, logger=ClientLog())
    try:
        written = client.consumer_group_metadata()
    finally:
        client.close()
    if written != group_metadata(group, -1, ""):
        raise InternalError(
            "this version of librdkafka writes the metadata of groups in an unknown format, so commits could not be"
            " fenced: set group.protocol to classic, or use another version of confluent-kafka"
        )


def member_of(metadata: bytes) -> bytes | None:
    """Returns the id of the member in a group's metadata, empty if it names none; ``None`` if it is of another form."""
    if not metadata.startswith(_METADATA):
        return None
    _group, member, *_ = metadata[len(_METADATA) + 4 :].split(b"\0")
    return member


def _plain(partitions: Collection[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(found.topic, found.partition) for found in partitions]


class GroupPlace:
    """Holds a consumer's place in its group. The client calls it in a rebalance, and reports to it how it ends.

    :param outage: the one of the client, which may have lost its brokers when it loses its place.
    :param assigned: what the client reads, and changes only where that is not an answer to a rebalance.
    """

    def __init__(self, outage: ClientOutage, assigned: AssignedPartitions) -> None:
        self._outage = outage
        self._assigned = assigned
        self.owned: set[TopicPartition] = set()
        """The partitions that the group has given to this member and not taken back."""
        self.is_calling_back = False
        """Whether the client is inside of a callback of a rebalance."""
        self.calls = 0
        """How many rebalances the client has reported."""
        self._last: bytes | None = None
        """The id of the member that the client was when it was last asked."""
        self._member: bytes | None = None
        """The id of the member that the group has given partitions to."""
        self.fatal: str | None = None
        """The name of the fatal error that the client has reported."""
        self.wanted: tuple[list[str], RebalanceListener] | None = None
        """The topics to subscribe to as soon as the client can, with whom to call."""
        self._ended: Callable[[], StreamsError] | None = None
        """Makes the error of each further call, once the client has had a fatal one."""

    def member_id(self, client: Any) -> str | None:
        """Returns the id of the member that the client is, or was last."""
        with suppress(KafkaException, RuntimeError, StreamsError):  # it is closed, or was given up
            self._last = member_of(client.consumer_group_metadata()) or self._last
        return None if self._last is None else self._last.decode()

    # ------------------------------------------------------------------ rebalances

    def subscribe(self, client: Any) -> None:
        """Subscribes to what is wanted; not yet, if the client has lost its place and has no other one.

        librdkafka ends the process by an assertion where the topics of such a client change.
        """
        if self.wanted is None or (self._assigned.is_member and member_of(client.consumer_group_metadata()) == b""):
            return
        (topics, listener), self.wanted = self.wanted, None
        client.subscribe(topics, **self.callbacks(listener))
        self._assigned.is_member = True

    def callbacks(self, listener: RebalanceListener) -> dict[str, Callable[[Client, list[ClientPartition]], None]]:
        """Returns what the client calls in a rebalance, by the names of the options of its ``subscribe``."""

        def on_assign(client: Client, partitions: list[ClientPartition]) -> None:
            client.incremental_assign([])  # marks it as assigned: otherwise the binding would assign it, and fetch
            if self._is_another(client):
                self._call(listener.on_lost, self._lose())
            elif self._ended is None:
                self.owned.update(_plain(partitions))
                self._last = self._member = member_of(client.consumer_group_metadata()) or None
                self._call(listener.on_assigned, _plain(partitions))

        def on_revoke(client: Client, partitions: list[ClientPartition]) -> None:
            if self._is_another(client):
                self._call(listener.on_lost, self._lose())
            else:
                self._call(listener.on_revoked, _plain(partitions))
            self._assigned.answer_revocation(client)  # last: it tells the group that others may have them
            self.owned.difference_update(_plain(partitions))

        def on_lost(client: Client, partitions: list[ClientPartition]) -> None:
            self._outage.suspect()  # the group may have heard nothing of it for a session
            self._call(listener.on_lost, _plain(partitions))
            self._assigned.answer_revocation(client)
            self.owned.difference_update(_plain(partitions))

        return {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}

    def _call(
        self, method: Callable[[Collection[TopicPartition]], None], partitions: Collection[TopicPartition]
    ) -> None:
        self.is_calling_back = True
        self.calls += 1
        try:
            method(partitions)
        finally:
            self.is_calling_back = False

    def _is_another(self, client: Any, metadata: bytes | None = None) -> bool:
        """Whether the client is another member now than the one that was given what it owns.

        A client that stood still for its session, in the middle of a rebalance, joins again as a new member and says
        that it owns what it owned. It reports no loss, though others have had these partitions meanwhile.
        """
        member = member_of(client.consumer_group_metadata() if metadata is None else metadata)
        return bool(self.owned and self._member and member) and member != self._member

    def _lose(self) -> list[TopicPartition]:
        """Gives up the place for good, and returns all that was owned: the client takes it for its own, so that only
        another one can join without it."""
        self._outage.suspect()
        self._ended = errors.session_ended
        lost, self.owned = sorted(self.owned), set()
        return lost

    def metadata(self, client: Any) -> Any:
        """Returns the client's own form of the group's metadata.

        :raises TaskMigratedError: if it names no member, or another one than was given what this consumer owns. The
            first is so from the moment when the group has removed this one until the next poll reports the loss; the
            broker would take it for a client outside of the group, and check nothing.
        """
        found = client.consumer_group_metadata()
        if self._ended is errors.session_ended or (
            self.owned and (names_no_member(found) or self._is_another(client, found))
        ):
            raise TaskMigratedError("this consumer is no longer in its group")
        return found

    # ------------------------------------------------------------------ the end

    @property
    def has_ended(self) -> bool:
        return self._ended is not None or self.fatal is not None

    def check(self, client: Any, last: Any) -> None:
        """Raises the error of a client that has had a fatal one, from then on.

        :param last: the last message that the client gave out; it may be the report of that error.
        """
        if self._ended is None:
            error = None if last is None else last.error()
            if self.fatal is None and (error is None or error.code() != KafkaError._FATAL):
                return
            name = self.fatal or (None if error is None else errors.fatal_name(error))
            text = f"{name}" if error is None else error.str()
            self._ended = self._reason_of_end(client, name, text)
        raise self._ended()

    def _reason_of_end(self, client: Any, name: str | None, text: str) -> Callable[[], StreamsError]:
        """Returns the maker of the error of a client that has had a fatal one.

        :param name: ``None`` if it is not known: in a classic group there is only that of a fence.
        :param text: the client's report.
        """
        if name == "FENCED_INSTANCE_ID" or name is None:
            return self.reason_of_fence(client, self._member)
        return partial(errors.fatal_error, name, text)

    def end_of_commit(self, client: Any, member: bytes | None) -> StreamsError:
        """Returns the error of a commit that ended the client, and of all further calls.

        A client that reached no broker for the whole session forgets its member. A commit that waits for a coordinator
        is then sent with the instance id alone. A broker that knows the member still answers as it does when another
        consumer has taken the instance id.

        :param member: the id of the member that committed.
        """
        if self._ended is not errors.session_ended:
            self._ended = self.reason_of_fence(client, member)
        return self._ended()

    def reason_of_fence(self, client: Any, member: bytes | None) -> Callable[[], TaskMigratedError]:
        """Returns the maker of the error of a consumer whose instance id belongs to another member now.

        That is the member of another process, or one that a request of this process has made which the broker read
        late: a consumer that lost its session or a connection asks again to join, while its request before may still
        wait in the broker. It is another process if this consumer has had its place all the time, and the connections
        of this process have held.

        :param member: the id of the member that was fenced, while it had its place.
        """
        held = member is not None and member_of(client.consumer_group_metadata()) == member
        return instance_fenced if held and not self._outage.cluster.was_broken(DOUBT_S) else errors.session_ended
