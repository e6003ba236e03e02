"""The heartbeats of a member of a group of the streams protocol, on a thread of their own."""

from __future__ import annotations

import logging
from contextlib import suppress

from processor_api.clock import Clock
from processor_api.errors import ConfigError, RetryableError, StreamsError
from streams.kafka.membership.group_life import GroupLife
from streams.kafka.streams_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    GroupMemberIdentity,
    GroupOfOtherProtocol,
    GroupStatus,
    Heartbeat,
    HeartbeatAnswer,
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
OTHER_PROTOCOL_S = 0.5
FIRST_RETRY_S, LAST_RETRY_S, MOST_DOUBLINGS = 0.05, 1.0, 10

WHAT_TO_DO = {
    GroupStatus.STALE_TOPOLOGY: "the group has a newer topology: deploy this worker's program again",
    GroupStatus.MISSING_SOURCE_TOPICS: "create them; tasks come by themselves then",
    GroupStatus.INCORRECTLY_PARTITIONED_TOPICS: (
        "give the topics the numbers of partitions that they need, or reset the application (`streams reset`)"
    ),
    GroupStatus.MISSING_INTERNAL_TOPICS: (
        "the brokers create them; where they cannot, give the right CREATE, or correct the settings under topic. and"
        " replication.factor"
    ),
    GroupStatus.UNKNOWN: "see the log of the group's coordinator",
}
"""How a status of a group is mended, for those that keep a member without tasks until then."""


def is_being_mended(status: GroupStatus, detail: str) -> bool:
    """Whether the brokers do by themselves what a status asks for: they say so when they could not create topics."""
    return status is GroupStatus.MISSING_INTERNAL_TOPICS and "failed" not in detail


def status_text(status: GroupStatus, detail: str) -> str:
    """Returns a status of a group as a sentence, with what to do."""
    advice = None if is_being_mended(status, detail) else WHAT_TO_DO.get(status)
    return f"{status.name}: {detail}" + ("" if advice is None else f" To do: {advice}")


class GroupHeartbeats:
    """Sends the heartbeats of a member, and writes down what the group answers.

    :param must_be_static: whether the user has set an instance id, so that the member may not join without.
    :param max_poll_s: the time after which a worker that does not poll is taken out of the group.
    """

    def __init__(
        self,
        life: GroupLife,
        requests: StreamsGroupRequests,
        clock: Clock,
        threads: Threads,
        name: str,
        *,
        max_poll_s: float,
        must_be_static: bool,
        pace_s: float = PACE_S,
    ) -> None:
        self._life, self._requests, self._clock = life, requests, clock
        self._max_poll_s, self._must_be_static, self._pace_s = max_poll_s, must_be_static, pace_s
        self._repeated = RepeatedLines(log, clock)
        self._wake = threads.event()
        self._thread = StoppableThread(threads, self._run, f"{name}-heartbeat")
        self._statuses: tuple[tuple[GroupStatus, str], ...] = ()
        self._failures = 0
        self.is_blocked = False
        """Whether members of another protocol are why it has not joined; any thread may read it."""
        self.shutdown_sent = threads.event()
        """Set when the group has taken the request that all members shut down."""

    def start(self) -> None:
        """Starts the thread, which joins the group."""
        self._thread.start()

    def wake(self) -> None:
        """Has the next heartbeat sent at once."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread; returns when it has ended, which takes as long as a request."""
        self._thread.stopping.set()
        self._wake.set()
        self._thread.join(2 * REQUEST_S)

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
            self._life.failed(as_error(error, "in the heartbeats of a member"))
        finally:
            with suppress(StreamsError):
                self._requests.close_heartbeats()

    def _step(self) -> float:
        """Sends the next heartbeat; returns how long to wait for the one after that."""
        beat = self._life.next_beat()
        if beat is None:
            return self._pace_s
        if self._is_stuck():
            self._give_up(beat)
            return self._pace_s
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
        except RetryableError as error:
            self._life.unanswered(beat)
            self._repeated.log("the group does not answer; heartbeats go on", error=str(error))
            return self._retry_s()
        except StreamsError as error:
            self._life.failed(error)
            return self._pace_s
        self._failures, self.is_blocked = 0, False
        return min(answer.interval_s, self._pace_s)

    def _take(self, beat: Heartbeat, answer: HeartbeatAnswer) -> None:
        self._life.answered(beat, answer)
        if beat.asks_for_shutdown:
            self.shutdown_sent.set()
        self._log_statuses(answer.statuses)
        if not self._life.is_in_doubt:
            return
        tasks = self._requests.assigned(beat.member.member_id, REQUEST_S)
        if tasks is None:
            raise MemberFenced("the group does not have this member any more")
        self._life.assigned(beat, tasks)

    def _log_statuses(self, statuses: tuple[tuple[GroupStatus, str], ...]) -> None:
        for status, detail in statuses:
            if (status, detail) in self._statuses:
                continue
            is_trouble = status in WHAT_TO_DO and not is_being_mended(status, detail)
            log.log(
                logging.WARNING if is_trouble else logging.INFO,
                "the group gives no tasks yet" if is_trouble else "the group reports a status",
                extra={"status": status_text(status, detail)},
            )
        if self._statuses and not statuses:
            log.info("the group has no more to report")
        self._statuses = statuses

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
        if self._must_be_static:
            self._life.failed(
                ConfigError(
                    f"group.instance.id does not work with group.protocol=streams on these brokers: {error.message}."
                    " Static members need Kafka 4.4 or later: leave group.instance.id out, or set group.protocol to"
                    " classic"
                )
            )
            return self._pace_s
        log.info("the brokers take no static members in groups of this protocol: joining as a dynamic one")
        self._life.joins_without_instance()
        return 0.0

    def _fenced(self, beat: Heartbeat, error: StreamsError) -> None:
        self._repeated.log("the group does not have this member any more", level=logging.WARNING, error=str(error))
        self._leave(beat.member)  # a member whose epoch alone was refused is still there
        self._life.fenced(beat)

    def _is_stuck(self) -> bool:
        return self._clock.monotonic() > self._life.polled_at + self._max_poll_s

    def _give_up(self, beat: Heartbeat) -> None:
        """Leaves the group for a worker that does not poll, since heartbeats alone would keep its tasks for ever."""
        log.warning(
            "leaving the group: the worker has not polled for max.poll.interval.ms, and other members get its tasks",
            extra={"max_poll_interval_s": self._max_poll_s},
        )
        self._leave(beat.member)
        self._life.fenced(beat)

    def _leave(self, member: GroupMemberIdentity) -> None:
        try:
            self._requests.heartbeat(Heartbeat(member=member._replace(epoch=LEAVE_EPOCH)), REQUEST_S)
        except StreamsError as error:
            log.debug("the group was not told that the member leaves", extra={"error": str(error)})
