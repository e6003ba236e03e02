"""Finds a member of the consumer protocol that its group waits for, and that will never hear of it."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import GroupMember
from streams.kafka.wire.consumer_groups import MemberPlace, member_place
from streams.kafka.wire.leave import release_instance, remove_members

log = logging.getLogger("streams.kafka.client")

LOOK_S = 15.0
"""The time between two looks at the description of the group: the longest interval between heartbeats that brokers
allow by default."""
LOOKS = 3
"""How many looks in a row have to find that the group waits, so that a freeze of this process counts as one."""


class StalledMember:
    """Compares what a member owns with the description of its group, from time to time.

    A coordinator tells a member once what it gives and takes. If that answer is lost with a connection, or comes later
    than a heartbeat interval, brokers repeat it only to a member that says all about itself, which librdkafka (2.16)
    does not do then: its heartbeats continue, the group waits for it, and partitions on their way have no owner until
    ``max.poll.interval.ms`` is over. Such a member is taken out of the group in its own name, so that its next
    heartbeat is refused and it joins again.

    :param describe: returns the place of the member with this id. It is called on a thread of its own.
    :param end: takes a member out of the group; a static one so that it may come back to its partitions. It is called
        like that too.
    """

    def __init__(
        self, describe: Callable[[str], MemberPlace | None], end: Callable[[GroupMember], None], clock: Clock
    ) -> None:
        self._describe, self._end, self._clock = describe, end, clock
        self.next_look = clock.monotonic() + LOOK_S
        """When to look next, by the clock's monotonic time."""
        self._seen: object = None
        """The state in which group and member differ."""
        self._times = 0
        """How many looks in a row have found it."""
        self._looking: threading.Thread | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> StalledMember:
        """Returns that of a consumer with this configuration."""
        group = str(config.get("group.id"))

        def describe(member_id: str) -> MemberPlace | None:
            return member_place(config, group, member_id, LOOK_S)

        def end(member: GroupMember) -> None:
            if member.instance_id is None:
                remove_members(config, group, [member])
            else:
                release_instance(config, group, member)

        return cls(describe, end, SystemClock())

    def check(self, member_id: Callable[[], str | None], owned: Collection[TopicPartition], calls: int) -> None:
        """Has another thread look, if it is time; returns at once.

        :param member_id: returns the id of the member, ``None`` if the client is none yet; it is asked if it is time.
        :param owned: the partitions that the member owns.
        :param calls: how many rebalances the client has reported.
        """
        now = self._clock.monotonic()
        if now < self.next_look:
            return
        self.next_look = now + LOOK_S
        member = member_id()
        if member is not None and (self._looking is None or not self._looking.is_alive()):
            self._looking = threading.Thread(
                target=self._look, args=(member, frozenset(owned), calls), name="group-check", daemon=True
            )
            self._looking.start()

    def _look(self, member_id: str, owned: frozenset[TopicPartition], calls: int) -> None:
        try:
            self._compare(self._describe(member_id), owned, calls)
        except RetryableError as error:  # the coordinator is asked again
            log.debug("the group is not described", extra={"error": str(error)})
        except StreamsError as error:  # such as a login that only librdkafka has
            log.info("it cannot be seen whether the group waits for this member", extra={"error": str(error)})
            self.next_look = math.inf

    def _compare(self, place: MemberPlace | None, owned: frozenset[TopicPartition], calls: int) -> None:
        if place is None or (place.member.partitions == owned and not place.is_behind):
            self._seen = None
            return
        state = (place.epoch, place.member.partitions, owned, calls)
        self._times = self._times + 1 if state == self._seen else 1
        self._seen = state
        if self._times < LOOKS:
            return
        log.warning(
            "the group waits for this member, which has not heard of it: an answer of the coordinator was lost; it"
            " joins again",
            extra={"member": place.member.instance_id or place.member.member_id},
        )
        self._end(place.member)
        self._seen = None
