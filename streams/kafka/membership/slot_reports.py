"""Reports of members on the state that they have, which stand behind the version in the text of one of their slots.

Who plans exchanges learns from them which member fills copies of tasks and is to be given none of these yet, which one
has filled them and comes to take them over, and how far the copies of each are behind. A member writes its report in
the last of its slots, by their order; a report in a slot of another member is one that its former owner has left.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, unquote

from processor_api.clock import Clock
from processor_api.task_id import TaskId

OWNED, COPIED, ON_DISK = 10, 9, 8
"""How much of a task's state a member has: its owner, one with a copy that is near, one with files of it."""
WAIT_S = 1.5
"""How long the first report of a member that has come is waited for, before tasks are exchanged with it."""
BYTES_MAX = 3500
"""A report of more tasks is cut: those that are left out count as tasks whose state the member does not have."""


class Coming(enum.Enum):
    """The state of a member that joins a group whose tasks have owners."""

    FILLING = "filling"
    """Fills copies, and takes no task with state yet."""
    ARRIVING = "arriving"
    """Has joined for tasks with state. What the group gives it is none of its choice: it has the state of the tasks
    in its report, and of no others."""
    SETTLED = "settled"
    """Is as any other; its report has the lags of its copies."""


@dataclass(frozen=True)
class StateReport:
    """The report of one member.

    :param member: its lasting name.
    :param lags: the offsets that its copies lack of each task's changelogs.
    """

    member: str
    coming: Coming
    lags: Mapping[TaskId, int] = field(default_factory=dict)

    def encode(self) -> str:
        """Returns it as text."""
        head = f"{self.coming.value} {quote(self.member)} "
        found, room = [], BYTES_MAX - len(head)
        for task, lag in sorted(self.lags.items(), key=lambda one: (one[1], one[0])):
            text = f"{task}:{lag}"
            room -= len(text) + 1
            if room < 0:
                break
            found.append(text)
        return head + (",".join(found) or "-")


def report_in(text: str) -> StateReport | None:
    """Returns the report in the text of a slot; ``None`` if there is none, or one of a form that is not known here."""
    parts = text.split(" ")
    if len(parts) != 4:
        return None
    try:
        pairs = [] if parts[3] == "-" else [one.split(":") for one in parts[3].split(",")]
        lags = {TaskId.parse(task): int(lag) for task, lag in pairs}
        return StateReport(unquote(parts[2]), Coming(parts[1]), lags)
    except ValueError:
        return None


class Arrival(Protocol):
    """A member's own way into its group, as its slots see it."""

    def report(self) -> StateReport | None:
        """Returns what it reports now."""
        ...

    def former_owners(self) -> Mapping[TaskId, str]:
        """Returns the owners of tasks before it came, by their lasting names, if it has just come."""
        ...

    def held_back(self, tasks: Collection[TaskId]) -> frozenset[TaskId]:
        """Returns those of the tasks of its slots that stay closed for now, since members will exchange them."""
        ...

    def plan_followed(self) -> None:
        """Takes that the members have exchanged tasks."""
        ...


class ReportedState:
    """Knows what the members of a group have reported, for the one that plans exchanges.

    :param logged: the subtopologies with state; without any, nothing is read.
    :param own: the way of this member into the group.
    """

    def __init__(self, clock: Clock, logged: Collection[int], own: Arrival | None) -> None:
        self._clock = clock
        self._logged = frozenset(logged)
        self._own = own
        self._reports: dict[str, StateReport] = {}
        self._seen: dict[str, float] = {}
        """When each member was first seen with slots."""

    def read(
        self,
        owned: Mapping[str, Collection[TaskId]],
        texts: Callable[[], Mapping[TaskId, str]],
        *,
        is_new: bool,
    ) -> bool:
        """Reads the reports; returns whether one that has come a moment ago has still to report.

        :param owned: the slots of each member.
        :param is_new: whether the group is seen for the first time: then none has come later than the others.
        """
        if not self._logged:
            return False
        found, now = texts(), self._clock.monotonic()
        own = None if self._own is None else self._own.report()
        reports = [report_in(found.get(max(slots), "")) for slots in owned.values() if slots]
        self._reports = {one.member: one for one in (*reports, own) if one is not None and one.member in owned}
        names = [name for name, slots in owned.items() if slots]
        self._seen = {name: self._seen.get(name, -WAIT_S if is_new else now) for name in names}
        return any(now < self._seen[name] + WAIT_S for name in names if name not in self._reports)

    def former_owners(self) -> Mapping[TaskId, str]:
        """Returns the owners of tasks before this member came, if it has just come."""
        return {} if self._own is None else self._own.former_owners()

    def closed(self) -> dict[str, frozenset[int]]:
        """Returns the subtopologies of which a member is to be given no tasks yet."""
        return {name: self._logged for name, one in self._reports.items() if one.coming is Coming.FILLING}

    def having(
        self,
        held: Mapping[str, Collection[TaskId]],
        before: Mapping[TaskId, str],
        known: Mapping[TaskId, Mapping[str, int]],
    ) -> Mapping[TaskId, Mapping[str, int]]:
        """Returns the members that have the state of each task, with a number that is greater the more they have.

        :param held: the tasks of each member now.
        :param before: the owner of each before the group changed, which has its state.
        :param known: what is known without reports.
        """
        if not self._reports:
            return known
        found = {task: dict(names) for task, names in known.items()}
        arriving = {name for name, report in self._reports.items() if report.coming is Coming.ARRIVING}
        if arriving:
            for owner, tasks in held.items():
                for task in tasks if owner not in arriving else ():
                    found.setdefault(task, {owner: OWNED})  # where nothing else is known, it has what it runs
        for name, report in self._reports.items():
            if report.coming is Coming.ARRIVING:
                self._take_arrival(found, held, before, report)
            for task, lag in report.lags.items():
                if found.get(task, {}).get(name) == COPIED:
                    found[task][name] = _amount(lag)
        return found

    @staticmethod
    def _take_arrival(
        found: dict[TaskId, dict[str, int]],
        held: Mapping[str, Collection[TaskId]],
        before: Mapping[TaskId, str],
        report: StateReport,
    ) -> None:
        """Takes over what a member has that has just come: the state of the tasks in its report, and of no other."""
        name = report.member
        for names in found.values():
            names.pop(name, None)
        for task, lag in report.lags.items():
            found.setdefault(task, {})[name] = _amount(lag)
        for task in held[name]:
            owner = before.get(task, name)
            if owner != name and owner in held:
                found.setdefault(task, {})[owner] = COPIED


def _amount(lag: int) -> int:
    """Returns how much of a task's state a replica has that lags this many offsets; none if it is negligible."""
    return COPIED if lag == 0 else max(1, ON_DISK - max(0, lag.bit_length() - 12) // 2)
