"""A stream thread: polls, hands records to tasks, punctuates, commits.

A thread works with one set of resources at a time, which are its own clients and its own membership in the group. When
another member has its tasks (it was fenced, or removed from the group), or the brokers cannot be reached in the middle
of a transaction, they are closed without a commit, and the thread goes on with new ones.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from processor_api.errors import DamagedStateError, DiskFullError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import plain_str
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.client_errors import LOST
from streams.kafka.membership.control_topics import Membership
from streams.kafka.membership.shutdown_requests import ShutdownRequested
from streams.kafka.ports import CommitAgain, InstanceFenced, NotDelivered, TransactionAborted
from streams.log import RepeatedLines, in_work
from streams.metrics.registry import Metrics
from streams.platform import Platform
from streams.restore.counters import RestoreCounters
from streams.runtime.engines.state_recovery import clear_tracebacks
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.tasks.full_disk import FullDisk, Waiting
from streams.runtime.tasks.refused_records import RefusedRecords
from streams.runtime.tasks.retry import Retry
from streams.runtime.tasks.task import Task
from streams.runtime.threads.call_timeout import CallTimeout
from streams.runtime.threads.client_events import client_event, is_event
from streams.runtime.threads.due_tasks import DueTasks
from streams.runtime.threads.gathering import Gathering
from streams.runtime.threads.metadata import ThreadMetadata
from streams.runtime.threads.parent_only import ParentOnly
from streams.runtime.threads.task_manager import OwnedTask
from streams.runtime.threads.thread_metrics import ThreadCounters
from streams.runtime.threads.thread_resources import ThreadResources
from streams.runtime.threads.thread_state import ThreadState, check_step
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.thread")

RESTORE_WAIT_S = 0.02
OPENING_WAIT_S = 0.05
PROCESS_LIMIT = 2000
SAMPLE_INTERVAL_S = 0.5
"""The least time between two samples of the counters."""
SAMPLE_PART = 0.1
"""The time between two samples, as a part of a window of the metrics."""


@dataclass(frozen=True)
class ThreadCallbacks:
    """Holds the functions of the application that its threads call, each on the thread concerned."""

    changed: Callable[[StreamThread, ThreadState], None]
    """Called when the state of a thread has changed."""
    failed: Callable[[StreamThread, Exception], bool]
    """Called once when a thread fails, before it closes its tasks; returns whether another thread replaces it."""
    is_paused: Callable[[], bool]
    """Returns whether processing is suspended now."""


class StreamThread:
    """Runs the tasks of one member of the group.

    On a thread of its own by :meth:`start`, or on the caller's by :meth:`run`.
    """

    def __init__(
        self,
        name: str,
        make_resources: Callable[[], ThreadResources],
        config: StreamsConfig,
        platform: Platform,
        callbacks: ThreadCallbacks,
        metrics: Metrics,
    ) -> None:
        clock, threads = platform.clock, platform.threads
        self.name = name
        self.state = ThreadState.CREATED
        self.failure: Exception | None = None
        self.replaced = False
        """Whether it failed, and another thread replaces it."""
        self.counters = ThreadCounters(clock.time_ms(), metrics)
        self._make_resources = make_resources
        self._config = config
        self._max_poll_records = client_configs.max_poll_records(config)
        self._buffered_records_max = config.buffered_records_per_partition
        self._clock = clock
        self._repeated = RepeatedLines(log, clock)
        self._callbacks = callbacks
        self._is_paused = callbacks.is_paused
        self._threads = threads
        self._stopping = threads.event()
        self._remain = False
        self._thread = threads.thread(self.run, name)
        self._next_commit = 0.0
        self._commit_again = False
        self._paused: set[TopicPartition] = set()
        """Partitions that the consumer does not fetch, since enough of them is buffered."""
        self._next_sample = 0.0
        self._sample_interval_s = max(SAMPLE_INTERVAL_S, config.metrics_sample_window_ms / 1000 * SAMPLE_PART)
        self._next_summary = clock.monotonic() + config.log_summary_interval_ms / 1000
        self._resources: ThreadResources | None = None
        self._kept_membership: Membership | None = None
        """The last membership, if it has ended but remains in the group for a next one that has not joined yet."""
        self._retry = Retry.of(config, clock)
        self._open_at = 0.0
        self._due = DueTasks()
        self._gathering = Gathering(clock, config.poll_gather_ms)
        self._call_timeout = CallTimeout()
        self._refused = RefusedRecords(clock, client_configs.retry_backoff_ms(config)[0], config.task_timeout_ms)
        self._full_disk = FullDisk.of(name, config, platform)
        self._begin_after_s = 0.0
        self._parent_only = ParentOnly()

    # ------------------------------------------------------------------ from outside

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, *, remain: bool = False) -> None:
        """Asks the thread to end after the current record.

        :param remain: whether a static member remains in the group, for the session timeout.
        """
        self._remain = remain
        self._stopping.set()

    def replace(self, dead: StreamThread) -> None:
        """Makes this thread the member that a dead one was; to be called before the start.

        It begins after a wait that grows while such threads die without a commit.
        """
        self._kept_membership, dead._kept_membership = dead._kept_membership, None
        self._retry, self._begin_after_s = dead._retry, dead._retry.backoff_s()

    def leave_group(self) -> None:
        """Leaves the group if this member remained in it for another thread, which does not come.

        Otherwise its tasks would wait for the session timeout.
        """
        kept, self._kept_membership = self._kept_membership, None
        if kept is not None and not self._remain:
            kept.remove_from_group()

    def join(self, timeout_s: float | None) -> bool:
        """Waits for the end of the thread; returns whether it has ended."""
        if self._thread.ident is not None and not self.is_current():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return self._threads.current() is self._thread

    def metadata(self) -> ThreadMetadata | None:
        """Returns what the thread does now; ``None`` before it has clients. Any thread may call it."""
        resources = self._resources
        return None if resources is None else resources.metadata(self.state)

    def is_ready(self) -> bool:
        """Whether every task of the thread runs, or they wait for members of another topology to leave; any thread may
        call it."""
        resources = self._resources
        if self.state is ThreadState.RUNNING:
            return True
        waiting = self.state in (ThreadState.STARTING, ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED)
        return waiting and resources is not None and resources.waits_for_another_topology()

    def owned_tasks(self) -> list[TaskId]:
        """Lists the ids of the tasks that the thread owns now; any thread may call it."""
        resources = self._resources
        return [] if resources is None else sorted(resources.tasks.owned)

    def running_tasks(self) -> list[Task]:
        """Lists the tasks that run, to read their counters; any thread may call it."""
        resources = self._resources
        return [] if resources is None else resources.tasks.all_running()

    def list_tasks(self) -> list[OwnedTask]:
        """Lists the tasks that the thread has to run, as they are now; any thread may call it."""
        resources = self._resources
        return [] if resources is None else resources.tasks.list_tasks()

    def restore_counters(self) -> dict[TaskId, RestoreCounters]:
        """Returns the counters of the restores of its tasks; any thread may call it."""
        resources = self._resources
        return {} if resources is None else resources.restorer.counters()

    def request_shutdown(self, reason: str) -> None:
        """Asks every member of the application to shut down; to be called on this thread.

        :raises StreamsError: if the request cannot be sent.
        """
        if self._resources is None:
            raise StreamsError("the members of the application cannot be asked to shut down: the thread has not begun")
        self._resources.membership.request_shutdown(reason)

    # ------------------------------------------------------------------ from resources to resources

    def run(self) -> None:
        """Runs until it is stopped, or until an error after which new resources would not help."""
        if not self._stopping.is_set():
            self._become(ThreadState.STARTING)
            self._stopping.wait(self._begin_after_s)
        try:
            while not self._stopping.is_set():
                self._run_once()
        except Exception as error:
            self._fail(error)
        except BaseException as error:  # such as SystemExit of a processor, which Python would end the thread with
            if passes(error):
                raise
            self._fail(self._of_user(error))
        self._become(ThreadState.PENDING_SHUTDOWN)
        if not self.replaced:
            self.leave_group()
        self._become(ThreadState.DEAD)

    def _fail(self, error: Exception) -> bool:
        """Reports an error to the application, once; returns whether another thread replaces this one."""
        if self.failure is None:
            self.failure = error
            asked = isinstance(error, ShutdownRequested)  # then nothing is wrong here
            log.error(
                "thread dies",
                extra={"thread_name": self.name, "error": plain_str(error)},
                exc_info=None if asked else error,
            )
            self.replaced = self._callbacks.failed(self, error)
        return self.replaced

    def _of_user(self, error: BaseException) -> Exception:
        resources, id_ = self._resources, in_work.task
        task = None if resources is None or id_ is None else resources.tasks.tasks.get(id_)
        place = {} if task is None else {"task": str(id_), **task.environment.cursor.place()}
        return as_error(error, "in a stream thread", **place)

    def _run_once(self) -> None:
        """Runs with new resources, until it is stopped or they cannot be used any more."""
        in_work.task = None
        former, resources = self._resources, self._make_resources()
        if former is not None:
            resources.pace.learn_from(former.pace)
        self._resources = resources
        resources.tasks.waits = self._refused.waits
        try:
            with self._parent_only:
                resources.join(self._stopping)
                self._kept_membership = None
                self._loop(resources)
            self._become(ThreadState.PENDING_SHUTDOWN)
            self._final_commit(resources)
        except InstanceFenced:
            self._kept_membership = None
            self._become(ThreadState.PENDING_SHUTDOWN)
            resources.end(clean=False, remain=True)  # to leave would remove the member that has this id now
            raise
        except TaskMigratedError as error:
            slow = self._call_timeout.explain(resources.committer, resources.pace, error)
            if slow is None:
                self._repeated.log(
                    "tasks migrated; joining again", level=logging.WARNING, thread_name=self.name, error=str(error)
                )
                self._end_for_new(resources, self._retry.backoff_s())
            else:
                self._retreat(resources, slow)
        except RetryableError as error:
            self._retreat(resources, self._call_timeout.explain(resources.committer, resources.pace, error) or error)
        except DamagedStateError as error:
            if (refusal := resources.recovery_refusal(error)) is not None:
                self._die(resources, refusal)
                raise refusal from error.__cause__
            self._end_for_new(resources, 0.0)
            resources.recover(error)
        except BaseException as error:
            self._die(resources, error)
            raise
        else:
            resources.end(clean=True, remain=self._remain)

    def _die(self, resources: ThreadResources, error: BaseException) -> None:
        self._become(ThreadState.PENDING_SHUTDOWN)
        replaced = self._fail(self._of_user(error))
        clear_tracebacks(error)
        # the thread that replaces this one is the same member, and has its tasks at once
        resources.end(clean=False, remain=replaced)
        self._kept_membership = resources.membership if replaced else None

    def _wait_after(self, error: StreamsError) -> float:
        """Returns how long to wait before the next try, in seconds.

        :raises StreamsError: if the error does not allow one.
        """
        if not isinstance(error, RetryableError):
            raise error
        return self._retry.record_failure(error)

    def _retreat(self, resources: ThreadResources, error: StreamsError) -> None:
        """Closes resources whose last step may or may not have reached the broker: the next ones find out."""
        resources.committer.leave_open()
        try:
            wait_s = self._wait_after(error)
        except StreamsError as lasting:
            self._die(resources, lasting)
            raise
        what = "what was not committed is rolled back, to be processed again with new clients"
        self._repeated.log(what, thread_name=self.name, error=str(error))
        self._end_for_new(resources, wait_s, remain=self._remain or not self._stopping.is_set())

    def _end_for_new(self, resources: ThreadResources, wait_s: float, *, remain: bool = True) -> None:
        """Closes resources without a commit, and waits before new ones are made."""
        if self.state is not ThreadState.PENDING_SHUTDOWN:  # the error may be one of the last commit
            self._become(ThreadState.PARTITIONS_REVOKED)
        resources.end(clean=False, remain=remain)
        self._kept_membership = resources.membership if remain else None
        self._stopping.wait(wait_s)

    def _final_commit(self, resources: ThreadResources) -> None:
        try:
            resources.committer.commit(resources.tasks.all_running())
        except CommitAgain as error:
            log.warning(
                "no last commit because of a rebalance; its records are processed again", extra={"error": str(error)}
            )
        except TransactionAborted as error:
            log.warning("the last transaction was aborted", extra={"error": str(error)})
            resources.committer.abort()
        except DiskFullError as error:
            text = "the last commit is not on disk; the next start restores or processes again what is missing"
            log.warning(text, extra={"error": str(error)})
        except RetryableError as error:
            log.warning("no last commit; its records are processed again", extra={"error": str(error)})
            resources.committer.leave_open()

    def _become(self, state: ThreadState) -> None:
        if state is not self.state:
            check_step(self.state, state)
            self.state = state
            self._callbacks.changed(self, state)

    # ------------------------------------------------------------------ the loop

    def _loop(self, resources: ThreadResources) -> None:
        self._next_commit = self._clock.monotonic() + self._config.commit_interval_ms / 1000
        self._paused.clear()
        self._commit_again = False
        busy = False
        counters, now = self.counters, self._clock.monotonic
        while not self._stopping.is_set():
            try:
                begin = now()
                self._poll(resources, busy)
                counters.polled(now() - begin)
                resources.membership.poll()
                resources.refresh()
                self._open(resources)
                begin, before = now(), counters.processed
                busy = self._process(resources)
                self._parent_only.check()
                counters.worked(now() - begin, counters.processed - before)
                self._maybe_commit(resources)
            except TransactionAborted as aborted:
                self._go_back(resources, aborted)
                busy = False

    def _go_back(self, resources: ThreadResources, aborted: TransactionAborted) -> None:
        """Takes tasks back to their last commit: all of a transaction, else those of which records were refused.

        Those alone wait, since the others have nothing to wait for.
        """
        error = self._call_timeout.explain(resources.committer, resources.pace, aborted) or aborted
        tasks, refused = resources.tasks, frozenset[TaskId]()
        if isinstance(error, NotDelivered):
            refused = tasks.named(error.tasks or {error.task})
            self._refused.keep(tasks.owned)
            self._refused.record(error, refused)
        if refused and not resources.committer.in_transaction:
            resources.collector.forget_failure()
            tasks.roll_back(refused)
            self._paused.intersection_update(tasks.running)
            return
        if not refused:
            text = "transaction aborted; tasks go back to their last commit"
            self._repeated.log(text, level=logging.WARNING, error=str(error))
            self._open_at = self._clock.monotonic() + self._wait_after(error)
        resources.committer.abort()
        tasks.roll_back()
        resources.lost_offsets.clear()
        self._paused.clear()

    def _poll(self, resources: ThreadResources, busy: bool) -> None:
        for partition in resources.lost_offsets.find(resources.tasks.running):
            self._paused.discard(partition)
            self._due.touched(resources.tasks.running[partition])
        consumer, limit = resources.consumer, self._max_poll_records
        if not busy:
            self._gathering.wait(lambda: self._wait_s(resources))
        messages: Sequence[Any] = consumer.consume(limit, 0.0)
        if not messages:
            if busy:
                return
            first = consumer.poll(self._wait_s(resources))
            if first is None:
                return
            messages = (first, *consumer.consume(limit, 0.0))
        if not self._paused:  # else there is a backlog, of which few come at a time
            self._gathering.found(len(messages))
        self._route(resources, messages)

    def _stands_still(self) -> bool:
        """Whether nothing is processed: the application is paused, or a commit waits for room on the disk."""
        return self._is_paused() or self._full_disk.holds(Waiting.COMMIT)

    def _wait_s(self, resources: ThreadResources) -> float:
        paused = self._stands_still()
        if resources.restorer.active and not paused:
            return 0.0
        if not resources.tasks.all_open:
            return OPENING_WAIT_S
        wait = self._config.poll_ms / 1000
        due = self._due
        due.follow(resources.tasks.running_now)
        if not paused and any(task.environment.remainders for task in due.touched_tasks):
            return 0.0
        if self._commit_again or any(task.commit_needed for task in due.touched_tasks):
            commit_at = max(self._next_commit, self._full_disk.commit_at)
            wait = min(wait, max(0.0, commit_at - self._clock.monotonic()))
        if not paused:
            wait = min(wait, max(0.0, (due.next_wall_clock_ms - self._clock.time_ms()) / 1000))
        return wait

    def _route(self, resources: ThreadResources, messages: Sequence[Any]) -> None:
        """Passes records and events on in the order in which the client delivered them.

        The end of a partition is not the end of records that came after it. Where there are no events but ends, which
        come after nearly every record where few come, the order is kept in each partition alone.
        """
        errors = [error for message in messages if (error := message.error()) is not None]
        if not errors:
            return self._take(resources, messages)
        eof = resources.consumer.partition_eof
        if all(error.code() == eof for error in errors):
            return self._take_with_ends(resources, messages)
        for happened, run in groupby(messages, is_event):
            if happened:
                for event in run:
                    self._event(resources, event)
            else:
                self._take(resources, list(run))

    def _take(self, resources: ThreadResources, messages: Sequence[Any]) -> None:
        kind = type(messages[0])
        for number, by_partition in groupby(messages, kind.partition):
            for topic, run in groupby(by_partition, kind.topic):
                self._add(resources, TopicPartition(topic, number), list(run))

    def _take_with_ends(self, resources: ThreadResources, messages: Sequence[Any]) -> None:
        batches: dict[TopicPartition, list[Any]] = {}
        ends: dict[TopicPartition, Any] = {}
        for message in messages:
            partition = TopicPartition(message.topic(), message.partition())
            if message.error() is not None:
                ends[partition] = message
            else:
                ends.pop(partition, None)
                batches.setdefault(partition, []).append(message)
        for partition, batch in batches.items():
            self._add(resources, partition, batch)
        for event in ends.values():
            self._event(resources, event)

    def _add(self, resources: ThreadResources, partition: TopicPartition, batch: list[Any]) -> None:
        task = resources.tasks.running.get(partition)
        if task is None:
            return resources.membership.take(partition, batch)
        queue = task.add(partition, batch)
        resources.idling.arrived(partition)
        self._due.got_records(task)
        waits = len(task.queues) > 1 or self._stands_still()
        if waits or len(queue) > len(batch):
            queue.measure(batch)
            if self._full(resources, queue, 0 if waits else len(batch)):
                self._pausing(resources, partition)

    def _full(self, resources: ThreadResources, queue: InputQueue, new: int = 0) -> bool:
        """Whether a partition buffers more than it may.

        A task with one partition processes new records at once, unless that takes long.
        """
        limit = resources.input_bytes_limit()
        return len(queue) - new > self._buffered_records_max or 0 <= limit < queue.buffered_bytes()

    def _pausing(self, resources: ThreadResources, partition: TopicPartition) -> None:
        if partition not in self._paused:
            self._paused.add(partition)
            resources.consumer.pause([partition])

    def _event(self, resources: ThreadResources, event: Any) -> None:
        error, partition = event.error(), TopicPartition(event.topic() or "", event.partition() or 0)
        if error.code() == resources.consumer.partition_eof:
            task = resources.tasks.running.get(partition)
            if task is not None:
                task.queues[partition].at_end(event.offset())
            return
        if error.name() in LOST:
            return resources.lost_offsets.add(partition, event.offset())
        if error.name() == "UNKNOWN_TOPIC_OR_PART" and partition in resources.tasks.running:
            # tasks do not wait for a deleted topic
            resources.tasks.running[partition].queues[partition].caught_up = True
        if event.topic() and partition not in resources.tasks.running and error.name() != "_FATAL":
            self._repeated.log("cannot read", partition=str(partition), error=error.str())
            return
        client_event(error, partition, self._repeated)

    def _open(self, resources: ThreadResources) -> None:
        tasks, full_disk = resources.tasks, self._full_disk
        if resources.revoked:
            resources.revoked = False
            self._become(ThreadState.PARTITIONS_REVOKED)
        if not tasks.all_open:
            self._become(ThreadState.PARTITIONS_ASSIGNED)
        if not full_disk.holds(Waiting.OPENING) or full_disk.may_try():
            try:
                self._advance(resources)
            except DiskFullError as error:
                full_disk.met(error, Waiting.OPENING)
                tasks.close_unopened()
        if tasks.all_open and resources.assigned:
            full_disk.passed(Waiting.OPENING)
            if self.state is not ThreadState.RUNNING:
                self._become(ThreadState.PARTITIONS_ASSIGNED)
                self._become(ThreadState.RUNNING)

    def _advance(self, resources: ThreadResources) -> None:
        """Takes the next steps of restoring and opening tasks."""
        tasks = resources.tasks
        if resources.restorer.active and not self._stands_still():
            resources.restorer.step(0.0 if tasks.running else RESTORE_WAIT_S)
        if tasks.all_open:
            if tasks.looks_for_inputs:
                tasks.advance()
        elif self._clock.monotonic() >= self._open_at and resources.membership.may_open():
            tasks.advance()

    def _process(self, resources: ThreadResources) -> bool:
        """Processes what is buffered until something else is due; returns whether more could be processed."""
        busy = False
        committer, pace, timeout, refused = resources.committer, resources.pace, self._call_timeout, self._refused
        pace.begin_turn(min(self._next_commit, committer.commit_by))
        due = self._due
        due.follow(resources.tasks.running_now)
        paused = self._stands_still()
        for task in [] if paused else timeout.turn(due.in_turn(self._clock.time_ms(), pace.last_served())):
            in_work.task = task.id
            limit = timeout.limit(task, min(PROCESS_LIMIT, pace.records_left))
            limit = refused.limit(task.id, limit)
            if task.has_records() and limit > 0:
                committer.begin()
                count = task.process(limit, resources.idling)
                refused.processed(task.id, count)
                self.counters.processed += count
                pace.processed(count)
                busy = count == limit or bool(task.environment.remainders) or busy
            if task.wall_clock_due() and not self._stopping.is_set():
                committer.begin()
                task.punctuate_wall_clock()
            due.touched(task)
            if pace.ends_here():
                pace.served, busy = task.id, True
                break
        in_work.task = None
        resources.collector.poll()
        if self._paused:
            self._resume(resources)
        return busy

    def _resume(self, resources: ThreadResources) -> None:
        running = resources.tasks.running
        ready = [p for p in self._paused if p not in running or not self._full(resources, running[p].queues[p])]
        resources.consumer.resume([partition for partition in ready if partition in running])
        self._paused.difference_update(ready)

    def _maybe_commit(self, resources: ThreadResources) -> None:
        now = self._clock.monotonic()
        if now >= self._next_summary:
            self._summarise(now)
        due = self._due
        due.follow(resources.tasks.running_now)
        running = resources.tasks.running_now.values()
        if now >= self._next_sample:
            self._sample(now, running)
        pace = resources.pace
        asked = resources.wants_commit() or any(task.environment.commit_requested for task in due.touched_tasks)
        asked = asked or pace.records_left <= 0 or pace.poll_is_late or self._call_timeout.commits_at_once
        asked = asked or self._refused.wants_commit(running)
        if now < min(self._next_commit, resources.committer.commit_by) and not asked:
            return
        if self._full_disk.holds(Waiting.COMMIT) and not self._full_disk.may_try():
            return
        self._next_commit = now + self._config.commit_interval_ms / 1000
        try:
            committed = resources.committer.commit(running)
            if committed:
                self._refused.committed()
                self._committed(now)
            if (committed and resources.committer.progressed) or self._nothing_is_left(resources):
                self._call_timeout.committed(pace, running)
                self._retry.reset()
            self._commit_again = False
            self._full_disk.passed(Waiting.COMMIT)
        except DiskFullError as error:
            self._full_disk.met(error, Waiting.COMMIT)
            if self._full_disk.is_stuck:
                raise  # the stores are opened again
            return
        except CommitAgain as error:
            if pace.poll_is_late:
                raise TaskMigratedError(error.message, **error.place()) from error
            self._commit_again = True
            self._next_commit = now + self._retry.record_failure(error)
            self._repeated.log("commit is tried again", level=logging.INFO, error=str(error))
        due.committed()
        resources.purge.run(running)
        resources.watch.run(running)

    def _committed(self, began: float) -> None:
        """Counts a commit. Where it took long, records are processed for as long before the next one, for up to an
        interval: on a busy machine a commit may be due again before the last one is over."""
        ended = self._clock.monotonic()
        took_s = ended - began
        self.counters.committed(took_s)
        self._next_commit = max(self._next_commit, ended + min(took_s, self._config.commit_interval_ms / 1000))

    def _sample(self, now: float, running: Collection[Task]) -> None:
        """Samples the counters, for rates."""
        self._next_sample = now + self._sample_interval_s
        self.counters.windows.sample()
        for task in running:
            task.sample()

    def _nothing_is_left(self, resources: ThreadResources) -> bool:
        """Whether errors are over without a commit: everything was read, and there is nothing to commit."""
        tasks = resources.tasks
        return self._retry.is_failing and tasks.all_open and all(task.at_end for task in tasks.running_now.values())

    def _summarise(self, now: float) -> None:
        """Logs what was done since the last time, every ``log.summary.interval.ms``; 0 is never."""
        interval_ms = self._config.log_summary_interval_ms
        self._next_summary = now + interval_ms / 1000 if interval_ms > 0 else math.inf
        if interval_ms > 0:
            log.info("summary", extra={"thread_name": self.name, **self.counters.since_last()})
