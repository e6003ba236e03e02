"""The heartbeats of a member of a group of the streams protocol, on a thread of their own."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass

from processor_api.clock import Clock
from processor_api.errors import ConfigError, RetryableError, StreamsError, TaskMigratedError
from streams.kafka.membership.group_life import GroupLife
from streams.kafka.ports import InstanceFenced
from streams.kafka.streams_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    GroupMemberIdentity,
    GroupOfOtherProtocol,
    GroupStatus,
    Heartbeat,
    HeartbeatAnswer,
    InstanceHeld,
    MemberFenced,
    StaticMembersRefused,
    StreamsGroupRequests,
)
from streams.log import RepeatedLines
from streams.threads import StoppableThread, Threads
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.membership")

PACE_S = 1.0
"""Time between heartbeats, where the group allows for more: a member learns of its tasks by them alone."""
REQUEST_S = 10.0
"""How long one heartbeat may take; less than a third of the shortest session that brokers have by default."""
STOP_S = 5.0
OTHER_PROTOCOL_S = 0.5
FIRST_RETRY_S, LAST_RETRY_S, MOST_DOUBLINGS = 0.05, 1.0, 10

_CONTROL_TOPIC = re.compile(r"-\d+-tasks\b")

Statuses = tuple[tuple[GroupStatus, str], ...]

WHAT_TO_DO = {
    GroupStatus.STALE_TOPOLOGY: "the group has a newer topology: deploy the current program to this worker",
    GroupStatus.MISSING_SOURCE_TOPICS: "create them; the group then assigns the tasks",
    GroupStatus.INCORRECTLY_PARTITIONED_TOPICS: (
        "create the topics with the required numbers of partitions, or reset the application (`streams reset`)"
    ),
    GroupStatus.MISSING_INTERNAL_TOPICS: (
        "the brokers create them; if they cannot, grant the right CREATE, or correct the settings under topic. and"
        " replication.factor"
    ),
    GroupStatus.UNKNOWN: "check the log of the group's coordinator",
}
"""How a status of a group is mended, for those that keep a member without tasks until then."""


def is_being_mended(status: GroupStatus, detail: str) -> bool:
    """Whether the brokers do by themselves what a status asks for: they say so when they could not create topics."""
    return status is GroupStatus.MISSING_INTERNAL_TOPICS and "failed" not in detail


def status_text(status: GroupStatus, detail: str) -> str:
    """Returns a status of a group as a sentence, with what to do."""
    what_to_do = None if is_being_mended(status, detail) else WHAT_TO_DO.get(status)
    if status is GroupStatus.MISSING_SOURCE_TOPICS and _CONTROL_TOPIC.search(detail):
        what_to_do = (
            "a topic whose name ends with -tasks stands for the topics of a pattern, and is created automatically when"
            " a topic matches; create the other topics, if any"
        )
    return f"{status.name}: {detail}" + ("" if what_to_do is None else f" To do: {what_to_do}")


@dataclass(frozen=True, kw_only=True)
class StreamsGroupMember:
    """The settings of one member.

    ``instance_id`` is that of a static member. Brokers before Kafka 4.4 take none, so that it is left out there unless
    ``must_be_static``. ``max_poll_s`` is the time after which a worker that does not poll loses its tasks, and within
    which it has to give up a task.
    """

    name: str
    """The start of the names of its threads."""
    process_id: str
    max_poll_s: float
    instance_id: str | None = None
    must_be_static: bool = False
    endpoint: tuple[str, int] | None = None
    rack_id: str | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    pace_s: float = PACE_S
    """The longest time between two heartbeats."""


class GroupHeartbeats:
    """Sends the heartbeats of a member, and writes down what the group answers."""

    def __init__(
        self,
        life: GroupLife,
        requests: StreamsGroupRequests,
        member: StreamsGroupMember,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self.life = life
        self._requests, self._member, self._clock = requests, member, clock
        self._repeated = RepeatedLines(log, clock)
        self._wake = threads.event()
        self._thread = StoppableThread(threads, self._run, f"{member.name}-heartbeat")
        self._failures = 0
        self.polled_at = clock.monotonic()
        """When the worker gave its last sign of life."""
        self.failure: Exception | None = None
        """The error by which the membership has ended."""
        self.is_blocked = False
        """Whether members of another protocol are why it has not joined; any thread may read it."""
        self.shutdown_sent = threads.event()
        """Set when the group has taken the request that all members shut down."""

    def start(self) -> None:
        """Starts the thread, which joins the group."""
        self._thread.start()

    def note_poll(self) -> None:
        """Takes a sign of life of the worker."""
        self.polled_at = self._clock.monotonic()

    def wake(self) -> None:
        """Has the next heartbeat sent at once."""
        self._wake.set()

    def stop(self) -> bool:
        """Ends the thread, and waits for that a while; returns whether it has ended. It may be inside of a request to a
        coordinator that does not answer."""
        self._thread.stopping.set()
        self._wake.set()
        return self._thread.join(STOP_S)

    def _run(self) -> None:
        try:
            while not self._thread.stopping.is_set():
                wait_s = self._step()
                self._wake.wait(wait_s)
                self._wake.clear()
        except BaseException as error:
            if passes(error):
                raise
            log.error("heartbeats end", extra={"error": str(error)}, exc_info=error)
            self._fail(as_error(error, "in the heartbeats of a member"))
        finally:
            with suppress(StreamsError):
                self._requests.close_heartbeats()

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.life.end()

    def _step(self) -> float:
        """Sends the next heartbeat; returns how long to wait for the one after that."""
        beat = self.life.next_beat()
        if beat is None:
            return self._member.pace_s
        if self._is_stuck():
            self._give_up(beat)
            return self._member.pace_s
        try:
            answer = self._requests.heartbeat(beat, REQUEST_S)
            self._take(beat, answer)
        except GroupOfOtherProtocol as error:
            return self._other_protocol(beat, error)
        except StaticMembersRefused as error:
            return self._dynamic(error)
        except MemberFenced as error:
            self._fenced(beat, error)
            return self._retry_s()
        except InstanceHeld as error:
            return self._held(beat, error)
        except RetryableError as error:
            return self._unanswered(beat, error)
        except StreamsError as error:
            self._fail(error)
            return self._member.pace_s
        self._failures, self.is_blocked = 0, False
        return min(answer.interval_s, self._member.pace_s)

    def _take(self, beat: Heartbeat, answer: HeartbeatAnswer) -> None:
        before = self.life.statuses
        self.life.answered(beat, answer)
        if beat.asks_for_shutdown:
            self.shutdown_sent.set()
        self._log_statuses(before, answer.statuses)
        if not self.life.doubt.is_due(self._clock.monotonic()):
            return
        tasks = self._requests.assigned(beat.member.member_id, REQUEST_S)
        if tasks is None:
            raise MemberFenced("the group no longer has this member")
        self.life.assigned(beat, tasks, self._clock.monotonic())

    @staticmethod
    def _log_statuses(before: Statuses, statuses: Statuses) -> None:
        for status, detail in statuses:
            if (status, detail) in before:
                continue
            is_wrong = status in WHAT_TO_DO and not is_being_mended(status, detail)
            log.log(
                logging.WARNING if is_wrong else logging.INFO,
                "the group gives no tasks yet" if is_wrong else "the group reports a status",
                extra={"status": status_text(status, detail)},
            )
        if before and not statuses:
            log.info("the group has no more to report")

    def _retry_s(self) -> float:
        self._failures += 1
        return min(FIRST_RETRY_S * (1 << min(self._failures, MOST_DOUBLINGS)), LAST_RETRY_S)

    def _other_protocol(self, beat: Heartbeat, error: GroupOfOtherProtocol) -> float:
        if beat.member.epoch != JOIN_EPOCH:  # the group was deleted, and the member with it
            self._fenced(beat, error)
            return self._retry_s()
        self.is_blocked = True
        self._repeated.log("waiting to join the group", level=logging.WARNING, error=str(error))
        return OTHER_PROTOCOL_S

    def _dynamic(self, error: StreamsError) -> float:
        if self._member.must_be_static:
            self._fail(
                ConfigError(
                    f"group.instance.id does not work with group.protocol=streams on these brokers: {error.message}."
                    " Static members need Kafka 4.4 or later: remove group.instance.id, or set group.protocol to"
                    " classic"
                )
            )
            return self._member.pace_s
        log.info("the brokers take no static members in groups of this protocol: joining as a dynamic one")
        self.life.joins_without_instance()
        return 0.0

    def _fenced(self, beat: Heartbeat, error: StreamsError) -> None:
        self._repeated.log("the group no longer has this member", level=logging.WARNING, error=str(error))
        self._leave(beat.member)  # a member whose epoch alone was refused is still there
        self.life.fenced(beat)

    def _held(self, beat: Heartbeat, error: InstanceHeld) -> float:
        """Frees the instance id, if an earlier join of this life has it, whose answer was lost: brokers take the leave
        of the holder alone. Another member's place is taken over before the thread joins again, if that is right."""
        if isinstance(self._leave(beat.member), InstanceFenced):
            self._fail(TaskMigratedError(error.message))
            return self._member.pace_s
        return self._unanswered(beat, error)

    def _unanswered(self, beat: Heartbeat, error: RetryableError) -> float:
        self.life.unanswered(beat, self._clock.monotonic())
        self._repeated.log("the group does not answer; heartbeats go on", error=str(error))
        return self._retry_s()

    def _is_stuck(self) -> bool:
        return self._clock.monotonic() > self.polled_at + self._member.max_poll_s

    def _give_up(self, beat: Heartbeat) -> None:
        """Leaves the group for a worker that does not poll, since heartbeats alone would keep its tasks for ever."""
        log.warning(
            "leaving the group: the worker has not polled for max.poll.interval.ms, and other members get its tasks",
            extra={"max_poll_interval_s": self._member.max_poll_s},
        )
        self._leave(beat.member)
        self.life.fenced(beat)

    def _leave(self, member: GroupMemberIdentity) -> StreamsError | None:
        """Says that a member leaves; returns the error, if the group does not take it."""
        try:
            self._requests.heartbeat(Heartbeat(member=member._replace(epoch=LEAVE_EPOCH)), REQUEST_S)
        except StreamsError as error:
            log.debug("the group was not told that the member leaves", extra={"error": str(error)})
            return error
        return None
