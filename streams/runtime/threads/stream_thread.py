"""A stream thread: its life, from one set of resources to the next.

A thread works with one set of resources at a time, which are its own clients and its own membership in the group. When
another member has its tasks (it was fenced, or removed from the group), or the brokers cannot be reached in the middle
of a transaction, they are closed without a commit, and the thread continues with new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from processor_api.errors import DamagedStateError, DiskFullError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TaskId
from processor_api.texts import plain_str
from streams.config import StreamsConfig
from streams.kafka.membership.port import ShutdownRequested
from streams.kafka.ports import CommitAgain, InstanceFenced, TransactionAborted
from streams.log import in_work
from streams.metrics.registry import Metrics
from streams.outages import GoesBack, patient
from streams.platform import Platform
from streams.restore.reports import RestoreCounters
from streams.runtime.engines.state_recovery import clear_tracebacks
from streams.runtime.start.standby_tasks import StandbyCopy
from streams.runtime.tasks.task import Task
from streams.runtime.threads.loop import KeptByThread, ThreadLoop
from streams.runtime.threads.parent_only import ParentOnly
from streams.runtime.threads.task_manager import OwnedTask
from streams.runtime.threads.thread_metrics import ThreadCounters
from streams.runtime.threads.thread_resources import ThreadResources
from streams.runtime.threads.thread_state import ThreadMetadata, ThreadState, check_step
from streams.threads import StoppableThread
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.thread")


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
        self.name = name
        self.state = ThreadState.CREATED
        self.failure: Exception | None = None
        self.replaced = False
        """Whether it failed, and another thread replaces it."""
        self._kept = KeptByThread.of(name, config, platform, metrics)
        self._make_resources = make_resources
        self._callbacks = callbacks
        self._thread = StoppableThread(platform.threads, self.run, name)
        self._remain = False
        self._resources: ThreadResources | None = None
        self._loop: ThreadLoop | None = None
        self._parent_only = ParentOnly()

    @property
    def counters(self) -> ThreadCounters:
        """The counts of what the thread has done since its start; any thread may read them."""
        return self._kept.counters

    # ------------------------------------------------------------------ from outside

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, *, remain: bool = False) -> None:
        """Asks the thread to end after the current record.

        :param remain: whether a static member remains in the group, for the session timeout.
        """
        self._remain = remain
        self._thread.stopping.set()

    def replace(self, dead: StreamThread) -> None:
        """Makes this thread the member that a dead one was; to be called before the start.

        It begins after a wait that grows while such threads die without a commit.
        """
        kept, former = self._kept, dead._kept
        kept.membership, former.membership = former.membership, None
        kept.retry = former.retry
        kept.begin_after_s = kept.retry.backoff_s()

    def leave_group(self) -> None:
        """Leaves the group if this member remained in it for another thread, which does not come.

        Otherwise its tasks would wait for the session timeout.
        """
        kept, self._kept.membership = self._kept.membership, None
        if kept is not None and not self._remain:
            kept.remove_from_group()

    def join(self, timeout_s: float | None) -> bool:
        """Waits for the end of the thread; returns whether it has ended."""
        return self._thread.join(timeout_s)

    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return self._thread.is_current()

    def metadata(self) -> ThreadMetadata | None:
        """Returns what the thread does now; ``None`` before it has clients. Any thread may call it."""
        resources = self._resources
        return None if resources is None else resources.metadata(self.state)

    def is_ready(self) -> bool:
        """Whether every task of the thread runs and is given its records, or they wait for members of another topology
        to leave; any thread may call it."""
        if self.state is ThreadState.RUNNING:
            return not self.is_warming_up() and not self.stalled_partitions()
        waiting = self.state in (ThreadState.STARTING, ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED)
        return waiting and self.waits_for_another_topology()

    def stalled_partitions(self) -> int:
        """Returns how many input partitions have records that the consumer does not deliver; any thread may call it."""
        resources = self._resources
        running = () if resources is None else list(resources.tasks.running_now.values())
        return sum(queue.ends.stalled for task in running for queue in task.inputs.all())

    def outages(self) -> int:
        """Returns how often tasks went back because a service that a record needs was away; any thread may call it."""
        return self._kept.refused.outages

    def is_warming_up(self) -> bool:
        """Whether it fills copies of tasks before it takes them over; any thread may call it."""
        resources = self._resources
        return resources is not None and resources.membership.is_warming_up()

    def waits_for_another_topology(self) -> bool:
        """Whether members of the group run another topology, for which it waits; any thread may call it."""
        resources = self._resources
        return resources is not None and resources.waits_for_another_topology()

    def group_status(self) -> str | None:
        """Returns why the group gives the thread no tasks, with what to do; ``None`` if it says nothing of the kind.
        Any thread may call it."""
        resources = self._resources
        return None if resources is None else resources.membership.group_status()

    def owned_tasks(self) -> list[TaskId]:
        """Lists the ids of the tasks that the thread owns now; any thread may call it."""
        resources = self._resources
        return [] if resources is None else sorted(resources.manager.ownership.owned)

    def running_tasks(self) -> list[Task]:
        """Lists the tasks that run, to read their counters; any thread may call it."""
        resources = self._resources
        return [] if resources is None else resources.tasks.all_running()

    def list_tasks(self, partition: int | None = None) -> list[OwnedTask]:
        """Lists the tasks that the thread has to run, as they are now; any thread may call it.

        :param partition: only tasks of this number.
        """
        resources = self._resources
        return [] if resources is None else resources.manager.list_tasks(partition)

    def list_standbys(self) -> list[StandbyCopy]:
        """Lists the copies that the thread keeps of tasks of other processes, as they are now; any thread may call
        it."""
        resources = self._resources
        return [] if resources is None else resources.manager.standbys.copies()

    def standby_counters(self) -> dict[TaskId, RestoreCounters]:
        """Returns the counters of its standby tasks; any thread may call it."""
        resources = self._resources
        return {} if resources is None else resources.manager.standbys.counters()

    def restore_counters(self) -> dict[TaskId, RestoreCounters]:
        """Returns the counters of the restores of its tasks; any thread may call it."""
        resources = self._resources
        return {} if resources is None else resources.restorer.reports.counters()

    def request_shutdown(self, reason: str) -> None:
        """Asks every member of the application to shut down; to be called on this thread.

        :raises StreamsError: if the request cannot be sent.
        """
        if self._resources is None:
            raise StreamsError(
                "the shutdown request cannot be sent to the members of the application: the thread has not started"
            )
        self._resources.membership.request_shutdown(reason)

    # ------------------------------------------------------------------ from resources to resources

    def run(self) -> None:
        """Runs until it is stopped, or until an error after which new resources would not help."""
        stopping = self._thread.stopping
        if not stopping.is_set():
            self.become(ThreadState.STARTING)
            stopping.wait(self._kept.begin_after_s)
        try:
            while not stopping.is_set():
                self._run_once()
        except Exception as error:
            self._fail(error)
        except BaseException as error:  # such as SystemExit of a processor, which Python would end the thread with
            if passes(error):
                raise
            self._fail(self._of_user(error))
        self.become(ThreadState.PENDING_SHUTDOWN)
        if not self.replaced:
            self.leave_group()
        self.become(ThreadState.DEAD)

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
        task = None if resources is None or id_ is None else resources.tasks.opened.get(id_)
        place = {} if task is None else {"task": str(id_), **task.environment.cursor.place()}
        return as_error(error, "in a stream thread", **place)

    def _run_once(self) -> None:
        """Runs with new resources, until it is stopped or they can no longer be used."""
        in_work.task = None
        former, resources = self._resources, self._make_resources()
        if former is not None:
            resources.pace.drains.learn_from(former.pace.drains)
        self._resources = resources
        resources.manager.waits, resources.manager.group = self._kept.refused.waits, self.counters.group
        self.counters.group.begins()
        try:
            with self._parent_only, patient(GoesBack()):
                resources.join(self._thread.stopping)
                # This thread is the member again, so nothing is left that would have to leave for the former one.
                self._kept.membership = None
                self._loop = ThreadLoop(resources, self, self._kept)
                self._loop.run()
            self._kept.reports.end(resources.tasks.running_now.values())
            self.become(ThreadState.PENDING_SHUTDOWN)
            self._final_commit(resources)
        except InstanceFenced:
            self._kept.membership = None
            self.become(ThreadState.PENDING_SHUTDOWN)
            resources.end(clean=False, remain=True)  # to leave would remove the member that has this id now
            raise
        except TaskMigratedError as error:
            slow = self._kept.call_timeout.explain(resources.committer, resources.pace, error)
            if slow is None:
                self._kept.repeated.log(
                    "tasks migrated; joining again", level=logging.WARNING, thread_name=self.name, error=str(error)
                )
                self._end_for_new(resources, self._kept.retry.backoff_s())
            else:
                self._retreat(resources, slow)
        except RetryableError as error:
            self._retreat(
                resources, self._kept.call_timeout.explain(resources.committer, resources.pace, error) or error
            )
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
        self.become(ThreadState.PENDING_SHUTDOWN)
        replaced = self._fail(self._of_user(error))
        # What they hold would keep databases from being closed.
        clear_tracebacks(error)
        # the thread that replaces this one is the same member, and has its tasks at once
        resources.end(clean=False, remain=replaced)
        self._kept.membership = resources.membership if replaced else None

    def _retreat(self, resources: ThreadResources, error: StreamsError) -> None:
        """Closes resources whose last step may or may not have reached the broker: the next ones determine that."""
        resources.committer.leave_open()
        try:
            wait_s = self._kept.retry.wait_after(error)
        except StreamsError as lasting:
            self._die(resources, lasting)
            raise
        what = "what was not committed is rolled back, to be processed again with new clients"
        self._kept.repeated.log(what, thread_name=self.name, error=str(error))
        self._end_for_new(resources, wait_s, remain=self._remain or not self._thread.stopping.is_set())

    def _end_for_new(self, resources: ThreadResources, wait_s: float, *, remain: bool = True) -> None:
        """Closes resources without a commit, and waits before new ones are made."""
        if self.state is not ThreadState.PENDING_SHUTDOWN:  # the error may be one of the last commit
            self.become(ThreadState.PARTITIONS_REVOKED)
        resources.end(clean=False, remain=remain)
        self._kept.membership = resources.membership if remain else None
        self._thread.stopping.wait(wait_s)

    def _final_commit(self, resources: ThreadResources) -> None:
        try:
            running = resources.tasks.all_running()
            resources.committer.commit_last(running, running)
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
            resources.committer.abort()  # if it is still open: what is not on disk is of the commit before
        except RetryableError as error:
            log.warning("no last commit; its records are processed again", extra={"error": str(error)})
            resources.committer.leave_open()

    # ------------------------------------------------------------------ for the loop

    def become(self, state: ThreadState) -> None:
        """Sets the state, and reports it to the application."""
        if state is not self.state:
            check_step(self.state, state)
            self.state = state
            self._callbacks.changed(self, state)

    def is_stopping(self) -> bool:
        """Whether the thread is asked to end."""
        return self._thread.stopping.is_set()

    def is_paused(self) -> bool:
        """Whether processing is suspended now."""
        return self._callbacks.is_paused()

    def check_process(self) -> None:
        """Ends the thread in a process that was forked from its own."""
        self._parent_only.check()
