"""The start of tasks: all that happens from the assignment of a task until its stores are complete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import NamedTuple

from processor_api.task_id import TaskId
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.snapshots.snapshot_starts import SnapshotStarts
from streams.runtime.start.orphaned_transactions import OrphanedTransactions
from streams.runtime.start.standby_tasks import StandbyTasks
from streams.runtime.start.start_offsets import StartOffsets, Starts
from streams.runtime.start.stored_schemas import SchemaChecks
from streams.runtime.start.task_opener import TaskOpener
from streams.runtime.start.task_restores import TaskRestores
from streams.runtime.tasks.task import Task, TaskState


class StartPosition(NamedTuple):
    """Says where a task whose stores are complete begins."""

    inputs: Starts
    """The start of each input partition."""
    changelog_ends: Mapping[str, int]
    """Where the changelog of each store ended when its restore began."""


class TaskStarts:
    """Takes the tasks of a stream thread from assigned to restored, advancing all tasks that can continue.

    :param opener: takes the lock of a task's directory, and opens its engines.
    :param orphans: ends transactions that hide records of changelogs; ``None`` without exactly-once.
    :param offsets: finds where the inputs start, and refuses a task whose offsets, topics and stores do not belong
        together.
    :param snapshots: starts tasks without state from snapshots.
    :param restores: finds what the stores lack, and has it restored.
    :param standbys: the copies that the thread keeps of tasks of other processes.
    :param schemas: refuses a task whose stores have rows that its version cannot read.
    """

    def __init__(
        self,
        opener: TaskOpener,
        orphans: OrphanedTransactions | None,
        offsets: StartOffsets,
        snapshots: SnapshotStarts,
        restores: TaskRestores,
        standbys: StandbyTasks,
        schemas: SchemaChecks,
    ) -> None:
        self.standbys = standbys
        self._schemas = schemas
        self._opener = opener
        self._orphans = orphans
        self.offsets = offsets
        self.restores = restores
        self.snapshots = snapshots
        self._found: dict[TaskId, Starts] = {}

    def advance(
        self,
        plans: Mapping[int, TaskPlan],
        wanted: Collection[TaskId],
        opened: MutableMapping[TaskId, Task],
        waits: Callable[[TaskId], bool],
    ) -> None:
        """Takes the next step with each task that is wanted and not restored.

        :param opened: the tasks that are open; it adds those that it opens.
        :param waits: whether a task is not to continue yet.
        :raises StreamsError: if a task cannot start.
        :raises RetryableError: if it may later.
        """
        for id_ in set(wanted).difference(opened):
            copy = self.standbys.promote(id_)
            if copy is not None:
                opened[id_] = copy
        for task in self._opener.open(plans, wanted, opened.keys()):
            opened[task.id] = task
        self.snapshots.go_on()
        created = [
            task
            for id_, task in opened.items()
            if task.state is TaskState.CREATED and not (waits(id_) or self.snapshots.waits(id_))
        ]
        if created and self._orphans is not None:
            self._orphans.end()
        self._find(self.snapshots.ready(self.restores.readable(created)), plans)
        self.restores.take_snapshots()
        self.restores.start_truncated_over(opened, self._found)

    def _find(self, tasks: Collection[Task], plans: Mapping[int, TaskPlan]) -> None:
        """Finds where tasks start and what their stores lack."""
        if not tasks:
            return
        for task in tasks:
            # The plan may have got topics since the task was opened.
            task.plan = plans[task.id.subtopology]
        found = list(self.offsets.find(tasks))
        self._found |= {task.id: starts for task, starts in found}
        self.restores.start(self.restores.plan(found))
        for task in tasks:  # from now on a store without a job lacks nothing
            task.become(TaskState.RESTORING)

    def restored(self, opened: Mapping[TaskId, Task]) -> Iterator[Task]:
        """Yields the tasks whose stores are complete, and that do not run yet."""
        for id_, task in opened.items():
            if task.state is TaskState.RESTORING and not self.restores.pending(id_):
                yield task

    def reads_rows(self, task: Task, until: float) -> bool:
        """Returns whether it is known that this version reads the rows of a task whose stores are complete.

        :param until: the time in seconds of the clock at which to stop reading them for now.
        :raises StateError: if it does not.
        """
        return self._schemas.passed(task, self._found[task.id], until)

    def finish(self, task: Task) -> StartPosition:
        """Ends the start of a task whose stores are complete; returns where it begins."""
        return StartPosition(self._found.pop(task.id), self.restores.take_changelog_ends(task.id))

    def stop(self, id_: TaskId) -> None:
        """Gives up the start of a task: it begins again, or the task is closed."""
        self._found.pop(id_, None)
        self._schemas.stop(id_)
        self.snapshots.stop(id_)
        self.restores.stop(id_)

    def release(self, id_: TaskId) -> None:
        """Releases the lock of a task that was closed."""
        self._opener.release(id_)
