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
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.group_topology import GroupTopology, control_topic
from streams.kafka.membership.spread import spread
from streams.kafka.ports import Admin, Consumer, GroupMember, OffsetAndMetadata
from streams.log import RepeatedLines

T = TypeVar("T")

log = logging.getLogger("streams.membership")

REST_S = 1.0
"""Time since the last change of what this member owns, after which it checks how tasks are spread."""
SETTLED_S = 10.0
"""Time since the last change of what this member owns, after which the owners of tasks are committed."""
WATCH_S = 60.0
"""So long after a change plans are looked for often."""
OFTEN_S, SELDOM_S = 0.5, 30.0
READABLE_BYTES, PACKED = 1000, "zlib:"
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

    def task(self, slot: TaskId) -> TaskId:
        return self.tasks.get(slot, slot)

    def encode(self) -> str:
        """Returns the plan as text, compressed where it is long."""
        tasks = ",".join(f"{slot}={task}" for slot, task in sorted(self.tasks.items()))
        rest = f"{self.digest} {tasks or '-'} {','.join(map(str, sorted(self.changed))) or '-'}"
        of_owner: dict[str, list[str]] = {}
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
            return cls(
                int(version),
                digest,
                {TaskId.parse(slot): TaskId.parse(task) for slot, task in pairs},
                frozenset() if changed == "-" else frozenset(map(TaskId.parse, changed.split(","))),
                {TaskId.parse(task): unquote(owner) for owner, _, tasks in owned for task in tasks.split(",")},
            )
        except (ValueError, zlib.error) as error:
            raise StreamsError(
                f"the committed metadata of the first control topic are no plan of tasks: {text!r}. Stop every worker"
                " and delete the group's offsets of the control topics"
            ) from error


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


class TaskSlots:
    """The slots of one member. Used by its thread only; requests are made only in :meth:`poll`.

    :param topology: the number of slots, and their control topics.
    :param close: makes the member own exactly :attr:`tasks`; all others are closed when it returns.
    """

    def __init__(
        self,
        consumer: Consumer,
        admin: Admin,
        clock: Clock,
        topology: GroupTopology,
        *,
        close: Callable[[], None],
    ) -> None:
        self._consumer, self._admin, self._clock = consumer, admin, clock
        self._repeated = RepeatedLines(log, clock)
        self._group, self._digest, self._prefix = topology.application_id, topology.hash, topology.prefix
        self._close = close
        self._all: frozenset[TaskId] = frozenset()
        self.extend(topology.task_counts)
        self._first = min(self._all, default=TaskId(0, 0))
        self._exchanges = len({part for part, count in topology.task_counts.items() if count}) > 1
        self._owned: frozenset[TaskId] = frozenset()
        self._unread: frozenset[TaskId] = frozenset()
        self._withheld: frozenset[TaskId] = frozenset()
        self._plan = SlotPlan()
        self._reached = True
        self._watch_until = self._next_read = 0.0
        self._check_at = math.inf
        self._former: Mapping[TaskId, str] = {}
        """The owners of tasks when this member last saw the group at rest."""
        self._settled: Mapping[TaskId, str] = {}
        """The owners of tasks when the group was at rest for a time, as the last member that saw it has committed."""
        self._stirred_at = -math.inf

    def extend(self, counts: Mapping[int, int]) -> None:
        """Adds slots for new tasks."""
        self._all = frozenset(TaskId(part, number) for part, count in counts.items() for number in range(count))

    def _name(self, slot: TaskId) -> TopicPartition:
        """Returns the partition of the control topic that a slot is."""
        return TopicPartition(control_topic(self._prefix, slot.subtopology), slot.partition)

    # ------------------------------------------------------------------ called by the group

    def gained(self, slots: Collection[TaskId]) -> None:
        """Adds slots that the member owns now; the next :meth:`poll` finds out their tasks."""
        self._owned |= frozenset(slots)
        if self._exchanges:
            self._unread |= frozenset(slots)
        self._stir()

    def gone(self, slots: Collection[TaskId]) -> None:
        """Removes slots that the member does not own any more."""
        self._owned -= frozenset(slots)
        self._unread &= self._owned
        self._stir()

    def _stir(self) -> None:
        now = self._stirred_at = self._clock.monotonic()
        self._watch_until, self._next_read, self._check_at = now + WATCH_S, now, now + REST_S

    @property
    def unread(self) -> bool:
        """Whether there are slots whose tasks are not known."""
        return bool(self._unread)

    @property
    def tasks(self) -> frozenset[TaskId]:
        """Returns the tasks that the member may have open."""
        plan = self._plan
        if self._is_foreign and plan.tasks:
            return frozenset()
        closed = self._unread | self._withheld | (frozenset() if self._reached else plan.changed)
        return frozenset(plan.task(slot) for slot in self._owned - closed)

    @property
    def _is_foreign(self) -> bool:
        """Whether the plan belongs to another topology."""
        return self._plan.digest != self._digest

    # ------------------------------------------------------------------ for the worker

    def poll(self) -> None:
        """Reads plans, and makes one if it is this member's turn.

        :raises TaskMigratedError: this member is not in the group any more.
        """
        now = self._clock.monotonic()
        if not (self._exchanges and self._owned) or now < min(self._next_read, self._check_at):
            return
        try:
            if now >= self._next_read:
                self._next_read = now + (OFTEN_S if now < self._watch_until or not self._reached else SELDOM_S)
                self._read()
            if now >= self._check_at and self._reached and not self._unread:
                self._check_at = now + SELDOM_S
                if self._first in self._owned:
                    self._check()
        except _NotNow as error:
            self._repeated.log("the plan of tasks cannot be read or committed now", error=str(error))
            self._check_at = min(self._check_at, now + REST_S)

    def _committed(self, slots: Collection[TaskId]) -> dict[TaskId, str]:
        names = {self._name(slot): slot for slot in slots}
        found = _asked(lambda: self._admin.group_offsets(self._group, list(names)))
        return {names[partition]: one.metadata for partition, one in found.items()}

    def _commit(self, texts: Mapping[TaskId, str]) -> None:
        offsets = {self._name(slot): OffsetAndMetadata(0, text) for slot, text in texts.items()}
        _asked(lambda: self._consumer.commit(offsets))

    # ------------------------------------------------------------------ following a plan

    def _read(self) -> None:
        owned, before = self._owned, self._plan
        found = self._committed({self._first} | (frozenset() if self._reached else before.changed))
        plan = SlotPlan.decode(found.get(self._first, ""))
        if plan.digest == self._digest:
            self._settled = plan.owners
        if plan != before:
            missing = frozenset() if plan.digest != self._digest else plan.changed - found.keys()
            found |= self._committed(missing)
            self._plan, self._reached = plan, plan.digest != self._digest  # else the other topology has no member left
            self._watch_until = self._clock.monotonic() + WATCH_S
        self._withheld = frozenset()
        self._unread -= owned
        if self._reached:
            self._close()
            return
        behind = {slot for slot in plan.changed if _version(found.get(slot, "")) < plan.version}
        if mine := behind & self._owned:
            self._close()  # their earlier tasks
            self._commit(dict.fromkeys(mine, str(plan.version)))
        self._reached = behind <= mine
        self._close()

    # ------------------------------------------------------------------ making one

    def _check(self) -> None:
        """Makes a plan if the group is at rest and tasks are not spread evenly."""
        members = _asked(lambda: self._admin.group_members(self._group))
        slots = {member.member_id: self._slots_of(member) for member in members}
        if not self._all <= frozenset().union(*slots.values()):
            self._check_at = self._clock.monotonic() + OFTEN_S
            return
        if not all(member.client_id.endswith(self._digest) for member in members):
            return  # members of another topology follow no plan of this one
        if self._is_foreign and self._plan.tasks:
            self._publish({}, frozenset())
            return
        task = self._plan.task
        lasting = {member.member_id: member.instance_id or member.member_id for member in members}
        held = {lasting[member]: [task(slot) for slot in owned] for member, owned in slots.items()}
        workers = {lasting[member.member_id]: _THREAD.sub("", member.client_id) for member in members}
        exchanges = spread(held, workers, self._former or self._settled, self._settled)
        if exchanges:
            self._exchange(exchanges, frozenset().union(*slots.values()))
        else:
            self._former = {task: member for member, tasks in held.items() for task in tasks}
            self._remember(self._former)

    def _remember(self, owners: Mapping[TaskId, str]) -> None:
        """Commits which member has which task, once the group is at rest: after all of them have left and come back,
        each has the state of the tasks it had."""
        if owners == self._settled:
            return
        lasts_at = self._stirred_at + SETTLED_S
        if self._clock.monotonic() < lasts_at:
            self._check_at = lasts_at
            return
        changed = frozenset() if self._is_foreign else self._plan.changed
        text = replace(self._plan, digest=self._digest, changed=changed, owners=owners).encode()
        if len(text) <= PLAN_BYTES_MAX:
            self._commit({self._first: text})
        self._settled = owners

    def _slots_of(self, member: GroupMember) -> frozenset[TaskId]:
        parts = {self._name(TaskId(part, 0)).topic: part for part in {slot.subtopology for slot in self._all}}
        return frozenset(TaskId(parts[topic], number) for topic, number in member.partitions if topic in parts)

    def _exchange(self, exchanges: Collection[tuple[TaskId, TaskId]], slots: frozenset[TaskId]) -> None:
        slot_of = {self._plan.task(slot): slot for slot in slots}
        for first, second in exchanges:
            slot_of[first], slot_of[second] = slot_of[second], slot_of[first]
        tasks = {slot: task for task, slot in slot_of.items()}
        changed = frozenset(slot for slot, task in tasks.items() if self._plan.task(slot) != task)
        self._publish({slot: task for slot, task in tasks.items() if slot != task}, changed)

    def _publish(self, tasks: Mapping[TaskId, TaskId], changed: frozenset[TaskId]) -> None:
        versions = [self._plan.version, *map(_version, self._committed(self._all).values())]
        plan = SlotPlan(max(versions) + 1, self._digest, tasks, changed, self._settled)
        text = plan.encode()
        if len(text) > PLAN_BYTES_MAX:
            log.info("tasks stay spread as they are: there are too many for a plan", extra={"bytes": len(text)})
            return
        self._withheld = changed & self._owned
        self._close()
        self._next_read = 0.0  # the next reading shows whether the broker has taken it
        self._stirred_at = self._clock.monotonic()
        self._check_at = self._stirred_at + REST_S
        own = dict.fromkeys(self._withheld - {self._first}, str(plan.version))
        self._commit({**own, self._first: text})
        log.info("members exchange tasks", extra={"tasks": ", ".join(sorted(str(plan.task(slot)) for slot in changed))})
