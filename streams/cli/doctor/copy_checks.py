"""The checks of `streams doctor` on the copies of tasks in a group that runs: standby copies and warm-ups.

The group says who has which copy, and in classic groups each member how near its copies are, in steps. Workers of this
machine say it by the offset. Whether a copy comes nearer is looked at only where one is not near yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from processor_api.clock import Clock
from processor_api.task_id import TaskId
from streams.cli.cluster.groups import MemberTasks
from streams.cli.cluster.workers import Look, Seen
from streams.cli.output.findings import Finding, ok, warn
from streams.kafka.membership.group_picture import place_of
from streams.observing.status import StandbyStatus

WHAT = "copies"
LOOK_S = 5.0
"""Time between two looks at copies that are not near."""
NAMED = 8
"""Tasks that a line names at most."""


@dataclass(frozen=True, kw_only=True)
class WantedCopies:
    """The copies that an application asks for.

    :param replicas: ``num.standby.replicas``; the brokers have a setting of their own where they place tasks.
    :param logged: the subtopologies whose tasks have state to copy; ``None`` if no topology is given.
    :param acceptable_lag: ``acceptable.recovery.lag``, below which a copy is near.
    """

    replicas: int
    logged: frozenset[int] | None
    acceptable_lag: int


def copy_findings(
    read_members: Callable[[], Sequence[MemberTasks]], wanted: WantedCopies, look: Look, clock: Clock
) -> Iterable[Finding]:
    """Checks the copies of tasks that the members of a group have; there is no finding where none are and none are
    wanted.

    :param read_members: asks for the members of the group.
    :param look: asks the workers of this machine, which say how far their copies are.
    :raises StreamsError: if the group cannot be described.
    """
    members = read_members()
    for one in members:
        if one.copies or one.fills:
            yield ok(WHAT, _member_text(one))
    if wanted.logged is not None:
        yield from _too_few(members, wanted, wanted.logged)
    yield from _progress(read_members, members, wanted.acceptable_lag, look, clock)


def _member_text(one: MemberTasks) -> str:
    """Returns who has which copies, with what those may lack that are not near."""
    texts = [f"{task} (lacks up to {lag} offsets)" if lag else str(task) for task, lag in one.copies.items()]
    name = f"{one.process} thread {one.thread}" if one.thread else one.process
    if one.fills:
        return f"{name} fills warm-up replicas before it takes tasks with state: {_some(texts) or 'none is open yet'}"
    return f"{name} has replicas of {_some(texts)}"


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more


# ---------------------------------------------------------------------- how many there are


def _too_few(members: Sequence[MemberTasks], wanted: WantedCopies, logged: frozenset[int]) -> Iterable[Finding]:
    owned = [task for one in members for task in one.tasks if task.subtopology in logged]
    if not owned:
        return
    has = Counter(task for one in members if not one.fills for task in one.copies)
    if any(one.info.tasks is not None for one in members):
        replicas, setting = max(has.values(), default=0), "streams.num.standby.replicas of the group is"
        if wanted.replicas and not replicas:
            yield warn(
                WHAT,
                f"num.standby.replicas is {wanted.replicas}, which has no effect because the brokers assign the tasks,"
                " and no standby replica exists: set streams.num.standby.replicas of the group",
            )
    else:
        replicas, setting = wanted.replicas, "num.standby.replicas is"
        directories = len({place_of(one.info).directory for one in members})
        if replicas >= directories:
            yield warn(
                WHAT,
                f"{setting} {replicas}, and the workers of the group have {directories} state"
                f" director{'y' if directories == 1 else 'ies'}: a task can have at most {directories - 1}, because a"
                " replica and its task need different directories. Start a worker on another machine, or with another"
                " state.dir",
            )
            replicas = directories - 1
        if any(map(_may_be_silent, members)):
            return
    lacking = [f"{task} ({has[task]})" for task in sorted(owned) if has[task] < replicas]
    if lacking:
        yield warn(
            WHAT,
            f"{setting} {replicas} or more, and these tasks have fewer replicas: {_some(lacking)}. New replicas are"
            " reported some seconds after the group has changed; if they do not appear, the logs of the workers have"
            " the reason",
        )


def _may_be_silent(one: MemberTasks) -> bool:
    """Whether a member may have copies that it does not report: it has no slot for that, but the one of the plan."""
    return not one.copies and not one.fills and len(one.tasks) <= 1


# ---------------------------------------------------------------------- whether they come nearer


class _CopiedStore(NamedTuple):
    """The copy of a store in a worker of this machine."""

    worker: str
    task: str
    store: str


def _progress(
    read_members: Callable[[], Sequence[MemberTasks]],
    members: Sequence[MemberTasks],
    acceptable: int,
    look: Look,
    clock: Clock,
) -> Iterable[Finding]:
    """Looks for workers that are paused, and twice at the copies that are not near."""
    seen = look()
    keep = {_worker(one) for one in members if one.copies or one.fills}
    paused = {worker.client_id for worker in seen.workers if worker.paused}
    for worker in sorted(paused & keep):
        yield warn(WHAT, f"{worker} is paused, so its replicas are not filled: resume it")
    far = {place: one for place, one in _copies(seen).items() if one.lag > acceptable and place.worker not in paused}
    remote = _reported(members, seen)
    if not far and not remote:
        return
    clock.wait(LOOK_S)
    seen = look()
    copies = _copies(seen)
    for place, before in far.items():
        now = copies.get(place)
        if now is not None and now.lag > acceptable:
            yield _judged(place, before, now, acceptable)
    for (process, task), lag in _reported(read_members(), seen).items() if remote else ():
        if lag > remote.get((process, task), lag):
            text = f"the replica of task {task} in {process} lags up to {lag} offsets, and does not catch up"
            yield warn(WHAT, f"{text} in {LOOK_S:.0f} s: {_TOO_SLOW}")


_TOO_SLOW = (
    "records are written faster than it applies them; a thread with records to process uses a tenth of its time for"
    " its replicas, so add threads or workers"
)


def _copies(seen: Seen) -> dict[_CopiedStore, StandbyStatus]:
    return {
        _CopiedStore(worker.client_id, one.task, one.store): one for worker in seen.workers for one in worker.standbys
    }


def _worker(one: MemberTasks) -> str:
    """Returns the client id of the worker, without the tags and the address that a member adds."""
    return re.split("[#@]", one.process)[0]


def _reported(members: Sequence[MemberTasks], seen: Seen) -> dict[tuple[str, TaskId], int]:
    """Returns what copies lack that are not near, by the reports of members that are not on this machine."""
    here = {worker.client_id for worker in seen.workers}
    away = [one for one in members if _worker(one) not in here]
    return {(one.process, task): lag for one in away for task, lag in one.copies.items() if lag}


def _judged(place: _CopiedStore, before: StandbyStatus, now: StandbyStatus, acceptable: int) -> Finding:
    """Judges a copy that is not near by two looks."""
    kind = "warm-up" if now.warms_up else "copy"
    name = (
        f"the {kind} of task {place.task} in {place.worker} lags {now.lag} offsets behind the changelog of store"
        f" {place.store!r}"
    )
    if now.position <= before.position:
        return warn(
            WHAT,
            f"{name}, and applied none in {LOOK_S:.0f} s: check the log of its worker for standby tasks, brokers and"
            " the disk",
        )
    if now.lag >= before.lag:
        return warn(WHAT, f"{name}, {now.lag - before.lag} more than {LOOK_S:.0f} s before: {_TOO_SLOW}")
    pace = (before.lag - now.lag) / LOOK_S
    return ok(WHAT, f"{name}, {pace:.0f} fewer each second: caught up in about {(now.lag - acceptable) / pace:.0f} s")
