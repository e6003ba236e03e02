"""Says in words why an application gives no output, from the status of its workers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from processor_api.forms.times import duration_text, short_iso
from streams.observing.application import ApplicationStatus, as_one_worker
from streams.observing.status import DropStatus, HeldStatus, PartitionStatus, TaskStatus, WorkerStatus, summed
from streams.runtime.processing.drops import late_in_words, node_in_words
from streams.runtime.processing.inputs import quiet_in_words

MANY = 0.5
"""The part of the records from which on they explain that nothing comes out."""


@dataclass(frozen=True, kw_only=True)
class NoOutputReason:
    """Says why nothing comes out of a worker."""

    cause: str
    """A short name, such as ``paused`` or ``held-back``."""
    text: str
    remedy: str
    """Says what to do about it, or where to look next."""


def why_no_output(status: WorkerStatus, earlier: WorkerStatus | None = None) -> list[NoOutputReason]:
    """Returns the reasons why nothing comes out of a worker, most likely first; none where nothing speaks for one.

    ::

        for reason in why_no_output(app.status()):
            print(f"{reason.text}. {reason.remedy}")

    :param earlier: the status of the same worker some seconds before: then what has happened since is looked at, and
        else all since its tasks were opened.
    """
    return _why((status,), () if earlier is None else (earlier,))


def why_application_is_silent(
    application: ApplicationStatus, earlier: ApplicationStatus | None = None
) -> list[NoOutputReason]:
    """Returns the reasons why nothing comes out of an application, as :func:`why_no_output` does for one worker.

    The tasks of all workers are looked at together. What is about some of the workers names them.
    """
    return _why(application.workers, () if earlier is None else earlier.workers)


def _why(workers: Sequence[WorkerStatus], earlier: Sequence[WorkerStatus]) -> list[NoOutputReason]:
    before = {one.client_id: one for one in earlier}
    brokers = list(dict.fromkeys(reason for one in workers for reason in _of_brokers(one, before.get(one.client_id))))
    found = {one.name: list(_of_worker(one)) for one in workers}
    own = _named(found, has_tasks=any(one.tasks for one in workers))
    first = [*own, *brokers] if own and own[0].cause in ("failed", "not-running", "paused") else [*brokers, *own]
    working = [one for one in workers if not found[one.name]]
    if not working:
        return first
    look = WorkerLook(as_one_worker(working), as_one_worker(earlier) if earlier else None)
    held, dropped = list(look.held()), list(look.dropped())
    explains = [reason for share, reason in dropped if share >= MANY]
    others = [reason for share, reason in dropped if share < MANY]
    return [*first, *look.opening(), *look.reading(), *explains, *held, *others, *look.committing()]


def _named(found: Mapping[str, Sequence[NoOutputReason]], *, has_tasks: bool) -> list[NoOutputReason]:
    """Returns the reasons of workers, each once, with the names of its workers if it is not about all of them.

    :param found: the reasons by worker.
    :param has_tasks: whether any worker has tasks, so that one without is nothing to report.
    """
    workers: dict[NoOutputReason, list[str]] = {}
    for name, reasons in found.items():
        for reason in reasons:
            if reason.cause != "no-task" or not has_tasks or len(found) == 1:
                workers.setdefault(reason, []).append(name)
    return [
        reason if len(names) == len(found) else replace(reason, text=f"{reason.text} (worker {_listed(names)})")
        for reason, names in workers.items()
    ]


def _of_brokers(status: WorkerStatus, earlier: WorkerStatus | None) -> Iterator[NoOutputReason]:
    """Yields the brokers that do not answer, as the clients of the worker see them."""
    if status.brokers_away:
        yield NoOutputReason(
            cause="broker",
            text="no broker of the cluster responds",
            remedy="Check that the cluster runs and that this machine reaches it; the worker continues when a broker"
            " responds, and its log has the time at which they were lost.",
        )
    before = {one.id: one.unanswered for one in (() if earlier is None else earlier.brokers)}
    for one in status.brokers:
        name, led = f"broker {one.id} ({one.address})", f"{one.partitions} partitions of this worker"
        new = one.unanswered - before.get(one.id, one.unanswered)
        if one.unreachable and one.id < 0:
            yield NoOutputReason(
                cause="broker",
                text=f"{_clients(one.unreachable)} of this worker cannot reach a broker: {one.address} of"
                " bootstrap.servers does not respond",
                remedy="Check that the cluster runs; the log has the time at which it was lost.",
            )
        elif one.unreachable:
            yield NoOutputReason(
                cause="broker",
                text=f"{name}, the leader of {led}, cannot be reached",
                remedy="Check that it runs, and that this machine can reach its advertised listener.",
            )
        elif new > 0:
            yield NoOutputReason(
                cause="broker",
                text=f"{name}, the leader of {led}, has not responded to {new} requests in time",
                remedy="Check its load, its disks and the network to it.",
            )


def _clients(count: int) -> str:
    """Returns a number of clients in words."""
    return f"{count} client{'' if count == 1 else 's'}"


def _of_worker(status: WorkerStatus) -> Iterator[NoOutputReason]:
    """Yields the reasons for which a worker does nothing at all."""
    if status.failure is not None or status.state == "ERROR":
        yield NoOutputReason(
            cause="failed",
            text=f"the application has failed: {status.failure or 'its log has the error'}",
            remedy="Remove the cause, and start it again.",
        )
    elif status.state not in ("RUNNING", "REBALANCING"):
        yield NoOutputReason(cause="not-running", text=f"the application is {status.state}", remedy="Start it.")
    elif status.paused:
        yield NoOutputReason(cause="paused", text="the application is paused", remedy="Call resume().")
    elif status.global_task is not None and status.global_task.state == "RESTORING":
        yield NoOutputReason(
            cause="restoring",
            text="the global stores are being filled from their topics: tasks start when they are complete",
            remedy="Wait; a store in memory is filled at each start, and a store on disk continues from its offset.",
        )
    elif any(thread.waits_for_topology for thread in status.threads) and not _running(status):
        yield NoOutputReason(
            cause="other-topology",
            text="workers of the application run another topology; this worker waits until they have left, and its log"
            " lists them",
            remedy="Stop them; if they are another application, give this one its own application.id.",
        )
    elif (said := next((one.group_status for one in status.threads if one.group_status), None)) and not status.tasks:
        text, _, remedy = said.partition(" To do: ")
        yield NoOutputReason(
            cause="group-status",
            text=f"the group does not assign tasks: {text}",
            remedy=f"{remedy[:1].upper()}{remedy[1:]}." if remedy else "Wait for the brokers.",
        )
    elif not status.tasks and status.state == "REBALANCING":
        yield NoOutputReason(
            cause="no-member",
            text="this worker is not a member of its group yet",
            remedy="Check that the broker can be reached, and wait until the other workers have given up tasks.",
        )
    elif not status.tasks:
        yield NoOutputReason(
            cause="no-task",
            text="this worker has no task: the other workers have all tasks, or the input topics do not exist",
            remedy="Check the other workers: each partition has only one task.",
        )


class WorkerLook:
    """A look at the tasks of a worker, and at what has changed since an earlier one."""

    def __init__(self, status: WorkerStatus, earlier: WorkerStatus | None) -> None:
        self._status = status
        self._running = _running(status)
        self._dropping = [*self._running, *(task for task in (status.global_task,) if task is not None)]
        """The tasks that may have dropped something: what fills the global stores too."""
        self._waiting = [task for task in status.tasks if task.state != "RUNNING"]
        self._seconds = 0.0 if earlier is None else (status.at_ms - earlier.at_ms) / 1000
        before = {task.id: task for task in (() if earlier is None else earlier.all_tasks)}
        self._before = {task.id: before[task.id] for task in status.all_tasks if _is_same(task, before.get(task.id))}
        self._processed = sum(map(self._since, self._running))

    def _since(self, task: TaskStatus) -> int:
        before = self._before.get(task.id)
        return task.processed - (0 if before is None else before.processed)

    @property
    def _lately(self) -> str:
        return f"in the last {self._seconds:.0f} s" if self._before else "since the tasks were assigned to the worker"

    # ------------------------------------------------------------------ before a task runs

    def opening(self) -> Iterator[NoOutputReason]:
        """Yields why tasks do not run."""
        restoring = [task for task in self._waiting if task.state == "RESTORING"]
        total = len(self._status.tasks)
        if restoring:
            left = sum(map(_to_restore, restoring))
            done = sum(_to_restore(before) for before in self._before.values()) - left
            seconds = round(left * self._seconds / done) if done > 0 else None
            remain = "1 record remains" if left == 1 else f"{left} records remain"
            takes = "" if seconds is None else f", for about {duration_text(seconds * 1000)}"
            yield NoOutputReason(
                cause="restoring",
                text=f"{len(restoring)} of {total} tasks restore their stores: {remain}{takes}",
                remedy="Wait; docs/high-availability.md explains how to shorten restores.",
            )
        elif self._waiting:
            yield NoOutputReason(
                cause="not-opened",
                text=f"{len(self._waiting)} of {total} tasks are not opened yet, such as {self._waiting[0].id}",
                remedy="They wait for their former owner, for a topic, or for space on the disk: see the log.",
            )

    # ------------------------------------------------------------------ records that are not read

    def reading(self) -> Iterator[NoOutputReason]:
        """Yields why no records are processed; nothing if some are."""
        parts = [part for task in self._running for part in task.partitions]
        if stalled := [part for part in parts if part.stalled]:
            yield NoOutputReason(
                cause="stalled",
                text=f"{_names(stalled)} {_have(stalled)} records, but the client does not deliver them",
                remedy="Check that their leaders can be reached; if they can, restart the worker and report it.",
            )
        hidden = [part for part in parts if part.caught_up and not part.buffered and _unread(part)]
        if hidden and not self._processed:
            yield NoOutputReason(
                cause="uncommitted",
                text=f"{_names(hidden)} {_have(hidden)} records that cannot be read: a transaction is open",
                remedy="Commit it in its producer; `streams consume --uncommitted` shows the records.",
            )
        if self._processed or not parts:
            return
        idle = [part for task in self._running for part in _awaited(task)]
        if idle:
            yield NoOutputReason(
                cause="idle",
                text=f"records wait for {_names(idle)}, which may have earlier ones (max.task.idle.ms)",
                remedy="Check why no records of it are read.",
            )
        unknown = [part for part in parts if part.position is None or part.end is None]
        empty = [part for part in parts if part not in hidden and part not in unknown and not _unread(part)]
        if unknown:
            yield NoOutputReason(
                cause="not-read",
                text=f"the end offset of {_names(unknown)} is not known yet",
                remedy="Check that the broker can be reached, and that the topic has records.",
            )
        elif len(empty) == len(parts):
            yield self._nothing_came(parts)

    def _nothing_came(self, parts: list[PartitionStatus]) -> NoOutputReason:
        if not any(part.end for part in parts):
            topics = ", ".join(sorted({part.topic for part in parts}))
            return NoOutputReason(
                cause="empty-topic",
                text=f"{topics} does not have records",
                remedy="Check that its producers write to this topic of this cluster.",
            )
        return NoOutputReason(
            cause="no-records",
            text=f"no record has arrived {self._lately}: {_names(parts)} {_have(parts)} been read to the end",
            remedy="Write records; to process older ones, use `streams reset`.",
        )

    # ------------------------------------------------------------------ records that are processed

    def dropped(self) -> Iterator[tuple[float, NoOutputReason]]:
        """Yields the records without a result by node and reason, most first, with their part of all."""
        for one in sorted(summed(self._new_drops()), key=lambda one: -one.count):
            read = self._read_beside(one)
            share = one.count / max(1, read)
            if not one.expected or share >= MANY:
                yield share, self._of_drop(one, read)

    def _new_drops(self) -> Iterator[DropStatus]:
        """Yields what each task has dropped since the earlier look."""
        for task in self._dropping:
            before = self._before.get(task.id)
            known = {(one.node, one.reason): one.count for one in (() if before is None else before.drops)}
            for one in task.drops:
                new = one.count - known.get((one.node, one.reason), 0)
                if new > 0:
                    yield replace(one, count=new)

    def _read_beside(self, one: DropStatus) -> int:
        """Returns how many records came to the tasks, or to the global stores, which dropped some."""
        filling = self._status.global_task
        if filling is None or all(one.node != node.name for node in filling.nodes):
            return self._processed
        return max(one.count, self._since(filling))  # those that a store is filled with first are not processed

    def _of_drop(self, one: DropStatus, read: int) -> NoOutputReason:
        late = ""
        if one.late_by_ms is not None:
            late = late_in_words(one.late_by_ms, one.setting)
        count = f"{one.count} of {read}" if one.count < read else f"all {one.count}"
        return NoOutputReason(
            cause=one.reason,
            text=f"{count} records have no result at {_place(one)}: {one.text}{late}",
            remedy=f"{one.remedy[:1].upper()}{one.remedy[1:]}.",
        )

    def held(self) -> Iterator[NoOutputReason]:
        """Yields the nodes whose results wait for stream time."""
        waits = [(task, one) for task in self._running for one in task.held]
        for node in dict.fromkeys(one.node for _, one in waits):
            own = [(task, one) for task, one in waits if one.node == node]
            task, first = min(own, key=lambda each: (each[1].next_ms is None, each[1].next_ms))
            until = "" if first.next_ms is None else f" until stream time {short_iso(first.next_ms)}"
            wait = "waits" if first.count == 1 and not first.at_least else "wait"
            text = f"{first.amount} of task {task.id} {wait} at {_place(first)}{until}"
            slowest = next((part for part in task.partitions if first.waits_for == _name(part)), None)
            if slowest is not None:
                text += f"; {quiet_in_words(_name(slowest), slowest.stream_time_ms, slowest.last_read_ms)}"
            others = len(own) - 1
            yield NoOutputReason(
                cause="held-back",
                text=text + (f", and in {others} other task{'' if others == 1 else 's'}" if others else ""),
                remedy="Only records advance stream time: check that this partition receives any.",
            )

    def committing(self) -> Iterator[NoOutputReason]:
        """Yields that no result is committed yet."""
        if self._processed and not any(thread.commits for thread in self._status.threads):
            yield NoOutputReason(
                cause="commit",
                text="there was no commit yet: tables and aggregations emit results at a commit",
                remedy="Wait for commit.interval.ms.",
            )


def _running(status: WorkerStatus) -> list[TaskStatus]:
    return [task for task in status.tasks if task.state == "RUNNING"]


def _is_same(task: TaskStatus, before: TaskStatus | None) -> bool:
    """Whether a task was not opened again in between, which begins its counters again."""
    return before is not None and before.processed <= task.processed and before.dropped <= task.dropped


def _to_restore(task: TaskStatus) -> int:
    return sum(store.restore_remaining for store in task.stores)


def _unread(part: PartitionStatus) -> bool:
    return part.position is not None and part.end is not None and part.position < part.end


def _awaited(task: TaskStatus) -> list[PartitionStatus]:
    """Returns the partitions without records of a task for which those of others wait."""
    empty = [part for part in task.partitions if not part.buffered]
    return empty if len(empty) < len(task.partitions) else []


def _place(one: DropStatus | HeldStatus) -> str:
    return node_in_words(one.node, one.call, one.made_at)


def _name(part: PartitionStatus) -> str:
    return f"{part.topic}-{part.partition}"


def _names(parts: Iterable[PartitionStatus]) -> str:
    return _listed([_name(part) for part in parts])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")


def _have(parts: list[PartitionStatus]) -> str:
    return "has" if len(parts) == 1 else "have"
