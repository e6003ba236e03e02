"""The state of a whole application: that of all of its workers, with their totals, and the workers that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from streams.observing.status import ClosedTasksStatus, DropStatus, TaskStatus, WorkerStatus, summed


@dataclass(frozen=True, kw_only=True)
class MissingWorker:
    """A worker that the group has, and that did not respond. Its figures are in no total."""

    worker: str
    """Its address, such as ``10.1.2.3:8080``; its client id if it tells no address, or another worker has it."""
    reason: str

    @property
    def text(self) -> str:
        """The worker and the reason in one sentence."""
        return f"the figures of worker {self.worker} are missing: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The totals of some workers. Records are counted since their tasks were opened."""

    workers: int = 0
    ready: int = 0
    """The workers on which each assigned task runs."""
    tasks: int = 0
    restoring: int = 0
    """The tasks that restore their stores."""
    restore_remaining: int = 0
    """Offsets of changelogs that are still to be read."""
    processed: int = 0
    rate: float = 0.0
    """Processed records per second."""
    lag: int = 0
    """The lag of the tasks whose lag is known."""
    unknown_lags: int = 0
    """The tasks whose lag is not known."""
    dropped: int = 0
    """Dropped records, with those of global stores: each worker reads and drops these records itself."""
    dead_letters: int = 0

    def plus(self, other: Totals) -> Totals:
        """Returns the totals of the workers of both."""
        return Totals(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class ApplicationStatus:
    """Describes an application: all of its workers, or those that one look has reached."""

    application_id: str
    at_ms: int
    """When the latest part of it was made, in ms since 1970."""
    ready: bool
    """Whether every worker has responded and is ready."""
    totals: Totals
    drops: tuple[DropStatus, ...]
    """Records without a result by node and reason, summed over all workers."""
    missing: tuple[MissingWorker, ...]
    workers: tuple[WorkerStatus, ...]

    @property
    def all_tasks(self) -> tuple[TaskStatus, ...]:
        """The tasks of all workers, and the fillings of their global stores."""
        return tuple(task for worker in self.workers for task in worker.all_tasks)


def application_status(
    application_id: str, workers: Iterable[WorkerStatus], missing: Iterable[MissingWorker] = ()
) -> ApplicationStatus:
    """Returns the status of an application, merged from that of its workers.

    A worker that was asked by two ways counts once, by its latest status; it is not missing then.
    """
    found: dict[tuple[str, str, int], WorkerStatus] = {}
    for worker in workers:
        key = worker.client_id, worker.host, worker.pid
        if key not in found or found[key].at_ms < worker.at_ms:
            found[key] = worker
    known = {name for worker in found.values() for name in (worker.client_id, address_of(worker))}
    absent = {one.worker: one for one in missing if one.worker not in known}
    merged = tuple(sorted(found.values(), key=_order))
    return ApplicationStatus(
        application_id=application_id,
        at_ms=max((one.at_ms for one in merged), default=0),
        ready=bool(merged) and not absent and all(one.ready for one in merged),
        totals=totals_of(merged),
        drops=drops_of(chain.from_iterable((*one.all_tasks, one.closed_tasks) for one in merged)),
        missing=tuple(absent[name] for name in sorted(absent)),
        workers=merged,
    )


def _order(worker: WorkerStatus) -> tuple[object, ...]:
    """Returns the place of a worker among others: those behind one port by their numbers."""
    port, _, number = (address_of(worker) or "").partition("/")
    return port, int(number) if number.isdecimal() else -1, worker.host, worker.pid, worker.client_id


def address_of(worker: WorkerStatus) -> str | None:
    """Returns the address of a worker as the group has it, such as ``10.1.2.3:8080/2``; ``None`` without an HTTP
    port."""
    if worker.endpoint is None:
        return None
    address, _, number = worker.endpoint.partition("://")[2].partition("/workers/")
    return f"{address}/{number}" if number else address


def totals_of(workers: Iterable[WorkerStatus]) -> Totals:
    """Returns the totals of some workers."""
    total = Totals()
    for worker in workers:
        total = total.plus(_of_worker(worker))
    return total


def _of_worker(worker: WorkerStatus) -> Totals:
    lags = [task.lag for task in worker.tasks]
    return Totals(
        workers=1,
        ready=int(worker.ready),
        tasks=len(worker.tasks),
        restoring=sum(task.state == "RESTORING" for task in worker.tasks),
        restore_remaining=sum(store.restore_remaining for task in worker.tasks for store in task.stores),
        processed=sum(task.processed for task in worker.tasks),
        rate=sum(task.rate for task in worker.tasks),
        lag=sum(lag for lag in lags if lag is not None),
        unknown_lags=sum(lag is None for lag in lags),
        dropped=sum(task.dropped for task in worker.all_tasks) + worker.closed_tasks.dropped,
        dead_letters=sum(task.dead_letters for task in worker.all_tasks) + worker.closed_tasks.dead_letters,
    )


def drops_of(tasks: Iterable[TaskStatus | ClosedTasksStatus]) -> tuple[DropStatus, ...]:
    """Returns the records without a result of some tasks, summed by node and reason."""
    return summed(drop for task in tasks for drop in task.drops)


def as_one_worker(workers: Sequence[WorkerStatus]) -> WorkerStatus:
    """Returns one status with the threads and tasks of several workers. All else is of the first.

    The filling of global stores is that of the worker that has dropped most in it: each worker reads the same records.
    """
    fillings = [one.global_task for one in workers if one.global_task is not None]
    return replace(
        workers[0],
        at_ms=max(one.at_ms for one in workers),
        threads=tuple(thread for one in workers for thread in one.threads),
        tasks=tuple(task for one in workers for task in one.tasks),
        standbys=tuple(copy for one in workers for copy in one.standbys),
        global_task=max(fillings, key=lambda one: one.dropped, default=None),
    )
