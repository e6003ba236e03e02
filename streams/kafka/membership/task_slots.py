"""The mapping from partitions of the control topics to tasks, by which members exchange tasks.

The group gives each member partitions of control topics, here *slots*, and regards only their number. A slot stands for
the task with the same numbers unless a *plan* says otherwise: a permutation of tasks over slots, which the member that
owns the first slot makes when the group has come to rest and a subtopology is spread unevenly
(`streams.kafka.membership.spread`).

Plan and progress are metadata of offsets that the group has committed for the slots, since the broker accepts those
only from members: with the first slot the plan, with each other one the version that its owner has reached. A member
that learns of a plan (1) closes the tasks of its slots that changed, (2) commits the plan's version for these slots,
and (3) opens their new tasks when all changed slots have that version. Only then may the next plan be made. So a task
is closed before another member opens it, also when a member dies or takes a slot over meanwhile: a new owner has
nothing open for it, and says so in turn.

A plan is that of one topology, whose numbers it uses. Members of another topology open no tasks by it. When only
members of that topology are left, the owner of the first slot makes an empty plan.
"""

from __future__ import annotations

import base64
import logging
import math
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar
from urllib.parse import quote, unquote

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TaskId
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.slot_reports import Arrival, ReportedState, StateReport, report_in
from streams.kafka.membership.spread import spread
from streams.kafka.ports import Admin, Consumer, GroupMember, OffsetAndMetadata
from streams.log import RepeatedLines

T = TypeVar("T")

log = logging.getLogger("streams.membership")

REST_S = 1.0
"""Time since the last change of what this member owns, after which it checks how tasks are spread."""
SETTLED_S = 10.0
"""Time since the last change of what this member owns, after which the owners of tasks are committed."""
HURRY_REST_S, HURRY_OFTEN_S, HURRY_S = 0.25, 0.1, 5.0
"""The same where members keep copies of tasks, and how often plans are looked for then, for so long after a change."""
WATCH_S = 60.0
"""So long after a change plans are looked for often."""
OFTEN_S, SELDOM_S = 0.5, 30.0
READABLE_BYTES, PACKED = 1000, "zlib:"
PLANNER = "planner/"
"""Begins the entry of a plan that names the member which made it."""
REPORT_PAUSE_S, REPORT_LOOK_S = 1.0, 0.05
"""The least time between two reports of a member, and between two looks whether there is another one."""
PLAN_BYTES_MAX = 4000
"""A broker takes 4,096 bytes of metadata with an offset (``offset.metadata.max.bytes``)."""

_THREAD = re.compile(r"-StreamThread-\d+-consumer-topology-[0-9a-f]{8}$")


@dataclass(frozen=True)
class SlotPlan:
    """A mapping from slots to tasks."""

    version: int = 0
    digest: str = "-"
    """The digest of the topology that it is for."""
    tasks: Mapping[TaskId, TaskId] = field(default_factory=dict)
    """The tasks of slots that do not stand for their own."""
    changed: frozenset[TaskId] = frozenset()
    """Slots that stood for another task by the plan before."""
    owners: Mapping[TaskId, str] = field(default_factory=dict, compare=False)
    """The members that had the tasks when the group had rested for a time, by their lasting names. No part of what
    slots stand for."""
    planner: str = field(default="", compare=False)
    """The id of the member that saw the group rest for a time."""

    def task(self, slot: TaskId) -> TaskId:
        return self.tasks.get(slot, slot)

    def after(
        self, exchanges: Collection[tuple[TaskId, TaskId]], slots: Collection[TaskId]
    ) -> tuple[dict[TaskId, TaskId], frozenset[TaskId]]:
        """Returns the tasks of slots that do not stand for their own after exchanges of tasks, and the slots that
        stand for another one than before."""
        slot_of = {self.task(slot): slot for slot in slots}
        for first, second in exchanges:
            slot_of[first], slot_of[second] = slot_of[second], slot_of[first]
        moved = frozenset(slot for task, slot in slot_of.items() if self.task(slot) != task)
        return {slot: task for task, slot in slot_of.items() if slot != task}, moved

    def encode(self) -> str:
        """Returns the plan as text, compressed where it is long."""
        tasks = ",".join(f"{slot}={task}" for slot, task in sorted(self.tasks.items()))
        rest = f"{self.digest} {tasks or '-'} {','.join(map(str, sorted(self.changed))) or '-'}"
        of_owner: dict[str, list[str]] = {}
        if self.planner and self.owners:
            # As an owner before the others: who knows no such entry has it replaced by the real owner.
            of_owner[PLANNER + self.planner] = [str(min(self.owners))]
        for task, owner in sorted(self.owners.items()):
            of_owner.setdefault(owner, []).append(str(task))
        if of_owner:
            rest += " " + ";".join(f"{quote(owner)}={','.join(tasks)}" for owner, tasks in of_owner.items())
        if len(rest) > READABLE_BYTES:
            rest = PACKED + base64.b64encode(zlib.compress(rest.encode(), 9)).decode()
        return f"{self.version} {rest}"

    @classmethod
    def decode(cls, text: str) -> SlotPlan:
        """Reads what :meth:`encode` has written; returns no plan where there is no text.

        :raises StreamsError: if it is none.
        """
        if not text:
            return cls()
        try:
            version, _, rest = text.partition(" ")
            if rest.startswith(PACKED):
                rest = zlib.decompress(base64.b64decode(rest.removeprefix(PACKED))).decode()
            digest, tasks, changed, *more = rest.split(" ")
            owned = [one.rpartition("=") for text in more for one in text.split(";")]
            pairs = [] if tasks == "-" else [one.split("=") for one in tasks.split(",")]
            planners = [unquote(owner) for owner, _, _ in owned]
            return cls(
                int(version),
                digest,
                {TaskId.parse(slot): TaskId.parse(task) for slot, task in pairs},
                frozenset() if changed == "-" else frozenset(map(TaskId.parse, changed.split(","))),
                {TaskId.parse(task): unquote(owner) for owner, _, tasks in owned for task in tasks.split(",")},
                next((one.removeprefix(PLANNER) for one in planners if one.startswith(PLANNER)), ""),
            )
        except (ValueError, zlib.error) as error:
            raise StreamsError(
                f"the committed metadata of the first control topic is not a plan of tasks: {text!r}. Stop every worker"
                " and delete the group's offsets of the control topics"
            ) from error


def has_plans(counts: Mapping[int, int], *, copies: bool) -> bool:
    """Whether the members of a group follow plans. One subtopology needs none without copies: the group gives every
    member as many slots as any other, or one more.

    Without plans slots stand for their own tasks whatever a plan says, so that all members have to agree.

    :param counts: the tasks of each subtopology.
    :param copies: whether members keep standby copies of tasks.
    """
    return copies or len([count for count in counts.values() if count]) > 1


def read_plan(admin: Admin, topics: ControlTopics) -> SlotPlan:
    """Asks the group for the plan by which members have exchanged tasks.

    :raises RetryableError: if the coordinator does not answer.
    """
    counts = topics.topology.task_counts
    slots = [TaskId(part, number) for part, count in counts.items() for number in range(count)]
    if not slots:
        return SlotPlan()
    first = topics.partition(min(slots))
    found = admin.group_offsets(topics.topology.application_id, [first])
    return SlotPlan.decode(found[first].metadata) if first in found else SlotPlan()


def _version(text: str) -> int:
    """Returns the version that the owner of a slot has reached; the first slot has the plan itself."""
    found = text.partition(" ")[0]
    return int(found) if found.isdigit() else 0


class _NotNow(Exception):
    """A request that the cluster did not fulfil, and may fulfil later."""


def _asked(call: Callable[[], T]) -> T:
    """Returns the answer of a call to the cluster. Errors of closing a task are kept apart from those of the call.

    :raises _NotNow: if it may succeed later.
    """
    try:
        return call()
    except TaskMigratedError:
        raise
    except RetryableError as error:
        raise _NotNow(str(error)) from error


class SlotOffsets:
    """Reads and commits the texts of slots, which are metadata of offsets, and asks for the group's members."""

    def __init__(self, consumer: Consumer, admin: Admin, topics: ControlTopics) -> None:
        self._consumer, self._admin, self._topics = consumer, admin, topics

    def committed(self, slots: Collection[TaskId]) -> dict[TaskId, str]:
        names = {self._topics.partition(slot): slot for slot in slots}
        # by the admin client: a request of the consumer may be held up by a rebalance
        found = _asked(lambda: self._admin.group_offsets(self._topics.topology.application_id, list(names)))
        return {names[partition]: one.metadata for partition, one in found.items()}

    def commit(self, texts: Mapping[TaskId, str]) -> None:
        # Only the texts are read. The broker takes them from members alone, and keeps them when all have left.
        offsets = {self._topics.partition(slot): OffsetAndMetadata(0, text) for slot, text in texts.items()}
        _asked(lambda: self._consumer.commit(offsets))

    def members(self) -> dict[GroupMember, frozenset[TaskId]]:
        """Returns the members of the group with their slots."""
        found = _asked(lambda: self._admin.group_members(self._topics.topology.application_id))
        return {member: frozenset(self._topics.tasks(member.partitions)) for member in found}


class SlotTimes:
    """The times at which a member looks for plans, and whether one is needed: often after a change, else seldom."""

    def __init__(self, clock: Clock, *, hurries: bool = False) -> None:
        self._clock = clock
        self._hurries = hurries
        self._watch_until = self._next_read = 0.0
        self._check_at = math.inf
        self._stirred_at = -math.inf

    def stir(self) -> None:
        """Takes that the slots of this member have changed."""
        now = self._stirred_at = self._clock.monotonic()
        self._watch_until, self._next_read = now + WATCH_S, now
        self._check_at = now + (HURRY_REST_S if self._hurries else REST_S)

    def published(self) -> None:
        """Takes that this member commits a plan; the next reading shows whether the broker has taken it."""
        now = self._stirred_at = self._clock.monotonic()
        self._next_read, self._check_at = 0.0, now + REST_S

    def watch(self) -> None:
        """Takes that there is another plan, which members now follow step by step."""
        self._watch_until = self._clock.monotonic() + WATCH_S

    def retry(self) -> None:
        """Takes that a request was not fulfilled."""
        self._check_at = min(self._check_at, self._clock.monotonic() + REST_S)

    def check_again(self) -> None:
        """Takes that the group is not at rest."""
        self._check_at = self._clock.monotonic() + self._often_s

    @property
    def _often_s(self) -> float:
        is_new = self._clock.monotonic() < self._stirred_at + HURRY_S
        return HURRY_OFTEN_S if self._hurries and is_new else OFTEN_S

    def is_anything_due(self) -> bool:
        return self._clock.monotonic() >= min(self._next_read, self._check_at)

    def reads(self, *, often: bool) -> bool:
        """Whether it is time to read the plan; if so, sets the next time.

        :param often: whether members follow a plan now.
        """
        now = self._clock.monotonic()
        if now < self._next_read:
            return False
        self._next_read = now + (self._often_s if often or now < self._watch_until else SELDOM_S)
        return True

    def checks(self) -> bool:
        """Whether it is time to check how tasks are spread; if so, sets the next time."""
        now = self._clock.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + SELDOM_S
        return True

    def has_settled(self) -> bool:
        """Whether the group has rested for some time; if not, has it checked again when it will have."""
        settled_at = self._stirred_at + SETTLED_S
        if self._clock.monotonic() >= settled_at:
            return True
        self._check_at = settled_at
        return False


class SlotPlanner:
    """Makes the plans, where this member owns the first slot and so is the one to make them.

    :param topology: the one whose tasks the slots stand for.
    :param known: says what members have reported of their state.
    """

    def __init__(self, offsets: SlotOffsets, times: SlotTimes, topology: GroupTopology, known: ReportedState) -> None:
        self._offsets, self._times, self.digest = offsets, times, topology.hash
        self._known = known
        counts = topology.task_counts
        self.slots: frozenset[TaskId] = frozenset()
        self.extend(counts)
        self.first = min(self.slots, default=TaskId(0, 0))
        self.settled: Mapping[TaskId, str] = {}
        """The owners of tasks when the group was at rest for a time, as the last member that saw it has committed."""
        self.rested = ""
        """The id of the member that saw the group rest, as it is committed."""
        self.having: Callable[[], Mapping[TaskId, Mapping[str, int]]] = dict
        """Returns the members that have the state of each task; see :func:`streams.kafka.membership.spread.spread`."""
        self._former: Mapping[TaskId, str] = {}
        """The owners of tasks when this member last saw the group at rest."""

    def extend(self, counts: Mapping[int, int]) -> None:
        """Adds slots for new tasks."""
        self.slots = frozenset(TaskId(part, number) for part, count in counts.items() for number in range(count))

    def next_plan(self, plan: SlotPlan) -> SlotPlan | None:
        """Returns another plan if the group is at rest and tasks are not spread evenly; else remembers who has what."""
        members = self._offsets.members()
        slots: frozenset[TaskId] = frozenset().union(*members.values())
        if not self.slots <= slots:
            self._times.check_again()
            return None  # a slot without an owner: a rebalance is under way
        if not all(member.client_id.endswith(self.digest) for member in members):
            return None  # members of another topology follow no plan of this one
        is_foreign = plan.digest != self.digest
        if is_foreign and plan.tasks:
            return self._made(plan, {}, frozenset())
        # by names that outlast a restart, after which the state of its tasks is still there
        names = {member: member.instance_id or member.member_id for member in members}
        held = {names[member]: [plan.task(slot) for slot in owned] for member, owned in members.items()}
        workers = {names[member]: _THREAD.sub("", member.client_id) for member in members}
        known = self._known
        owned = {names[member]: slots for member, slots in members.items()}
        if known.read(owned, lambda: self._offsets.committed(self.slots), is_new=not self._former):
            self._times.check_again()
            return None
        before = self._former or known.former_owners() or self.settled
        having = known.having(held, before, self.having())
        exchanges = spread(held, workers, before, self.settled, having, closed=known.closed())
        if exchanges:
            return self._made(plan, *plan.after(exchanges, slots))
        self._former = {task: member for member, tasks in held.items() for task in tasks}
        changed = frozenset() if is_foreign else plan.changed
        planner = next((member.member_id for member, slots in members.items() if self.first in slots), "")
        self._remember(replace(plan, digest=self.digest, changed=changed, owners=self._former, planner=planner))
        return None

    def _remember(self, plan: SlotPlan) -> None:
        """Commits which member has which task, once the group is at rest: after all of them have left and come back,
        each has the state of the tasks it had."""
        if (plan.owners != self.settled or plan.planner != self.rested) and self._times.has_settled():
            text = plan.encode()
            if len(text) <= PLAN_BYTES_MAX:
                self._offsets.commit({self.first: text})
            self.settled = plan.owners  # also where it does not fit: else each check would write it again
            self.rested = plan.planner

    def _made(self, plan: SlotPlan, tasks: Mapping[TaskId, TaskId], changed: frozenset[TaskId]) -> SlotPlan | None:
        # above all that slots have reached: otherwise a slot would count as if it had closed its task for this plan
        versions = [plan.version, *map(_version, self._offsets.committed(self.slots).values())]
        made = SlotPlan(max(versions) + 1, self.digest, tasks, changed, self.settled, self.rested)
        size = len(made.encode())
        if size > PLAN_BYTES_MAX:
            log.info("tasks stay spread as they are: there are too many for a plan", extra={"bytes": size})
            return None
        return made


class SlotReporter:
    """Writes the reports of one member on its state into the last of its slots, behind the version that is there."""

    def __init__(self, offsets: SlotOffsets, clock: Clock, arrival: Arrival | None) -> None:
        self._offsets, self._clock, self._arrival = offsets, clock, arrival
        self._written: tuple[TaskId, StateReport | None] | None = None
        """The last report, with its slot; ``None`` where that may have been replaced."""
        self._next = -math.inf

    def report(self) -> StateReport | None:
        """Returns what is to be reported now."""
        return None if self._arrival is None else self._arrival.report()

    def held_back(self, tasks: Collection[TaskId]) -> frozenset[TaskId]:
        """Returns those of some tasks that stay closed, since they will be exchanged."""
        return frozenset() if self._arrival is None else self._arrival.held_back(tasks)

    def plan_followed(self) -> None:
        """Takes that tasks were exchanged."""
        if self._arrival is not None:
            self._arrival.plan_followed()

    def forget(self) -> None:
        """Takes that other texts are written into the slots."""
        self._written = None

    def is_due(self, owned: Collection[TaskId]) -> bool:
        """Whether there is something to write; looked at some times in a second, as it is asked in each turn."""
        now = self._clock.monotonic()
        if self._arrival is None or now < self._next:
            return False
        self._next = now + REPORT_LOOK_S
        return self._differs(max(owned), self.report())

    def _differs(self, slot: TaskId, report: StateReport | None) -> bool:
        return (slot, report) != self._written

    def write(self, owned: Collection[TaskId], first: TaskId) -> None:
        """Writes the report, if there is another one than before."""
        slot, report = max(owned), self.report()
        if not self._differs(slot, report):
            return
        self._next = self._clock.monotonic() + REPORT_PAUSE_S
        if slot != first:  # that has the plan; its owner, who makes the plans, knows its own report
            before = self._offsets.committed({slot}).get(slot, "")  # it may have a report of this member's earlier time
            text = f"{_version(before)} {report.encode()}" if report is not None else str(_version(before))
            if report is not None or report_in(before) is not None:
                self._offsets.commit({slot: text})
        self._written = slot, report


class TaskSlots:
    """The slots of one member, and the plan that it follows. Used by its thread only; requests are made only in
    :meth:`poll`.

    :param close: makes the member own exactly :attr:`tasks`; all others are closed when it returns.
    :param having: returns the members that have the state of each task, where members keep copies of tasks.
    :param arrival: the way of this member into the group, where the topology has stores with changelogs.
    """

    def __init__(
        self,
        consumer: Consumer,
        admin: Admin,
        clock: Clock,
        topics: ControlTopics,
        *,
        close: Callable[[], None],
        having: Callable[[], Mapping[TaskId, Mapping[str, int]]] | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        topology = topics.topology
        self._offsets, self._times = SlotOffsets(consumer, admin, topics), SlotTimes(clock, hurries=having is not None)
        self._reporter = SlotReporter(self._offsets, clock, arrival)
        known = ReportedState(clock, topology.logged, arrival)
        self._planner = SlotPlanner(self._offsets, self._times, topology, known)
        self._repeated = RepeatedLines(log, clock)
        self._close = close
        self._exchanges = has_plans(topology.task_counts, copies=bool(topology.logged))
        if having is not None:
            self._planner.having = having
        self._owned: frozenset[TaskId] = frozenset()
        self._unread: frozenset[TaskId] = frozenset()
        """Slots of this member for which no plan was read since it got them."""
        self._withheld: frozenset[TaskId] = frozenset()
        """Slots that a plan changes which this member has just made."""
        self._plan = SlotPlan()
        self._reached = True
        """Whether the owners of all changed slots have closed their earlier tasks."""

    def extend(self, counts: Mapping[int, int]) -> None:
        """Adds slots for new tasks."""
        self._planner.extend(counts)

    # ------------------------------------------------------------------ called by the group

    def gained(self, slots: Collection[TaskId]) -> None:
        """Adds slots that the member owns now; the next :meth:`poll` finds out their tasks."""
        self._owned |= frozenset(slots)
        self._reporter.forget()
        if self._exchanges:
            self._unread |= frozenset(slots)
        self._times.stir()

    def gone(self, slots: Collection[TaskId]) -> None:
        """Removes slots that the member no longer owns."""
        self._owned -= frozenset(slots)
        self._unread &= self._owned
        self._times.stir()

    @property
    def unread(self) -> bool:
        """Whether there are slots whose tasks are not known."""
        return bool(self._unread)

    @property
    def tasks(self) -> frozenset[TaskId]:
        """Returns the tasks that the member may have open."""
        plan = self._plan
        if plan.digest != self._planner.digest and plan.tasks:
            return frozenset()  # the plan is another topology's, whose numbers mean other tasks
        closed = self._unread | self._withheld | (frozenset() if self._reached else plan.changed)
        open_ = frozenset(plan.task(slot) for slot in self._owned - closed)
        return open_ - self._reporter.held_back(open_)

    # ------------------------------------------------------------------ for the worker

    def poll(self) -> None:
        """Reads plans, and makes one if it is this member's turn.

        :raises TaskMigratedError: this member is not in the group any more.
        """
        if not (self._exchanges and self._owned):
            return
        reports = self._reporter.is_due(self._owned)
        if not (reports or self._times.is_anything_due()):
            return
        try:
            if self._times.reads(often=not self._reached):
                self._read()
            if reports and not self._unread:
                self._reporter.write(self._owned, self._planner.first)
            if self._reached and not self._unread and self._times.checks() and self._planner.first in self._owned:
                made = self._planner.next_plan(self._plan)
                if made is not None:
                    self._publish(made)
        except _NotNow as error:
            self._repeated.log("the plan of tasks cannot be read or committed now", error=str(error))
            self._times.retry()

    def _read(self) -> None:
        """Reads the plan, and follows it one step: closes what it changes, says so, or opens it when all have."""
        owned, before, first = self._owned, self._plan, self._planner.first
        found = self._offsets.committed({first} | (frozenset() if self._reached else before.changed))
        plan = SlotPlan.decode(found.get(first, ""))
        is_own = plan.digest == self._planner.digest
        if is_own:
            self._planner.settled, self._planner.rested = plan.owners, plan.planner
        if plan != before:
            missing = plan.changed - found.keys() if is_own else frozenset()
            found |= self._offsets.committed(missing)
            self._plan, self._reached = plan, not is_own  # otherwise the other topology has no member left
            self._reporter.forget()
            self._times.watch()
        self._withheld = frozenset()
        is_of_now = not self._unread  # otherwise it may be older than the slots of this member
        self._unread -= owned
        if self._reached:
            self._close()
            return
        behind = {slot for slot in plan.changed if _version(found.get(slot, "")) < plan.version}
        if mine := behind & self._owned:
            self._close()  # their earlier tasks
            self._offsets.commit(dict.fromkeys(mine, str(plan.version)))
        self._reached = behind <= mine
        if self._reached and is_of_now:
            self._reporter.plan_followed()
        self._close()

    def _publish(self, plan: SlotPlan) -> None:
        """Commits a plan, after the tasks that it takes from this member are closed."""
        self._withheld = plan.changed & self._owned
        self._close()
        self._times.published()
        # With the plan itself go the marks that this member has closed its tasks; the first slot's is the plan.
        own = dict.fromkeys(self._withheld - {self._planner.first}, str(plan.version))
        self._reporter.forget()
        self._offsets.commit({**own, self._planner.first: plan.encode()})
        log.info(
            "members exchange tasks", extra={"tasks": ", ".join(sorted(str(plan.task(slot)) for slot in plan.changed))}
        )
