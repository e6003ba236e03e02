"""The loop of a stream thread over one set of resources: polls, opens tasks, processes, punctuates, commits."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from processor_api.errors import DiskFullError, TaskMigratedError, UnreachableError, outage_behind
from processor_api.task_id import TaskId
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.membership.port import Membership
from streams.kafka.ports import CommitAgain, NotDelivered, TransactionAborted
from streams.log import RepeatedLines, in_work
from streams.metrics.registry import Metrics
from streams.platform import Platform
from streams.runtime.tasks.full_disk import FullDisk, Waiting
from streams.runtime.tasks.refused_records import RefusedRecords
from streams.runtime.tasks.retry import Retry
from streams.runtime.tasks.task import Task
from streams.runtime.threads.call_timeout import CallTimeout
from streams.runtime.threads.due_tasks import DueTasks
from streams.runtime.threads.intake import Intake
from streams.runtime.threads.thread_metrics import Reports, ThreadCounters
from streams.runtime.threads.thread_resources import ThreadResources
from streams.runtime.threads.thread_state import ThreadState

log = logging.getLogger("streams.thread")

RESTORE_WAIT_S = 0.02
OPENING_WAIT_S = 0.05
PROCESS_LIMIT = 2000


@dataclass
class KeptByThread:
    """Holds what a thread keeps from one set of resources to the next: counters, failures, waits."""

    counters: ThreadCounters
    reports: Reports
    retry: Retry
    refused: RefusedRecords
    full_disk: FullDisk
    call_timeout: CallTimeout
    repeated: RepeatedLines
    membership: Membership | None = field(default=None, init=False)
    """The last membership, if it has ended but remains in the group for a next one that has not joined yet."""
    begin_after_s: float = field(default=0.0, init=False)
    """How long to wait before the first resources are made."""

    @classmethod
    def of(cls, name: str, config: StreamsConfig, platform: Platform, metrics: Metrics) -> KeptByThread:
        """Returns that of a new thread."""
        clock = platform.clock
        counters = ThreadCounters(clock.time_ms(), metrics, clock.monotonic)
        return cls(
            counters=counters,
            reports=Reports(name, counters, config, clock),
            retry=Retry.of(config, clock),
            refused=RefusedRecords(clock, client_configs.retry_backoff_ms(config)[0], config.task_timeout_ms),
            full_disk=FullDisk.of(name, config, platform),
            call_timeout=CallTimeout(),
            repeated=RepeatedLines(log, clock),
        )


class LoopHost(Protocol):
    """The thread that a loop runs on."""

    state: ThreadState

    def become(self, state: ThreadState) -> None:
        """Sets the state."""

    def is_stopping(self) -> bool:
        """Whether the thread is asked to end."""

    def is_paused(self) -> bool:
        """Whether processing is suspended now."""

    def check_process(self) -> None:
        """Ends the thread in a process that was forked from its own."""


class ThreadLoop:
    """Runs the tasks of one set of resources."""

    def __init__(self, resources: ThreadResources, host: LoopHost, kept: KeptByThread) -> None:
        config, clock = resources.process.config, resources.process.platform.clock
        self._resources = resources
        self._host = host
        self._kept = kept
        self._clock = clock
        self._commit_interval_s = config.commit_interval_ms / 1000
        self._poll_s = config.poll_ms / 1000
        self._due = DueTasks()
        self.intake = Intake(resources, self._due, kept.repeated, self._stands_still)
        self._next_commit = clock.monotonic() + self._commit_interval_s
        self._commit_again = False
        self._open_at = 0.0
        self._follows_more = False

    def run(self) -> None:
        """Runs until the thread is asked to end, or until an error after which these resources are of no more use."""
        busy = False
        counters, now, resources = self._kept.counters, self._clock.monotonic, self._resources
        while not self._host.is_stopping():
            try:
                begin = now()
                self.intake.poll(busy, self._wait_s)
                counters.polled(now() - begin)
                resources.membership.poll()
                resources.plans.follow()
                self._open()
                self._follow(busy=busy)
                begin, before = now(), counters.processed
                busy = self._process()
                self._host.check_process()
                counters.worked(now() - begin, counters.processed - before)
                self._maybe_commit()
            except TransactionAborted as aborted:
                self._go_back(aborted)
                busy = False
            except Exception as error:
                outage = outage_behind(error)
                if outage is None:
                    raise
                outage.locate(task=None if in_work.task is None else str(in_work.task))
                self._go_back(outage)
                in_work.task = None
                busy = False

    def _go_back(self, aborted: TransactionAborted | UnreachableError) -> None:
        """Takes tasks back to their last commit: all of a transaction, else those of which records were refused, or
        need a service that is away.

        Those alone wait, since the others have nothing to wait for.
        """
        error = self._kept.call_timeout.explain(self._resources.committer, self._resources.pace, aborted) or aborted
        tasks, refused = self._resources.tasks, frozenset[TaskId]()
        if isinstance(error, UnreachableError):
            self._kept.refused.outages += 1
        if isinstance(error, (NotDelivered, UnreachableError)):
            refused = tasks.named((isinstance(error, NotDelivered) and error.tasks) or {error.task})
            self._kept.refused.keep(self._resources.manager.ownership.owned)
            self._kept.refused.record(error, refused)
        if refused and not self._resources.committer.in_transaction:
            if isinstance(error, NotDelivered):
                self._resources.collector.forget_failure()
            self._resources.manager.roll_back(refused)
            self.intake.paused.intersection_update(tasks.running)
            return
        if not refused:
            text = "transaction aborted; tasks go back to their last commit"
            self._kept.repeated.log(text, level=logging.WARNING, error=str(error))
            self._open_at = self._clock.monotonic() + self._kept.retry.wait_after(error)
        self._resources.committer.abort()
        self._resources.manager.roll_back()
        self.intake.forget()

    def _stands_still(self) -> bool:
        """Whether nothing is processed: the application is paused, or a commit waits for room on the disk."""
        return self._host.is_paused() or self._kept.full_disk.holds(Waiting.COMMIT)

    def _wait_s(self) -> float:
        paused = self._stands_still()
        if self._resources.restorer.active and not paused:
            return 0.0
        if not self._resources.tasks.all_run:
            return OPENING_WAIT_S
        if self._follows_more and not paused:
            return 0.0
        wait = self._poll_s
        due = self._due
        due.follow(self._resources.tasks.running_now)
        if not paused and any(task.environment.operators.remainders for task in due.touched_tasks):
            return 0.0
        if self._commit_again or any(task.commit_needed for task in due.touched_tasks):
            commit_at = max(self._next_commit, self._kept.full_disk.commit_at)
            wait = min(wait, max(0.0, commit_at - self._clock.monotonic()))
        if not paused:
            wait = min(wait, max(0.0, (due.next_wall_clock_ms - self._clock.time_ms()) / 1000))
        return wait

    def _open(self) -> None:
        tasks, full_disk, ownership = self._resources.tasks, self._kept.full_disk, self._resources.manager.ownership
        if ownership.revoked:
            ownership.revoked = False
            self._host.become(ThreadState.PARTITIONS_REVOKED)
        if not tasks.all_run:
            self._host.become(ThreadState.PARTITIONS_ASSIGNED)
        if not full_disk.holds(Waiting.OPENING) or full_disk.may_try():
            try:
                self._advance()
            except DiskFullError as error:
                full_disk.met(error, Waiting.OPENING)
                self._resources.manager.close_unopened()
        if tasks.all_run and ownership.assigned:
            full_disk.passed(Waiting.OPENING)
            if self._host.state is not ThreadState.RUNNING:
                self._host.become(ThreadState.PARTITIONS_ASSIGNED)
                self._host.become(ThreadState.RUNNING)

    def _advance(self) -> None:
        """Takes the next steps of restoring and opening tasks."""
        tasks, manager, restorer = self._resources.tasks, self._resources.manager, self._resources.restorer
        if not restorer.active:
            restorer.rest()
        elif not self._stands_still():
            restorer.step(0.0 if tasks.running else RESTORE_WAIT_S)
        if tasks.all_run:
            if manager.looks_for_inputs:
                manager.advance()
        elif self._clock.monotonic() >= self._open_at and self._resources.membership.may_open():
            manager.advance()

    def _follow(self, *, busy: bool) -> None:
        """Continues the standby tasks; restores of active tasks go first."""
        standbys = self._resources.manager.standbys
        if standbys.is_idle:
            self._follows_more = False
        elif not self._resources.restorer.active and not self._stands_still():
            may_open = self._resources.membership.may_open()
            standbys.advance(self._resources.manager.ownership.plans, self._resources.tasks.wanted, may_open=may_open)
            standbys.step(busy=busy)
            self._follows_more = standbys.follows_more
        self._resources.membership.take_lags(standbys.lags)

    def _process(self) -> bool:
        """Processes what is buffered until something else is due; returns whether more could be processed."""
        busy = False
        committer, pace = self._resources.committer, self._resources.pace
        timeout, refused = self._kept.call_timeout, self._kept.refused
        pace.begin_turn(min(self._next_commit, committer.commit_by))
        due = self._due
        due.follow(self._resources.tasks.running_now)
        paused = self._stands_still()
        for task in [] if paused else timeout.turn(due.in_turn(self._clock.time_ms(), pace.last_served())):
            in_work.task = task.id
            limit = timeout.limit(task, min(PROCESS_LIMIT, pace.drains.records_left))
            limit = refused.limit(task.id, limit)
            if task.has_records() and limit > 0:
                committer.begin()
                count = task.process(limit, self._resources.idling)
                refused.processed(task.id, count)
                self._kept.counters.processed += count
                pace.drains.processed(count)
                busy = count == limit or bool(task.environment.operators.remainders) or busy
            if task.wall_clock_due() and not self._host.is_stopping():
                committer.begin()
                task.punctuate_wall_clock()
            due.touched(task)
            if pace.ends_here():
                pace.served, busy = task.id, True
                break
        in_work.task = None
        self._resources.collector.poll()
        self.intake.resume()
        return busy

    def _maybe_commit(self) -> None:
        now = self._clock.monotonic()
        due = self._due
        due.follow(self._resources.tasks.running_now)
        running = self._resources.tasks.running_now.values()
        self._kept.reports.at(now, running, self._resources.clients.consumer.high_watermark)
        self.intake.watch(now, running)
        if not self._is_due(now, running):
            return
        if self._kept.full_disk.holds(Waiting.COMMIT) and not self._kept.full_disk.may_try():
            return
        self._next_commit = now + self._commit_interval_s
        try:
            committed = self._resources.committer.commit(running)
            if committed:
                self._kept.refused.committed()
                self._committed(now)
            if (committed and self._resources.committer.progressed) or self._nothing_is_left():
                self._kept.call_timeout.committed(self._resources.pace, running)
                self._kept.retry.reset()
            self._commit_again = False
            if not self._kept.retry.is_failing:  # else what failed went back, and so nothing waits for a commit
                self._kept.counters.times.all_committed()
            self._kept.full_disk.passed(Waiting.COMMIT)
        except DiskFullError as error:
            self._kept.full_disk.met(error, Waiting.COMMIT)
            if self._kept.full_disk.is_stuck:
                raise  # the stores are opened again
            return
        except CommitAgain as error:
            if self._resources.pace.poll_is_late:
                raise TaskMigratedError(error.message, **error.place()) from error
            self._commit_again = True
            self._next_commit = now + self._kept.retry.record_failure(error)
            self._kept.repeated.log("commit is tried again", level=logging.INFO, error=str(error))
        due.committed()
        self._resources.purge.run(running)
        if not self._commit_again:
            self._resources.snapshots.run(running)
        self._resources.watch.run(running)

    def _is_due(self, now: float, running: Collection[Task]) -> bool:
        """Whether it is time for a commit, or something asks for one."""
        resources, kept = self._resources, self._kept
        return (
            resources.budget.wants_commit()  # first, since it compares with the last time that it was asked
            or now >= min(self._next_commit, resources.committer.commit_by)
            or any(task.environment.users.commit_requested for task in self._due.touched_tasks)
            or resources.pace.drains.records_left <= 0
            or resources.pace.poll_is_late
            or kept.call_timeout.commits_at_once
            or kept.refused.wants_commit(running)
        )

    def _committed(self, began: float) -> None:
        """Counts a commit. Where it took long, records are processed for as long before the next one, for up to an
        interval: on a busy machine a commit may be due again before the last one is over."""
        ended = self._clock.monotonic()
        took_s = ended - began
        self._kept.counters.committed(took_s)
        self._next_commit = max(self._next_commit, ended + min(took_s, self._commit_interval_s))

    def _nothing_is_left(self) -> bool:
        """Whether errors are over without a commit: everything was read, and there is nothing to commit."""
        tasks = self._resources.tasks
        return self._kept.retry.is_failing and tasks.all_run and all(task.at_end for task in tasks.running_now.values())
