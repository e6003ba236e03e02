"""A stream thread: polls, hands records to tasks, punctuates, commits.

A life of the thread has its own clients and its own membership. When another member has taken its place (it was fenced,
or thrown out of the group), or the brokers cannot be reached in the middle of a transaction, the life ends without a
commit and the next begins with new clients.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import DamagedStateError, RetryableError, StreamsError, TaskMigratedError, UserCodeError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.passing_errors import LOST
from streams.kafka.ports import CommitAgain, InstanceFenced, TransactionAborted
from streams.kafka.shutdown_requests import ShutdownRequested
from streams.log import in_work
from streams.metrics.registry import Metrics
from streams.restore.counters import RestoreCounters
from streams.runtime.engines.state_recovery import let_go
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.tasks.retry import Trouble
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_manager import OwnedTask
from streams.runtime.threads.call_timeout import Overdue
from streams.runtime.threads.client_events import client_event, is_event
from streams.runtime.threads.metadata import ThreadMetadata
from streams.runtime.threads.thread_metrics import ThreadTotals
from streams.runtime.threads.thread_parts import Life, ThreadSettings
from streams.runtime.threads.thread_state import ThreadState, check_step
from streams.threads import SYSTEM_THREADS, Threads

__all__ = ["StreamThread", "ThreadOwner"]

log = logging.getLogger("streams.thread")

RESTORE_WAIT_S = 0.02
OPENING_WAIT_S = 0.05
PROCESS_LIMIT = 2000
SAMPLE_INTERVAL_S = 0.5


class ThreadOwner(Protocol):
    """The application, as its threads see it; called on the thread concerned."""

    def thread_changed(self, thread: StreamThread, state: ThreadState) -> None: ...

    def thread_failed(self, thread: StreamThread, error: Exception) -> bool:
        """Called once, before the thread gives back what it owns; tells whether another one takes its place."""
        ...


class StreamThread:
    """Runs on a thread of its own by :meth:`start`, or on the caller's by :meth:`run`."""

    def __init__(
        self,
        name: str,
        make_life: Callable[[], Life],
        settings: ThreadSettings,
        clock: Clock,
        owner: ThreadOwner,
        metrics: Metrics | None = None,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self.name = name
        self.state = ThreadState.CREATED
        self.failure: Exception | None = None
        self.replaced = False
        """Whether it failed, and another thread takes its place."""
        self.totals = ThreadTotals(clock.time_ms(), metrics or Metrics(clock.time_ms))
        self._make_life = make_life
        self._settings = settings
        self._clock = clock
        self._owner = owner
        self._threads = threads
        self._stopping = threads.event()
        self._stay = False
        self._thread = threads.thread(self.run, name)
        self._next_commit = 0.0
        self._commit_again = False
        self._paused: set[TopicPartition] = set()
        self._next_sample = 0.0
        self._next_summary = clock.monotonic() + settings.log_summary_interval_ms / 1000
        self._life: Life | None = None
        self._kept_place: Life | None = None
        """The last life, if it has ended and kept the place in the group for one that has not joined yet."""
        backoff = settings.retry_backoff_ms, settings.retry_backoff_max_ms
        self._trouble = Trouble(clock, *backoff, settings.task_timeout_ms)
        self._open_at = 0.0
        self._overdue = Overdue()
        self._begin_after_s = 0.0

    # ------------------------------------------------------------------ from outside

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, stay: bool = False) -> None:
        """Asks the thread to end after the record in work. ``stay``: keeps a static member's place in the group."""
        self._stay = stay
        self._stopping.set()

    def take_place_of(self, dead: StreamThread) -> None:
        """Of a thread that died, in the group, after a wait that grows while they die without a commit: to be called
        before the start."""
        self._kept_place, dead._kept_place = dead._kept_place, None
        self._trouble, self._begin_after_s = dead._trouble, dead._trouble.backoff_s()

    def give_up_place(self) -> None:
        """Leaves the group if the place there was kept for somebody who does not come: its tasks would wait for the
        session timeout."""
        kept, self._kept_place = self._kept_place, None
        if kept is not None and not self._stay:
            kept.membership.give_up_place()

    def join(self, timeout_s: float | None) -> bool:
        """Waits for the end; tells whether it came."""
        if self._thread.ident is not None and not self.is_current():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return self._threads.current() is self._thread

    def metadata(self) -> ThreadMetadata | None:
        """What the thread does, as of now; ``None`` before it has clients. Any thread may ask."""
        life = self._life
        return None if life is None else life.metadata(self.state)

    def owned_tasks(self) -> list[TaskId]:
        """The tasks of this thread, as of now; any thread may ask."""
        life = self._life
        return [] if life is None else sorted(life.tasks.owned)

    def running_tasks(self) -> list[Task]:
        """Its tasks that are open, to read their counters; any thread may ask."""
        life = self._life
        return [] if life is None else life.tasks.all_running()

    def look(self) -> list[OwnedTask]:
        """What this thread has to run, as of now; any thread may ask."""
        life = self._life
        return [] if life is None else life.tasks.look()

    def restore_counters(self) -> dict[TaskId, RestoreCounters]:
        """What was restored of its tasks; any thread may ask."""
        life = self._life
        return {} if life is None else life.restorer.counters()

    def request_shutdown(self, reason: str) -> None:
        """Asks every member of the application to shut down; to be called on this thread.

        :raises StreamsError: if they cannot be told.
        """
        if self._life is None:
            raise StreamsError("the members of the application cannot be asked to shut down: the thread has not begun")
        self._life.membership.request_shutdown(reason)

    # ------------------------------------------------------------------ lives

    def run(self) -> None:
        """Lives until stopped or until an error that another life would not mend."""
        if not self._stopping.is_set():
            self._become(ThreadState.STARTING)
            self._stopping.wait(self._begin_after_s)
        try:
            while not self._stopping.is_set():
                self._live()
        except Exception as error:
            self._fail(error)
        except BaseException as error:  # such as SystemExit of a processor, which Python would end the thread with
            self._fail(_of_user(error))
        self._become(ThreadState.PENDING_SHUTDOWN)
        if not self.replaced:
            self.give_up_place()
        self._become(ThreadState.DEAD)

    def _fail(self, error: Exception) -> bool:
        """Tells the application, once; whether another thread takes this one's place."""
        if self.failure is None:
            self.failure = error
            asked = isinstance(error, ShutdownRequested)  # then nothing is wrong here
            log.error(
                "thread dies", extra={"thread_name": self.name, "error": str(error)}, exc_info=None if asked else error
            )
            self.replaced = self._owner.thread_failed(self, error)
        return self.replaced

    def _live(self) -> None:
        in_work.task = None
        former, life = self._life, self._make_life()
        if former is not None:
            life.pace.learn_from(former.pace)
        self._life = life
        try:
            life.join(self._stopping)
            self._kept_place = None
            self._loop(life)
            self._become(ThreadState.PENDING_SHUTDOWN)
            self._final_commit(life)
        except InstanceFenced:
            self._kept_place = None
            self._become(ThreadState.PENDING_SHUTDOWN)
            life.end(clean=False, stay=True)  # leaving would throw out the one that has the place now
            raise
        except TaskMigratedError as error:
            late = self._overdue.of(life, error)
            if late is None:
                log.warning("tasks migrated; joining anew", extra={"thread_name": self.name, "error": str(error)})
                self._begin_anew(life, self._trouble.backoff_s())
            else:
                self._retreat(life, late)
        except RetryableError as error:
            self._retreat(life, self._overdue.of(life, error) or error)
        except DamagedStateError as error:
            if (refusal := life.refuses_rebuild(error)) is not None:
                self._die(life, refusal)
                raise refusal from error.__cause__
            self._begin_anew(life, 0.0)
            life.rebuild(error)
        except BaseException as error:
            self._die(life, error)
            raise
        else:
            life.end(clean=True, stay=self._stay)

    def _die(self, life: Life, error: BaseException) -> None:
        self._become(ThreadState.PENDING_SHUTDOWN)
        stay = self._fail(error if isinstance(error, Exception) else _of_user(error))
        let_go(error)
        life.end(clean=False, stay=stay)  # who takes its place is the same member, and has its tasks at once
        self._kept_place = life if stay else None

    def _wait_after(self, error: StreamsError) -> float:
        """How long to wait before the next try, in seconds.

        :raises StreamsError: if there is none.
        """
        if not isinstance(error, RetryableError):
            raise error
        return self._trouble.met(error)

    def _retreat(self, life: Life, error: StreamsError) -> None:
        """Ends a life whose last step may or may not have reached the broker: the next one finds out."""
        life.committer.leave_open()
        try:
            wait_s = self._wait_after(error)
        except StreamsError as lasting:
            self._die(life, lasting)
            raise
        what = "what was not committed is given up, to be processed again with new clients"
        log.warning(what, extra={"thread_name": self.name, "error": str(error)})
        self._begin_anew(life, wait_s, stay=self._stay or not self._stopping.is_set())

    def _begin_anew(self, life: Life, wait_s: float, *, stay: bool = True) -> None:
        if self.state is not ThreadState.PENDING_SHUTDOWN:  # it may be the last commit that found out
            self._become(ThreadState.PARTITIONS_REVOKED)
        life.end(clean=False, stay=stay)
        self._kept_place = life if stay else None
        self._stopping.wait(wait_s)

    def _final_commit(self, life: Life) -> None:
        try:
            life.committer.commit(life.tasks.all_running())
        except CommitAgain as error:
            log.warning("the last commit met a rebalance; its records are processed again", extra={"error": str(error)})
        except TransactionAborted as error:
            log.warning("the last transaction was aborted", extra={"error": str(error)})
            life.committer.abort()
        except RetryableError as error:
            log.warning("no last commit; its records are processed again", extra={"error": str(error)})
            life.committer.leave_open()

    def _become(self, state: ThreadState) -> None:
        if state is not self.state:
            check_step(self.state, state)
            self.state = state
            self._owner.thread_changed(self, state)

    # ------------------------------------------------------------------ the loop

    def _loop(self, life: Life) -> None:
        self._next_commit = self._clock.monotonic() + self._settings.commit_interval_ms / 1000
        self._paused.clear()
        self._commit_again = False
        busy = False
        totals, now = self.totals, self._clock.monotonic
        while not self._stopping.is_set():
            try:
                begin = now()
                self._poll(life, busy)
                totals.polled(now() - begin)
                life.membership.poll()
                life.refresh()
                self._open(life)
                begin, before = now(), totals.processed
                busy = self._process(life)
                totals.worked(now() - begin, totals.processed - before)
                self._maybe_commit(life)
            except TransactionAborted as aborted:
                error = self._overdue.of(life, aborted) or aborted
                log.warning("transaction aborted; tasks go back to their last commit", extra={"error": str(error)})
                self._open_at = self._clock.monotonic() + self._wait_after(error)
                life.committer.abort()
                life.tasks.rebuild()
                life.lost_offsets.clear()
                self._paused.clear()
                busy = False

    def _poll(self, life: Life, busy: bool) -> None:
        self._paused.difference_update(life.lost_offsets.find(life.tasks.running))
        consumer, limit = life.consumer, self._settings.max_poll_records
        messages: Sequence[Any] = consumer.consume(limit, 0.0)
        if not messages:
            if busy:
                return
            first = consumer.poll(self._wait_s(life))
            if first is None:
                return
            messages = (first, *consumer.consume(limit, 0.0))
        self._route(life, messages)

    def _wait_s(self, life: Life) -> float:
        paused = self._settings.paused
        if life.restorer.active and not paused:
            return 0.0
        if not life.tasks.all_open:
            return OPENING_WAIT_S
        wait = self._settings.poll_ms / 1000
        if self._commit_again or any(task.commit_needed for task in life.tasks.all_running()):
            wait = min(wait, max(0.0, self._next_commit - self._clock.monotonic()))
        now = self._clock.time_ms()
        for task in () if paused else life.tasks.all_running():
            wait = min(wait, max(0.0, (task.next_wall_clock_ms - now) / 1000))
        return wait

    def _route(self, life: Life, messages: Sequence[Any]) -> None:
        """Hands records and events on in the order in which the client gave them: the end of a partition says nothing
        of the records that came after it."""
        events = [message for message in messages if message.error() is not None]
        if not events:
            return self._take(life, messages)
        for happened, run in groupby(messages, is_event):
            if happened:
                for event in run:
                    self._event(life, event)
            else:
                self._take(life, list(run))

    def _take(self, life: Life, messages: Sequence[Any]) -> None:
        kind = type(messages[0])
        running = life.tasks.running
        for number, by_partition in groupby(messages, kind.partition):
            for topic, run in groupby(by_partition, kind.topic):
                partition = TopicPartition(topic, number)
                task = running.get(partition)
                if task is not None:
                    batch = list(run)
                    queue = task.add(partition, batch)
                    life.idling.arrived(partition)
                    waits = len(task.queues) > 1 or self._settings.paused
                    if waits or len(queue) > len(batch):
                        queue.measure(batch)
                        if self._full(life, queue, 0 if waits else len(batch)):
                            self._pausing(life, partition)
                else:
                    life.membership.take(partition, list(run))

    def _full(self, life: Life, queue: InputQueue, new: int = 0) -> bool:
        """Whether a partition buffers more than it may. A task with one partition processes what is new at once, unless
        it takes long."""
        limit = life.input_bytes_limit()
        return len(queue) - new > self._settings.buffered_records_per_partition or 0 <= limit < queue.buffered_bytes()

    def _pausing(self, life: Life, partition: TopicPartition) -> None:
        if partition not in self._paused:
            self._paused.add(partition)
            life.consumer.pause([partition])

    def _event(self, life: Life, event: Any) -> None:
        error, partition = event.error(), TopicPartition(event.topic() or "", event.partition() or 0)
        if error.code() == life.consumer.partition_eof:
            task = life.tasks.running.get(partition)
            if task is not None:
                task.queues[partition].at_end(event.offset())
            return
        if error.name() in LOST:
            return life.lost_offsets.add(partition, event.offset())
        if error.name() == "UNKNOWN_TOPIC_OR_PART" and partition in life.tasks.running:
            life.tasks.running[partition].queues[partition].caught_up = True  # nobody waits for a deleted topic
        if event.topic() and partition not in life.tasks.running and error.name() != "_FATAL":
            log.warning("cannot read", extra={"partition": str(partition), "error": error.str()})
            return
        client_event(error, partition)

    def _open(self, life: Life) -> None:
        tasks = life.tasks
        if life.revoked:
            life.revoked = False
            self._become(ThreadState.PARTITIONS_REVOKED)
        if life.restorer.active and not self._settings.paused:
            life.restorer.step(0.0 if tasks.running else RESTORE_WAIT_S)
        if not tasks.all_open:
            self._become(ThreadState.PARTITIONS_ASSIGNED)
            if self._clock.monotonic() >= self._open_at and life.membership.may_open():
                tasks.advance()
        elif tasks.looks_for_inputs:
            tasks.advance()
        if tasks.all_open and self.state is not ThreadState.RUNNING and life.assigned:
            self._become(ThreadState.PARTITIONS_ASSIGNED)
            self._become(ThreadState.RUNNING)

    def _process(self, life: Life) -> bool:
        """Processes what is buffered, for as long as nothing else is due; tells whether more could be processed."""
        busy = False
        committer, pace, overdue = life.committer, life.pace, self._overdue
        pace.begin_turn(min(self._next_commit, committer.commit_by))
        tasks = [] if self._settings.paused else overdue.turn(pace.in_turn(life.tasks.all_running()))
        for task in tasks:
            in_work.task = task.id
            limit = overdue.limit(task, min(PROCESS_LIMIT, pace.records_left))
            if task.has_records() and limit > 0:
                committer.begin()
                count = task.process(limit, life.idling)
                self.totals.processed += count
                pace.processed(count)
                busy = count == limit or busy
            if task.wall_clock_due() and not self._stopping.is_set():
                committer.begin()
                task.punctuate_wall_clock()
            if pace.ends_here():
                pace.served, busy = task.id, True
                break
        in_work.task = None
        life.collector.poll()
        if self._paused:
            self._resume(life)
        return busy

    def _resume(self, life: Life) -> None:
        running = life.tasks.running
        ready = [p for p in self._paused if p not in running or not self._full(life, running[p].queues[p])]
        life.consumer.resume([partition for partition in ready if partition in running])
        self._paused.difference_update(ready)

    def _maybe_commit(self, life: Life) -> None:
        now = self._clock.monotonic()
        if now >= self._next_summary:
            self._summarise(now)
        running = life.tasks.all_running()
        if now >= self._next_sample:
            self._sample(now, running)
        pace = life.pace
        asked = life.wants_commit() or any(task.environment.commit_requested for task in running)
        asked = asked or pace.records_left <= 0 or pace.poll_is_late or self._overdue.commits_at_once
        if now < min(self._next_commit, life.committer.commit_by) and not asked:
            return
        self._next_commit = now + self._settings.commit_interval_ms / 1000
        try:
            committed = life.committer.commit(running)
            if committed:
                self.totals.committed(self._clock.monotonic() - now)
            if (committed and life.committer.progressed) or self._nothing_is_left(life):
                self._overdue.committed(pace, running)
                self._trouble.over()
            self._commit_again = False
        except CommitAgain as error:
            if pace.poll_is_late:
                raise TaskMigratedError(error.message, **error.place()) from error
            self._commit_again = True
            self._next_commit = now + self._trouble.met(error)
            log.info("commit is tried again", extra={"error": str(error)})
        life.purge.run(running)
        life.watch.run(running)

    def _sample(self, now: float, running: Collection[Task]) -> None:
        """Keeps what the counters are now, for rates."""
        self._next_sample = now + SAMPLE_INTERVAL_S
        self.totals.windows.sample()
        for task in running:
            task.sample()

    def _nothing_is_left(self, life: Life) -> bool:
        """Whether trouble is over without a commit: everything was read, and there is nothing to commit."""
        tasks = life.tasks
        return self._trouble.lasts and tasks.all_open and all(task.at_end for task in tasks.all_running())

    def _summarise(self, now: float) -> None:
        """Every ``log.summary.interval.ms``; 0 is never."""
        interval_ms = self._settings.log_summary_interval_ms
        self._next_summary = now + interval_ms / 1000 if interval_ms > 0 else math.inf
        if interval_ms > 0:
            log.info("summary", extra={"thread_name": self.name, **self.totals.since_last()})


def _of_user(error: BaseException) -> UserCodeError:
    found = UserCodeError(
        f"{type(error).__name__} was raised in a stream thread: {error}. To end the application, ask it to close"
    )
    found.__cause__ = error
    return found
