"""The view of an application's workers as titled tables, which a terminal draws and a pipe gets as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from processor_api.forms.times import short_iso
from streams.cli.cluster.workers import Seen
from streams.cli.output.terminal import counted, size_text
from streams.observing.application import application_status, drops_of, totals_of
from streams.observing.diagnosis import why_application_is_silent
from streams.observing.status import BrokerStatus, DropStatus, TaskStatus, WorkerStatus


@dataclass(frozen=True)
class TaskRow:
    """Holds a task with its worker and its rate."""

    worker: WorkerStatus
    task: TaskStatus
    rate: float

    @property
    def is_global(self) -> bool:
        """Whether it is what fills the global stores, which is none of the tasks."""
        return self.task is self.worker.global_task

    @property
    def behind_ms(self) -> int | None:
        """The time by which its stream time is behind the clock of its worker."""
        time = self.task.stream_time_ms
        return None if time is None else max(0, self.worker.at_ms - time)

    @property
    def size(self) -> int:
        """Bytes of its stores, as far as known."""
        return sum(store.size or 0 for store in self.task.stores)

    @property
    def next_close_ms(self) -> int | None:
        """The stream time at which the next result that is held back goes out."""
        return min((one.next_ms for one in self.task.held if one.next_ms is not None), default=None)

    @property
    def held(self) -> int:
        """Results that are held back, as far as known."""
        return sum(one.count or 0 for one in self.task.held)


def rows(now: Seen, before: Seen | None) -> list[TaskRow]:
    """Returns a row for each task of all workers, and for what fills the global stores of each.

    :param before: an earlier look, which rates are computed from; without it they are those of the workers' metrics.
    """
    earlier = {} if before is None else dict(_counts(before))
    return [
        TaskRow(worker, task, _rate(worker, task, earlier.get((worker.client_id, task.id))))
        for worker in now.workers
        for task in worker.all_tasks
    ]


def _counts(seen: Seen) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
    for worker in seen.workers:
        for task in worker.all_tasks:
            yield (worker.client_id, task.id), (worker.at_ms, task.processed)


def _rate(worker: WorkerStatus, task: TaskStatus, before: tuple[int, int] | None) -> float:
    if before is None or worker.at_ms <= before[0] or task.processed < before[1]:  # it was opened again
        return task.rate
    return (task.processed - before[1]) * 1000 / (worker.at_ms - before[0])


SORTS: Mapping[str, Callable[[TaskRow], object]] = {
    "task": lambda row: (row.task.number, row.worker.client_id),
    "rate": lambda row: -row.rate,
    "lag": lambda row: -(row.task.lag if row.task.lag is not None else -1),
    "drops": lambda row: -row.task.dropped,
    "held": lambda row: -row.held,
    "size": lambda row: -row.size,
}
"""The orders of tasks by name, with the key of each."""


MOST_REASONS = 4


@dataclass(frozen=True)
class Choice:
    """Holds what a person has chosen to see."""

    sort: str = "task"
    selected: int = 0
    opened: tuple[str, str] | None = None
    """Worker and task of the task that is shown in full."""

    def after(self, key: str, tasks: Sequence[TaskRow]) -> Choice:
        """Returns the choice after a key: arrows and ``j``, ``k`` move, ``enter`` opens, ``esc`` goes back, the first
        letter of a column sorts by it."""
        last = max(0, len(tasks) - 1)
        if key in ("down", "j"):
            return replace(self, selected=min(last, self.selected + 1))
        if key in ("up", "k"):
            return replace(self, selected=max(0, self.selected - 1))
        if key == "enter" and tasks:
            row = tasks[min(last, self.selected)]
            return replace(self, opened=(row.worker.client_id, row.task.id))
        if key in ("esc", "backspace", "left"):
            return replace(self, opened=None)
        for name in SORTS:
            if key == SORT_KEYS[name]:
                return replace(self, sort=name, selected=0)
        return self


SORT_KEYS = {"task": "t", "rate": "r", "lag": "l", "drops": "d", "held": "h", "size": "s"}


@dataclass(frozen=True)
class Section:
    """Holds one table of the view: its title, columns and rows."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    selected: int | None = None


@dataclass(frozen=True)
class View:
    """Holds everything that is shown: first lines, why nothing comes out, and tables."""

    lines: tuple[str, ...]
    reasons: tuple[str, ...]
    sections: tuple[Section, ...]
    tasks: tuple[TaskRow, ...]
    """The tasks in the order in which they are shown."""


def view_of(application_id: str, now: Seen, before: Seen | None, choice: Choice) -> View:
    """Returns the view of a look at the workers.

    :param before: the look before, for rates.
    """
    tasks = sorted(rows(now, before), key=SORTS[choice.sort])  # type: ignore[arg-type]
    opened = next((row for row in tasks if (row.worker.client_id, row.task.id) == choice.opened), None)
    if opened is not None:
        sections = _of_task(opened)
    else:
        sections = [
            _workers(now.workers, tasks),
            _standbys(now.workers),
            _snapshots(now.workers),
            _dropped(drops_of([*(row.task for row in tasks), *(one.closed_tasks for one in now.workers)])),
            _tasks(tasks, min(choice.selected, max(0, len(tasks) - 1))),
            _brokers(now.workers),
        ]
    return View(
        (_summary(application_id, now, tasks),),
        (*now.problems, *why(now, before)),
        tuple(section for section in sections if section.rows),
        tuple(tasks),
    )


def why(now: Seen, before: Seen | None) -> list[str]:
    """Returns in words why nothing comes out, most likely first; nothing where no figure speaks for a reason."""
    if not now.workers and not now.problems:
        return [
            "you run no worker of this application on this machine: start one by `streams run`, or give the HTTP ports"
            " of other workers by --url"
        ]
    earlier = None if before is None else application_status("", before.workers)
    found = why_application_is_silent(application_status("", now.workers), earlier)
    return [f"{reason.text}. {reason.remedy}" for reason in found][:MOST_REASONS]


def _summary(application_id: str, now: Seen, tasks: Sequence[TaskRow]) -> str:
    totals = totals_of(now.workers)
    parts = [
        counted(totals.workers, "worker"),
        counted(totals.tasks, "task"),
        f"{amount(sum(row.rate for row in tasks if not row.is_global))} records/s",
        f"lag {amount(totals.lag)}" + (" and more, because some lags are not known yet" if totals.unknown_lags else ""),
        f"{counted(totals.dropped, 'record')} dropped",
    ]
    if totals.dead_letters:
        parts.append(counted(totals.dead_letters, "dead letter"))
    if totals.restoring:
        parts.append(f"{counted(totals.restoring, 'task')} with {amount(totals.restore_remaining)} records to restore")
    return f"{application_id}: {', '.join(parts)}"


def _workers(workers: Sequence[WorkerStatus], tasks: Sequence[TaskRow]) -> Section:
    found = []
    for one in workers:
        own = [row for row in tasks if row.worker is one and not row.is_global]
        state, totals = "PAUSED" if one.paused else one.state, totals_of([one])
        found.append(
            (
                one.name,
                state if one.ready or one.state != "RUNNING" else f"{state}, not ready",
                duration(None if one.started_at_ms is None else one.at_ms - one.started_at_ms),
                len(one.threads),
                len(own),
                amount(sum(row.rate for row in own)),
                amount(totals.dropped) if totals.dropped else "",
                amount(totals.dead_letters) if totals.dead_letters else "",
                _percent(max((thread.process_ratio for thread in one.threads), default=None)),
                _percent(max((thread.commit_ratio for thread in one.threads), default=None)),
                _ms(max((thread.commit_latency_ms or 0 for thread in one.threads), default=None)),
                one.group_protocol,
                one.endpoint,
                one.failure,
            )
        )
    headings = (
        "WORKER,STATE,UP,THREADS,TASKS,RECORDS/S,DROPPED,DEAD LETTERS,BUSY,COMMITTING,COMMIT,GROUP,ENDPOINT,FAILURE"
    )
    return _section("Workers", headings, found)


def _standbys(workers: Sequence[WorkerStatus]) -> Section:
    found = []
    for one in workers:
        copies = {copy.task: copy for copy in one.standbys}.values()
        if copies:
            lags = [copy.lag for copy in one.standbys]
            rate = sum(copy.rate for copy in copies)
            coming = sum(copy.warms_up for copy in copies)
            found.append((one.name, len(copies), coming, amount(sum(lags)), amount(max(lags)), amount(rate)))
    return _section("Standby tasks", "WORKER,COPIES,WARMING UP,LAG,LARGEST LAG,RECORDS/S", found)


def _snapshots(workers: Sequence[WorkerStatus]) -> Section:
    """Returns what workers have written: the age is that of the oldest last snapshot of a task."""
    found = []
    for one in workers:
        own = [task.snapshot for task in one.tasks if task.snapshot is not None]
        times = [snapshot.made_ms for snapshot in own if snapshot.made_ms is not None]
        if own:
            age = duration(max(0, one.at_ms - min(times))) if times else ""
            size = size_text(sum(snapshot.size for snapshot in own))
            failed = sum(snapshot.failures for snapshot in own)
            found.append((one.name, f"{len(times)} of {len(one.tasks)}", age, size, failed or ""))
    return _section("Snapshots", "WORKER,TASKS,AGE,SIZE,FAILED", found)


def _tasks(tasks: Sequence[TaskRow], selected: int) -> Section:
    workers = {row.worker.client_id for row in tasks}
    found = tuple(
        (
            "global" if row.is_global else row.task.id,
            row.worker.name if len(workers) > 1 else "",
            _state(row.task),
            amount(row.rate),
            amount(row.task.lag),
            _time(row.task.stream_time_ms),
            duration(row.behind_ms),
            amount(row.held) if row.task.held else "",
            _time(row.next_close_ms),
            amount(row.task.dropped),
            size_text(row.size) if row.size else "",
            _ms(row.task.latency_ms),
        )
        for row in tasks
    )
    headings = "TASK,WORKER,STATE,RECORDS/S,LAG,STREAM TIME,BEHIND,HELD,NEXT CLOSE,DROPPED,STATE SIZE,LATENCY"
    return _section("Tasks", headings, found, selected)


def _brokers(workers: Sequence[WorkerStatus]) -> Section:
    found = (
        (
            one.id if one.id >= 0 else "",
            one.address,
            worker.name if len(workers) > 1 else "",
            f"{counted(one.unreachable, 'client')} without a connection" if one.unreachable else _connected(one),
            _ms(one.latency_ms),
            _ms(one.latency_p99_ms),
            amount(one.queued),
            amount(one.unanswered),
            amount(one.disconnects),
        )
        for worker in workers
        for one in worker.brokers
    )
    headings = "BROKER,ADDRESS,WORKER,STATE,LATENCY,LATENCY 99%,QUEUED,TIMEOUTS,DISCONNECTS"
    return _section("Brokers", headings, found)


def _connected(broker: BrokerStatus) -> str:
    return "connected" if broker.connected else "idle"


def _state(task: TaskStatus) -> str:
    left, copying = sum(store.restore_remaining for store in task.stores), task.copying
    if copying is not None:
        done = f"{copying.bytes / copying.size:.0%} of {size_text(copying.size)}" if copying.size else "waits for it"
        return f"{task.state}, snapshot: {done}"
    return f"{task.state}, {amount(left)} to restore" if left else task.state


def _of_task(row: TaskRow) -> list[Section]:
    task = row.task
    return [
        _tasks([row], 0),
        _inputs(task),
        _nodes(task),
        _stores(task),
        *_snapshot(task),
        _held(task),
        _dropped(task.drops),
    ]


def _inputs(task: TaskStatus) -> Section:
    found = (
        (
            f"{one.topic}-{one.partition}",
            one.position,
            one.committed,
            one.end,
            amount(one.lag),
            amount(one.buffered),
            _time(one.stream_time_ms),
            "at its end" if one.caught_up else "",
        )
        for one in task.partitions
    )
    headings = "PARTITION,POSITION,COMMITTED,END,LAG,BUFFERED,STREAM TIME,READ"
    return _section("Inputs", headings, found)


def _nodes(task: TaskStatus) -> Section:
    drops: dict[str, int] = {}
    for drop in task.drops:
        drops[drop.node] = drops.get(drop.node, 0) + drop.count
    found = (
        (
            node.call or node.name,
            node.made_at,
            amount(node.rate),
            _percent(node.time_share),
            amount(drops.get(node.name)),
            node.name,
            node.last_error,
        )
        for node in task.nodes
    )
    return _section("Nodes", "CALL,AT,RECORDS/S,TIME,DROPPED,NODE,LAST ERROR", found)


def _stores(task: TaskStatus) -> Section:
    found = (
        (
            one.name,
            one.kind,
            one.engine,
            amount(one.entries),
            size_text(one.size),
            amount(one.uncommitted),
            f"{amount(one.restore_remaining)} to restore" if one.restoring else "",
        )
        for one in task.stores
    )
    return _section("Stores", "STORE,KIND,ENGINE,ENTRIES,SIZE,UNCOMMITTED,RESTORE", found)


def _snapshot(task: TaskStatus) -> list[Section]:
    one = task.snapshot
    if one is None:
        return []
    row = _time(one.made_ms), size_text(one.size), _ms(one.elapsed_ms), one.failures or ""
    return [_section("Snapshots", "LAST,SIZE,TOOK,FAILED", [row])]


def _held(task: TaskStatus) -> Section:
    found = (
        (
            one.call or one.node,
            one.made_at,
            one.what,
            None if one.count is None else f"at least {one.count}" if one.at_least else one.count,
            _time(one.next_ms),
            one.waits_for,
        )
        for one in task.held
    )
    return _section("Held back", "CALL,AT,WHAT,COUNT,NEXT,WAITS FOR", found)


def _dropped(drops: Iterable[DropStatus]) -> Section:
    found = (
        (one.call or one.node, one.made_at, one.text, one.count, duration(one.late_by_ms), one.setting)
        for one in sorted(drops, key=lambda one: (one.expected or not one.dropped, -one.count))
    )
    return _section("Dropped", "CALL,AT,REASON,COUNT,LATE BY,SETTING", found)


def _section(title: str, headings: str, found: Iterable[tuple[Any, ...]], selected: int | None = None) -> Section:
    """Makes a section without the columns in which no row has anything.

    :param headings: with commas between them.
    """
    cells, names = list(found), headings.split(",")
    kept = [at for at in range(len(names)) if any(row[at] not in ("", None) for row in cells)]
    return Section(
        title,
        tuple(names[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in cells),
        selected,
    )


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


def _ms(ms: float | None) -> str:
    return "" if not ms else f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"


def _time(ms: int | None) -> str:
    return "" if ms is None else short_iso(ms)


def duration(ms: int | None) -> str:
    """Returns a time of a view: ``850 ms``, ``12 s``, ``3 min``, ``5 h``, ``2 d``; empty for ``None``."""
    if ms is None:
        return ""
    for least, unit, text in ((172_800_000, 86_400_000, "d"), (7_200_000, 3_600_000, "h"), (120_000, 60_000, "min")):
        if ms >= least:
            return f"{ms // unit} {text}"
    return f"{ms / 1000:.0f} s" if ms >= 1000 else f"{ms} ms"


def amount(number: float | None) -> str:
    """Returns a number of a view with three digits: ``12.3 k``; empty for ``None``."""
    if number is None:
        return ""
    for least, prefix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= least:
            return f"{number / (1e3 if prefix == 'k' else least):.3g} {prefix}"
    return f"{number:.3g}" if number != int(number) else f"{int(number)}"
