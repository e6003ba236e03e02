"""Brings a member into a group whose tasks have owners: copies first, tasks with state when the copies are near
(semantics 100).

A member that finds the tasks of its topology with others does not subscribe to the control topics of subtopologies with
state yet. It is in the group, takes tasks without state at once, and fills copies of as many tasks as it would get.
When these are near, it subscribes, and the group gives it its part. Until then the owners continue, and nothing that
the member does or fails to do can take a task from them: to own a partition of a control topic still is to own its
task.

Which tasks the group gives is none of the member's choice. So it reports what it has (`slot_reports`), members exchange
tasks by that, and tasks that it has no copy of stay closed until then, for some seconds at most.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from processor_api.clock import Clock
from processor_api.task_id import TaskId
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.group_picture import GroupPicture, Place, place_of, read_picture
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.slot_reports import Coming, StateReport
from streams.kafka.own_names import control_topic
from streams.kafka.ports import Admin, GroupMember

log = logging.getLogger("streams.membership")

HOLD_S = 5.0
"""How long a member that arrives waits for an exchange of tasks that it has no copy of."""
ARRIVAL_S = 30.0
"""How long it waits for tasks at all."""
MISSING_S = 3.0
"""How long tasks may be without an owner in a group at rest until a member takes them as they are: while tasks move,
they have none for a moment."""
EXTRA = 2
"""Copies beyond a member's part, where it is open from which owners the part comes."""


@dataclass(frozen=True, kw_only=True)
class WarmUpSettings:
    """The limits of warm-ups.

    :param member: the lasting name of the member.
    :param client_id: the client id of its consumer.
    :param acceptable_lag: offsets that a copy may lack and be near its task (``acceptable.recovery.lag``).
    :param filled_at_once: copies that are filled at a time (``max.warmup.replicas``).
    :param probing_s: how often it is looked whether lags have become smaller (``probing.rebalance.interval.ms``).
    :param stored: lists the tasks with a directory in the member's state directory.
    """

    member: str
    client_id: str
    acceptable_lag: int = 10_000
    filled_at_once: int = 2
    probing_s: float = 600.0
    stored: Callable[[], Collection[TaskId]] = tuple


# ---------------------------------------------------------------------- the choice


def choose_warm_ups(
    held: Mapping[str, Collection[TaskId]],
    places: Mapping[str, Place],
    member: str,
    topology: GroupTopology,
    preferred: Callable[[TaskId], int],
) -> list[TaskId]:
    """Returns the tasks that a member should have the state of before it joins for them: a pure function.

    They are as many as the group would give it if it joined alone, of each subtopology with state a fair part, from
    the owners with the most tasks first. Where several owners are alike there are some more, since either may give.

    :param held: the tasks that each member runs.
    :param places: the place of each of these members, and of the one that joins.
    :param preferred: a number of each task that is the smaller the more it is preferred, such as for what the member
        has of it already.
    """
    held = {name: tasks for name, tasks in held.items() if name != member}
    owners = {name for name, tasks in held.items() if any(task.subtopology in topology.logged for task in tasks)}
    count = sum(topology.task_counts.values()) // (len(owners) + 1)
    picks = _Picks(held, places, member, preferred)
    parts = sorted(topology.logged)
    fair = {part: divmod(topology.task_counts.get(part, 0), len(owners) + 1) for part in parts}
    for part in parts:
        for _ in range(fair[part][0]):
            picks.add(part)
    uneven = sorted((part for part in parts if fair[part][1]), key=lambda part: _weight(TaskId(part, 0), member))
    for part in uneven:
        if len(picks.chosen) < count:
            picks.add(part)
    if picks.chosen:
        picks.add_ties()
    return picks.chosen


class _Picks:
    """Holds what a member takes from each owner so far."""

    def __init__(
        self,
        held: Mapping[str, Collection[TaskId]],
        places: Mapping[str, Place],
        member: str,
        preferred: Callable[[TaskId], int],
    ) -> None:
        self.chosen: list[TaskId] = []
        self._left = {name: len(tasks) for name, tasks in held.items()}
        own = places[member].directory
        self._ranks = {
            task: (name in places and places[name].directory != own, preferred(task), _weight(task, member))
            for name, tasks in held.items()
            for task in tasks
        }
        self._tasks = {name: sorted(tasks, key=lambda task: self._ranks[task]) for name, tasks in held.items()}
        self._last: tuple[int, int] | None = None

    def add(self, part: int) -> None:
        """Takes one more task of a subtopology, from the owner with the most tasks."""
        owners = [name for name in self._tasks if any(self._of(name, part))]
        if not owners:
            return
        owner = min(owners, key=lambda name: (-self._left[name], self._ranks[next(self._of(name, part))]))
        self._last = part, self._left[owner]
        self._take(owner, part)

    def add_ties(self) -> None:
        """Takes a task more from owners that the last one could have come from as well."""
        if self._last is None:
            return
        part, left = self._last
        alike = [name for name in sorted(self._tasks) if self._left[name] == left and any(self._of(name, part))]
        for name in alike[:EXTRA]:
            self._take(name, part)

    def _of(self, name: str, part: int) -> Iterator[TaskId]:
        return (task for task in self._tasks[name] if task.subtopology == part)

    def _take(self, name: str, part: int) -> None:
        task = next(self._of(name, part))
        self._tasks[name].remove(task)
        self._left[name] -= 1
        self.chosen.append(task)


def _weight(task: TaskId, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{name} {task}".encode(), digest_size=6).digest(), "big")


# ---------------------------------------------------------------------- the way into the group


class WarmUp:
    """Knows whether a member still fills copies, and which. Used by its thread, unless an attribute says so."""

    def __init__(self, clock: Clock, settings: WarmUpSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._topology: GroupTopology | None = None
        self.coming: Coming | None = None
        """How far it has come; ``None`` of a member that is as any other. Any thread may read it."""
        self.wanted: frozenset[TaskId] = frozenset()
        """The copies to have open for this."""
        self._chosen: list[TaskId] = []
        self._picture = GroupPicture({}, {}, {})
        self._lags: Mapping[TaskId, int] = {}
        self._brought: Mapping[TaskId, int] = {}
        """The lags of all that the member had when it joined for tasks with state, rounded."""
        self._times = _JoiningTimes()
        self._holds = False

    # ------------------------------------------------------------------ joining

    def begin(self, admin: Admin, topics: ControlTopics) -> None:
        """Looks at the group that the member is to join.

        :raises RetryableError: if the coordinator or a broker does not answer.
        """
        topology = self._topology = topics.topology
        if not topology.logged:
            return
        picture = read_picture(admin, topics)
        if picture.held.get(self._settings.member) or not picture.is_alone:
            return  # it is back within its session, or waits for members of another topology
        if not (self._has_owners(picture) or (picture.is_established and not picture.is_at_rest)):
            return  # it comes as one of the first
        if self._has_owners(picture):
            picture = read_picture(admin, topics, with_ends=True)
            self._choose(picture)
            if not any(map(self._lacks, self._chosen)):
                self._settle_until(ARRIVAL_S, Coming.SETTLED)
                return
        self._picture, self.coming = picture, Coming.FILLING
        self._times.probe_at = self._clock.monotonic() + self._settings.probing_s
        self._open_more()
        extra = {"tasks": " ".join(map(str, self._chosen)), "lag": self._lag()}
        log.info("fills copies of tasks before it takes them over", extra=extra)

    @property
    def is_filling(self) -> bool:
        """Whether the member takes no tasks with state yet; any thread may read it."""
        return self.coming is Coming.FILLING

    @property
    def is_arriving(self) -> bool:
        """Whether it has just joined for tasks with state."""
        return self.coming is Coming.ARRIVING

    def subscription(self, topics: ControlTopics) -> list[str]:
        """Returns the topics to subscribe to now."""
        topology = topics.topology
        if not self.is_filling:
            return topics.names
        swapped = self._picture.exchanged.items()
        lent = {slot.subtopology for slot, task in swapped if task.subtopology in topology.logged}
        without_state = [
            control_topic(topology.prefix, part)
            for part, count in sorted(topology.task_counts.items())
            if count and part not in topology.logged | lent
        ]
        # With a changelog it is in the group, as a member like any: its partitions stand for no task.
        return without_state or [min(min(names) for names in topology.changelogs.values())]

    # ------------------------------------------------------------------ filling

    def observe(self, picture: GroupPicture) -> None:
        """Takes a picture of the group, with the ends of changelogs."""
        if not self.is_filling:
            return
        if not picture.is_alone:
            self._arrive("members of another topology are in the group")
        elif picture.is_at_rest and not self._has_owners(picture):
            alone = not any(tasks for name, tasks in picture.held.items() if name != self._settings.member)
            now = self._clock.monotonic()
            self._times.missing_at = min(self._times.missing_at, now + MISSING_S)
            if alone or now >= self._times.missing_at:
                self._arrive("tasks have no owner")
        elif picture.is_at_rest:
            self._times.missing_at = math.inf
            self._choose(picture)
            self._open_more()

    def _choose(self, picture: GroupPicture) -> None:
        self._picture = picture
        stored, before = frozenset(self._settings.stored()), frozenset(self._chosen)
        places = {**picture.places, self._settings.member: self._place()}
        assert self._topology is not None
        self._chosen = choose_warm_ups(
            picture.held,
            places,
            self._settings.member,
            self._topology,
            lambda task: 0 if task in before else 1 if task in stored else 2,
        )

    def _place(self) -> Place:
        name = self._settings.member
        found = self._picture.places.get(name)
        return found or place_of(GroupMember(self._settings.client_id, "", name, frozenset()))

    def _has_owners(self, picture: GroupPicture) -> bool:
        """Whether each task with state has an owner."""
        assert self._topology is not None
        counts = self._topology.task_counts
        return picture.is_complete({part: counts.get(part, 0) for part in self._topology.logged})

    def take_lags(self, lags: Mapping[TaskId, int]) -> None:
        """Takes the offsets that open copies lack."""
        if lags is not self._lags:
            self._lags = lags
            if self.is_filling and self._picture.ends:
                self._open_more()

    def _lacks(self, task: TaskId) -> bool:
        """Whether the member lacks more of a task than it may."""
        if task in self._here():
            return False
        return self._lags.get(task, self._picture.ends.get(task, 0)) > self._settings.acceptable_lag

    def _here(self) -> frozenset[TaskId]:
        """Returns the tasks that others run in this state directory: their files need no copy."""
        own, places = self._place().directory, self._picture.places
        held = self._picture.held.items()
        near = (tasks for name, tasks in held if name in places and places[name].directory == own)
        return frozenset[TaskId]().union(*near)

    def _open_more(self) -> None:
        """Opens as many copies as may be filled at a time, besides those that are filled; ends the filling when all
        are."""
        lacking = [task for task in self._chosen if self._lacks(task)]
        if not lacking:
            if self._picture.ends:
                self._arrive("the copies are near", holds=True)
            return
        joining = sum(not any(map(self._is_logged, tasks)) for tasks in self._picture.held.values())
        at_once = max(1, self._settings.filled_at_once // max(1, joining))
        filled = [task for task in self._chosen if task in self.wanted and task not in lacking]
        self.wanted = frozenset([*filled, *sorted(lacking, key=lambda task: task not in self.wanted)[:at_once]])

    def _is_logged(self, task: TaskId) -> bool:
        return self._topology is not None and task.subtopology in self._topology.logged

    def _lag(self) -> int:
        """Returns what the member lacks in all."""
        ends, here = self._picture.ends, self._here()
        return sum(self._lags.get(task, ends.get(task, 0)) for task in self._chosen if task not in here)

    # ------------------------------------------------------------------ arriving

    def _arrive(self, reason: str, *, holds: bool = False) -> None:
        near = (task for tasks in self._picture.held.values() for task in tasks if self._is_logged(task))
        self._brought = {task: 0 for task in near if not self._lacks(task)} | self._rounded()
        self._holds = holds
        extra = {"reason": reason, "copies": " ".join(map(str, sorted(self.wanted))), "lag": self._lag()}
        log.info("joins for tasks with state", extra=extra)
        self._settle_until(ARRIVAL_S, Coming.ARRIVING)

    def _settle_until(self, seconds: float, coming: Coming) -> None:
        self.coming, self._times.until = coming, self._clock.monotonic() + seconds

    def gained(self) -> None:
        """Takes that the group has given tasks."""
        if self.is_arriving:
            self._times.until = min(self._times.until, self._clock.monotonic() + HOLD_S)

    def poll(self) -> None:
        """Ends what takes too long."""
        now = self._clock.monotonic()
        if self.is_filling and now >= self._times.probe_at:
            self._probe(now)
        elif self.coming in (Coming.ARRIVING, Coming.SETTLED) and now >= self._times.until:
            self.coming, self.wanted, self._chosen, self._brought = None, frozenset(), [], {}

    def _probe(self, now: float) -> None:
        """Looks whether the copies have come nearer since the last time."""
        lag, before = self._lag(), self._times.probed
        self._times.probe_at, self._times.probed = now + self._settings.probing_s, lag
        extra = {"tasks": " ".join(map(str, self._chosen)), "lag": lag}
        if before is None or lag < before:
            log.info("still fills copies of tasks before it takes them over", extra=extra)
        else:
            text = "copies do not come near their tasks; this worker takes tasks as they are, and restores the rest"
            log.warning(text, extra={**extra, "lag_before": before})
            self._arrive("the copies do not come near")

    # ------------------------------------------------------------------ for the slots of the member

    def report(self) -> StateReport | None:
        """Returns what the member reports of its state, for those that plan exchanges of tasks."""
        if self.coming is None:
            return StateReport(self._settings.member, Coming.SETTLED, self._rounded()) if self._lags else None
        return StateReport(self._settings.member, self.coming, self._brought if self.is_arriving else self._rounded())

    def _rounded(self) -> dict[TaskId, int]:
        """Returns the lags of copies in steps, so that reports change seldom: 0 if it is caught up, otherwise the next
        power of two."""
        most = self._settings.acceptable_lag
        return {task: 0 if lag <= most else 1 << lag.bit_length() for task, lag in self._lags.items()}

    def former_owners(self) -> Mapping[TaskId, str]:
        """Returns the owners of tasks before the member came, while it has just come."""
        held = self._picture.held.items() if self.is_arriving else ()
        return {task: name for name, tasks in held for task in tasks}

    def held_back(self, tasks: Collection[TaskId]) -> frozenset[TaskId]:
        """Returns those of the tasks of its slots that stay closed for now, since they will be exchanged for some whose
        copies are near; none where the member has all of these already."""
        if not (self.is_arriving and self._holds):
            return frozenset()
        if all(task in tasks or self._brought.get(task) != 0 for task in self._chosen):
            return frozenset()
        return frozenset(task for task in tasks if self._is_logged(task) and self._brought.get(task) != 0)

    def plan_followed(self) -> None:
        """Takes that the members have exchanged tasks: what this one has now it keeps."""
        self._holds = False


@dataclass
class _JoiningTimes:
    """The times at which a member that joins does something by itself, and what it remembers of the last."""

    probe_at: float = 0.0
    probed: int | None = None
    """The offsets that its copies lacked then."""
    missing_at: float = math.inf
    """When tasks have been without an owner for too long."""
    until: float = 0.0
    """When it is as any other member."""
