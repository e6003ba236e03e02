"""The consumer's side of group membership: takes the steps that the group asks for and calls the listener."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from processor_api.errors import StreamsError
from streams.kafka.ports import InstanceFenced, RebalanceListener
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.groups import Group, GroupIdentity, Member, Step


class ConsumerMembership:
    """One subscription of one consumer. The listener is called without the broker's lock."""

    def __init__(
        self, broker: EmbeddedBroker, group: str, settings: Mapping[str, str | None], session_s: float
    ) -> None:
        self._broker = broker
        self._group: Group = broker.groups.group(group)
        self._client_id = settings["client.id"] or "consumer"
        self._instance = settings["group.instance.id"]
        self._session_s = session_s
        self._topics: frozenset[str] = frozenset()
        self._listener: RebalanceListener | None = None
        self._member: Member | None = None
        self.member_id: str | None = None
        """The id that the member has or had last."""
        self._fenced = False
        self._missing: frozenset[str] = frozenset()

    def subscribe(self, topics: Collection[str], listener: RebalanceListener) -> None:
        """Subscribes; the member joins with the next :meth:`poll`, and a later call changes the subscription."""
        self._topics = frozenset(topics)
        self._listener = listener
        if self._member is not None:
            with self._broker.lock:
                self._group.subscribe(self._member, topics)
                self._broker.changes.notify()

    def identity(self) -> GroupIdentity:
        """Returns the identity of this consumer in the group now."""
        member = self._member
        if member is None:
            return GroupIdentity(self._group.name, instance=self._instance)
        return GroupIdentity(self._group.name, member.generation, member.member_id, self._instance)

    def poll(self) -> bool:
        """Takes all steps that are due; returns whether there was one.

        :raises InstanceFenced: if a newer consumer has the same ``group.instance.id``.
        """
        if self._listener is None:
            return False
        member = self._member
        with self._broker.lock:
            self._broker.expire()
            if member is not None and self._is_member(member) and member.generation == self._group.generation:
                member.last_seen_s = self._broker.clock.monotonic()
                return False
        self._check_not_fenced()
        while (step := self._next_step()) is not None:
            self._take(self._listener, step)
        return True

    @property
    def is_subscribed(self) -> bool:
        """Whether the consumer takes part in its group."""
        return self._listener is not None

    def newly_missing(self) -> frozenset[str]:
        """Returns the subscribed topics that do not exist and were not reported before; the caller holds the lock."""
        missing = self._topics.difference(self._broker.topics)
        new, self._missing = missing - self._missing, missing
        return new

    def touch(self) -> None:
        """Extends the session, as each call of the consumer does; the caller holds the lock.

        :raises InstanceFenced: if a newer consumer has the same ``group.instance.id``.
        """
        self._check_not_fenced()
        self._broker.expire()
        member = self._member
        if member is None:
            return
        if self._is_member(member):
            member.last_seen_s = self._broker.clock.monotonic()
        else:
            self._fenced = self._is_replaced(member)
        self._check_not_fenced()

    def close(self) -> None:
        """Revokes what is owned and, unless static, leaves the group."""
        member, listener = self._member, self._listener
        self._listener = None
        if member is None or listener is None:
            return
        with self._broker.lock:
            self._broker.expire()
            in_group = self._is_member(member)
            member.revoking = True
        try:
            if member.owned:
                (listener.on_revoked if in_group else listener.on_lost)(member.owned)
        except Exception:
            self._leave(member)
            raise
        self._leave(member)  # not of a process that is killed in a simulation, which says nothing more

    def _leave(self, member: Member) -> None:
        self._member = None
        with self._broker.lock:
            member.revoking = False
            if self._instance is None:
                self._group.leave(member)
                self._broker.changes.notify()

    def evict(self) -> None:
        """Ends the session at once; the caller holds the lock."""
        if self._member is not None:
            self._group.leave(self._member)
            self._broker.changes.notify()

    def heartbeat(self) -> None:
        """Extends the session, if it has not ended; the caller holds the lock."""
        member = self._member
        if member is not None and self._is_member(member):
            member.last_seen_s = self._broker.clock.monotonic()

    def _is_member(self, member: Member) -> bool:
        return self._group.members.get(member.member_id) is member

    def _is_replaced(self, member: Member) -> bool:
        """Whether another member has the instance id of a member that has left."""
        return self._group.static_member(self._instance) not in (None, member)

    def _check_not_fenced(self) -> None:
        if self._fenced:
            raise InstanceFenced(
                f"a newer consumer of group {self._group.name!r} has group.instance.id {self._instance!r}:"
                " close this one, its tasks are processed there"
            )

    def _next_step(self) -> Step | None:
        with self._broker.lock:
            self._broker.expire()
            if self._member is None:
                self._join()
            member = self._member
            assert member is not None
            if self._is_member(member):
                member.last_seen_s = self._broker.clock.monotonic()
                return self._group.next_step(member)
            self._fenced = self._is_replaced(member)
            return Step("lose", member.owned)

    def _join(self) -> None:
        if self._group.streams is not None and not self._group.streams.members:
            self._group.streams = None  # an empty group takes the protocol of the next member
        if self._group.streams is not None:
            raise StreamsError(
                f"cannot join group {self._group.name!r}, which is one of the streams protocol:"
                " INCONSISTENT_GROUP_PROTOCOL"
            )
        self.member_id = self._broker.groups.new_member_id(self._client_id)
        member = Member(self.member_id, self._client_id, self._instance, self._topics, self._session_s)
        now_s = self._broker.clock.monotonic()
        self._group.join(member, now_s)
        self._member = member
        self._broker.expect(now_s + self._session_s)
        self._broker.changes.notify()

    def _take(self, listener: RebalanceListener, step: Step) -> None:
        member = self._member
        assert member is not None
        if step.kind == "assign":
            listener.on_assigned(step.partitions)
        elif step.kind == "revoke":
            try:
                listener.on_revoked(step.partitions)
            except Exception:
                self._acknowledge(member, step)
                raise
            self._acknowledge(member, step)
        else:
            self._member = None
            if step.partitions:
                listener.on_lost(step.partitions)
            self._check_not_fenced()

    def _acknowledge(self, member: Member, step: Step) -> None:
        with self._broker.lock:
            self._group.revoked(member, step.partitions)
            self._broker.changes.notify()
