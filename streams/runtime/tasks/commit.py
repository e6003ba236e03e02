"""The commit of a thread's tasks, with one function for each step (docs/design.md, "Path of a record"; semantics 78).

(a) drain the caches, (b) send what they logged, (c) flush the producer and raise the first send error; at least once
(c) comes before (b) too, so that no change is known without its result, and a member that may have lost its tasks
meanwhile asks the group before (b). Then at least once: (d) apply to the engines,
(e) commit offsets; exactly once: (d) add offsets and commit the transaction, (e) apply to the engines. At least once,
the engines of a task that keeps tables of source topics come after the offsets too
(docs/decisions/changelogs-and-restore.md, "A store of a source topic is never ahead of the committed offset"). A
failure at any step leaves everything after it undone, but where the disk is full: what is on the changelogs is
committed all the same, and the engines get it when there is room (docs/decisions/commits-and-transactions.md, "A worker
with a full disk waits for space").

The offsets to commit are those that the open tasks know (docs/decisions/commits-and-transactions.md, "Every transaction
sends an offset of an open task"): they are kept nowhere else.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping

from processor_api.clock import Clock
from processor_api.errors import DiskFullError, InternalError, RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.membership.port import Membership
from streams.kafka.ports import ClientUnusable, CommitAgain, OffsetAndMetadata, PartlyCommitted, TransactionAborted
from streams.kafka.producing.record_collector import RecordCollector
from streams.log import RepeatedLines, retry_level, working_on
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.task import Task, TaskState

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

log = logging.getLogger("streams.commit")

RENEW_INTERVAL_S = 12 * 3600.0
"""Committed offsets of partitions outside the subscription expire at the broker: all are committed again this often."""
RENEW_RETRY_S = 60.0
SURE_SHARE = 0.5
"""The share of the session timeout after a commit in which the tasks are this member's for sure."""
SURE_S = 5.0
"""The most of it, in seconds: brokers set the session of groups of the protocols ``streams`` and ``consumer``, and an
administrator can have made it shorter than the setting of the client."""


class TaskOffsets:
    """Commits offsets of tasks without a transaction, and determines by them whether the member still owns the tasks.

    Brokers refuse those of topics that were deleted, and commit the others (semantics 200).

    :param session_timeout_s: how long the group waits for a member of which it hears nothing.
    """

    def __init__(self, membership: Membership, clock: Clock, session_timeout_s: float) -> None:
        self._membership = membership
        self._clock = clock
        self._repeated = RepeatedLines(log, clock)
        self._renew_at = clock.monotonic() + RENEW_INTERVAL_S
        self._sure_s = min(SURE_SHARE * session_timeout_s, SURE_S)
        self._sure_until = clock.monotonic() + self._sure_s
        """Until when no other member can have the tasks."""

    def commit(self, offsets: Offsets, tasks: Collection[Task]) -> frozenset[TopicPartition]:
        """Commits offsets; returns the partitions that do not exist, which are left out.

        :param tasks: those that leave them out from now on.
        :raises CommitAgain: nothing is lost; commit after the next poll.
        :raises ClientUnusable: it is not known what the group has.
        :raises TaskMigratedError: another member owns the tasks.
        """
        asked, absent = self._clock.monotonic(), frozenset[TopicPartition]()
        try:
            self._membership.commit(offsets)
        except PartlyCommitted as error:
            absent = error.partitions
            self._leave_out(error, tasks)
        except (CommitAgain, ClientUnusable):
            raise
        except RetryableError as error:  # without a transaction the same offsets can be committed any time
            raise CommitAgain(error.message, **error.place()) from error
        if len(absent) < len(offsets):
            self._sure_until = asked + self._sure_s
        return absent

    def make_sure(self, tasks: Collection[Task]) -> None:
        """Asks the group whether the tasks are this member's, if another one may have them by now; raises as
        :meth:`commit`.

        No broker refuses rows of a member that was frozen and replaced, as it does in a transaction: they would lie
        above newer ones of the same keys. It refuses the offsets, though they are those that it has; and if the answer
        to the last commit was lost, those of that one, since what it has must not go back. It answers nothing about
        topics that were deleted; where there are no others, no other member can have processed more.
        """
        if self._clock.monotonic() < self._sure_until:
            return
        for task in tasks:
            offsets = task.inputs.latest_offsets
            if offsets and not self.commit(offsets, tasks).issuperset(offsets):
                return

    def start_at(self, offsets: Offsets) -> None:
        """Commits where partitions start that had no committed offset.

        From then on a missing offset means that it was lost.
        """
        self._membership.commit(offsets)

    def renew(self, tasks: Collection[Task]) -> None:
        """Commits again what is committed, from time to time, so that it does not expire."""
        now = self._clock.monotonic()
        if now < self._renew_at:
            return
        known = {name: one for task in tasks for name, one in task.inputs.latest_offsets.items()}
        if not known:
            return
        self._renew_at = now + RENEW_RETRY_S
        try:
            self._membership.commit(known)
        except PartlyCommitted as error:
            self._leave_out(error, tasks)
        except RetryableError as error:
            log.log(retry_level(), "committed offsets are not renewed yet", extra={"error": str(error)})
            return
        self._renew_at = now + RENEW_INTERVAL_S

    def _leave_out(self, error: PartlyCommitted, tasks: Collection[Task]) -> None:
        for task in tasks:
            task.inputs.leave_out(error.partitions)
        self._repeated.log(
            "the offsets of deleted topics are not committed",
            level=logging.WARNING,
            partitions=", ".join(sorted(map(str, error.partitions))),
        )


class Committer:
    """Commits the tasks of a stream thread, from one join of the group to its end.

    :param pace: records how long drains take.
    :param session_timeout_s: how long the group waits for a member of which it hears nothing.
    :param check_topics: raises if a topic of tasks to commit is not the one that they were opened with.
    """

    def __init__(
        self,
        collector: RecordCollector,
        membership: Membership,
        clock: Clock,
        pace: Pace,
        *,
        exactly_once: bool,
        session_timeout_s: float = 45.0,
        check_topics: Callable[[Collection[Task]], None] = lambda tasks: None,
    ) -> None:
        self.collector = collector
        """Sends what tasks write; a commit flushes it."""
        collector.holds_changes = not exactly_once
        self.offsets = TaskOffsets(membership, clock, session_timeout_s)
        """Commits offsets without a transaction."""
        self._membership = membership
        self._clock = clock
        self._exactly_once = exactly_once
        self._check_topics = check_topics
        self.note_leaders: Callable[[Collection[Task]], None] = lambda tasks: None
        """Notes with the stores of tasks, which have committed for the last time, what their changelogs have."""
        self._pace = pace
        self.progressed = False
        """Whether the last commit had more in it than what was written when processors were initialised."""
        self._in_transaction = False
        self._began: float | None = None
        """When work in the open transaction began."""
        self._behind: list[tuple[Task, Offsets, Collection[TopicPartition]]] = []
        """Tasks whose engines lack what is committed, with the offsets and those left out: their disk was full."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._in_transaction

    def begin(self) -> None:
        """Opens the transaction if it is not open; to be called before anything is sent."""
        if self._exactly_once and not self._in_transaction:
            self.collector.producer.begin_transaction()
            self._in_transaction = True
        if self._in_transaction and self._began is None:
            self._began = self._clock.monotonic()

    def open_s(self) -> float | None:
        """Returns how long ago work in the open transaction began; ``None`` if there is none."""
        return None if self._began is None else self._clock.monotonic() - self._began

    @property
    def commit_by(self) -> float:
        """The latest time to commit, in seconds of the clock: when half of the transaction's time-out is over."""
        timeout_s = self._pace.transaction_timeout_s
        return math.inf if self._began is None or timeout_s is None else self._began + timeout_s / 2

    def commit(self, tasks: Collection[Task]) -> bool:
        """Commits those tasks that need it; returns whether any did.

        :raises CommitAgain: nothing is lost; commit after the next poll.
        :raises DiskFullError: nothing is lost; commit when there is room, and process nothing before that.
        :raises StateError: an input was deleted and made again.
        :raises RetryableError: exactly once, it is unknown what the broker has of it: leave it to a new producer.
        :raises TransactionAborted: abort it and rebuild the tasks.
        :raises TaskMigratedError: another member owns the tasks.
        """
        caught_up = self._catch_up()
        needing = [task for task in tasks if task.commit_needed]
        if not needing:
            self._nothing_waits()
            self.offsets.renew(tasks)
            return caught_up
        self._check_topics(needing)  # Before the drain: nothing is lost if no broker answers.
        self._drain(needing)
        self.collector.flush()
        if not self._exactly_once:
            self._log_held(needing, tasks)
        offsets = {task.id: task.committable() for task in needing}
        absent: Collection[TopicPartition] = ()
        if self._exactly_once:
            self._commit_transaction(_together(offsets.values()) or _unchanged(needing))
            failed, full = self._apply(needing)
            committed = needing
        else:
            later = [task for task in needing if _must_not_be_ahead(task.plan)]
            failed, full = self._apply([task for task in needing if task not in later])
            # What a full disk lacks comes back from changelogs; where a store has none, the offsets wait for the disk.
            committed = [task for task in needing if task not in failed or task.stores.progress.all_logged]
            for task in committed:
                task.inputs.sent_offsets = offsets[task.id]
            try:
                absent = self.offsets.commit(_together(offsets[task.id] for task in committed), tasks)
            except CommitAgain:
                self._apply(later)  # what waits in memory would grow for as long as the group does not answer
                raise
            more, error = self._apply(later)
            failed, full = failed + more, full or error
        self.progressed = any(task.has_progress for task in committed)
        self._behind = [(task, offsets[task.id], absent) for task in failed if task in committed]
        for task in committed:
            if task not in failed:
                task.committed(absent=absent)
        if full is not None:
            self._began = None
            raise full
        self._nothing_waits()
        self.offsets.renew(tasks)
        return True

    def commit_last(self, tasks: Collection[Task], closing: Collection[Task]) -> None:
        """Commits as :meth:`commit`, before some of the tasks are closed."""
        self.commit(tasks)
        self.note_leaders(closing)

    def _catch_up(self) -> bool:
        """Writes what is committed to engines whose disk was full; returns whether there was anything.

        A task that was closed or taken back meanwhile restores it from its changelogs.
        """
        found = bool(self._behind)
        while self._behind:
            task, offsets, absent = self._behind[0]
            if task.state is TaskState.RUNNING:
                task.apply(transaction=self._exactly_once)
                task.committed(offsets, absent)
            del self._behind[0]
        return found

    def _drain(self, tasks: Collection[Task]) -> None:
        begin = self._clock.monotonic()
        for task in tasks:
            self.begin()
            with working_on(task.id):
                task.drain()
        self._pace.record_drain(self._clock.monotonic() - begin)

    def _log_held(self, tasks: Collection[Task], running: Collection[Task]) -> None:
        """Logs what the tasks' stores changed, now that each result has arrived.

        A changelog that has a change without its result would lose the result where the process ends here: a row that
        left a buffer is not sent on again, and a key that a processor has seen before is skipped.
        """
        self.offsets.make_sure(running)
        logged = [task.stores.changelogs.send_held() for task in tasks]
        if any(logged):
            self.collector.flush()

    def _nothing_waits(self) -> None:
        """Ends the measures of the open transaction: nothing waits for a commit."""
        self._began = None
        self._pace.committed()

    def _commit_transaction(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits the transaction with at least one offset, since the group checks the membership with offsets."""
        producer = self.collector.producer
        try:
            producer.send_offsets(offsets, self._membership.identity())
            producer.commit_transaction()
        except CommitAgain as error:  # not tried again: its tasks may be revoked before
            raise TransactionAborted(error.message, **error.place()) from error
        self._in_transaction = False

    def _apply(self, tasks: Collection[Task]) -> tuple[list[Task], DiskFullError | None]:
        """Writes to the engines; returns the tasks whose disk was full, with the error of the first."""
        failed: list[Task] = []
        full: DiskFullError | None = None
        for task in tasks:
            try:
                task.apply(transaction=self._exactly_once)
            except DiskFullError as error:
                error.locate(task=str(task.id))
                full = full or error
                failed.append(task)
        return failed, full

    def abort(self) -> None:
        """Aborts the open transaction."""
        self._began = None
        self._behind.clear()
        if self._in_transaction:
            # Before the call: one that fails is not made again, and the next producer of the id ends the transaction.
            self._in_transaction = False
            self.collector.producer.abort_transaction()
        self.collector.forget_failure()

    def leave_open(self) -> None:
        """Leaves the open transaction to `init_transactions` of the next producer, or to its timeout."""
        self._in_transaction = False
        self._began = None
        self._behind.clear()


def _must_not_be_ahead(plan: TaskPlan) -> bool:
    """Whether a task has a store whose changelog is a source topic, and loses nothing if its engines are written after
    the offsets are committed: what they lack then comes back from the topics."""
    return bool(plan.source_changelogs) and all(store in plan.changelogs for store in plan.stores)


def _together(offsets: Iterable[Offsets]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {name: one for some in offsets for name, one in some.items()}


def _unchanged(tasks: Collection[Task]) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Returns offsets that one of the tasks knows already, for a commit that changes none."""
    for task in tasks:
        if found := task.inputs.latest_offsets:
            return found
    for task in tasks:  # the topics of all were deleted: the brokers say so
        if task.inputs.known_offsets:
            return task.inputs.known_offsets
    raise InternalError("a task without any input is to be committed")
