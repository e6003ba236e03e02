"""Chooses which member keeps a standby copy of which task, and has this member know which are its own.

The members of a group are described by its coordinator, with what each is assigned; the choice is a pure function of
that picture, so members that see the same picture agree without a word. They may see different ones for a moment: then
a copy is kept twice, or nowhere, until the next picture. Nothing depends on it, as a copy may be kept by any number of
members.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from processor_api.clock import Clock
from processor_api.task_id import TaskId
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.group_picture import GroupPicture, Place, read_picture
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.slot_reports import COPIED, ON_DISK, OWNED
from streams.kafka.membership.warm_up import WarmUp, WarmUpSettings
from streams.kafka.ports import Admin
from streams.threads import SYSTEM_THREADS, PeriodicCall, Threads

log = logging.getLogger("streams.membership")

PICTURE_INTERVAL_S, FILLING_INTERVAL_S = 3.0, 1.0
"""How often a member looks at the group, and while it fills copies before it takes tasks over."""
KEPT_S = 5.0
"""How long a task that goes stays as a copy where no standby tasks are kept: members may exchange it back."""
SETTLED_S = 10.0
"""How long after a change of the group its copies count as filled."""
AFTER_CHANGE_S = 0.5
"""How long after a change of its own tasks a member looks at the group."""

# ---------------------------------------------------------------------- the choice


def place_standbys(
    held: Mapping[str, Collection[TaskId]],
    places: Mapping[str, Place],
    tasks: Iterable[TaskId],
    replicas: int,
    tags: Sequence[str] = (),
) -> dict[TaskId, tuple[str, ...]]:
    """Returns the members that keep a copy of each task: a pure function.

    No copy is in the state directory of the task, or of another copy of it. Among the others, those go first whose tags
    differ from the places that have the task already; then the copies are spread evenly over directories by the number
    of their members, for each subtopology and in all; then a hash decides, so that few copies move when a member comes
    or goes.

    :param held: the tasks that each member runs.
    :param places: the place of each member.
    :param tasks: those of which there are to be copies.
    :param replicas: the number of copies; there are fewer where there are too few directories.
    :param tags: the names of the tags that are to differ (``rack.aware.assignment.tags``).
    """
    active = {task: name for name, owned in held.items() for task in owned}
    wanted = sorted(task for task in tasks if task in active)
    choice = _Choice(places, wanted, replicas, tags)
    kept: dict[TaskId, list[str]] = {task: [] for task in wanted}
    for _ in range(replicas):
        for task in wanted:
            directory = choice.directory(task, [active[task], *kept[task]])
            if directory is not None:
                kept[task].append(choice.member(task, directory))
    return {task: tuple(names) for task, names in kept.items()}


class _Choice:
    """Holds how many copies each directory and each member has so far."""

    def __init__(
        self, places: Mapping[str, Place], tasks: Sequence[TaskId], replicas: int, tags: Sequence[str]
    ) -> None:
        self._places = places
        self._names = frozenset(tags)
        self._members: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(places):
            self._members[places[name].directory].append(name)
        self._copies: Counter[str] = Counter()
        self._of_part: Counter[tuple[str, int]] = Counter()
        self._of_member: Counter[str] = Counter()
        self._all = len(tasks) * replicas
        self._parts = Counter(task.subtopology for task in tasks)
        self._replicas = replicas

    def directory(self, task: TaskId, having: Sequence[str]) -> str | None:
        """Returns where the next copy goes; ``None`` if no other directory is left.

        :param having: the members that have the task already.
        """
        taken = {self._places[name].directory for name in having}
        left = [one for one in self._members if one not in taken]
        if not left:
            return None
        chosen = min(left, key=lambda one: self._rank(task, one, having))
        self._copies[chosen] += 1
        self._of_part[chosen, task.subtopology] += 1
        return chosen

    def _rank(self, task: TaskId, directory: str, having: Sequence[str]) -> tuple[int, int, int, int]:
        part = sum(len(names) for names in self._members.values())
        share = len(self._members[directory]) / part
        most, most_of_part = (
            math.ceil(self._all * share),
            math.ceil(self._parts[task.subtopology] * self._replicas * share),
        )
        beyond = max(0, self._copies[directory] + 1 - most)
        beyond_part = max(0, self._of_part[directory, task.subtopology] + 1 - most_of_part)
        return self._alike(directory, having), beyond_part, beyond, -_weight(task, directory)

    def _alike(self, directory: str, having: Sequence[str]) -> int:
        """Returns how many tags a directory has in common with places that have the task."""
        own = self._tags(self._members[directory][0])
        return sum(len(own & self._tags(name)) for name in having)

    def _tags(self, name: str) -> frozenset[tuple[str, str]]:
        return frozenset(tag for tag in self._places[name].tags if tag[0] in self._names)

    def member(self, task: TaskId, directory: str) -> str:
        """Returns the member of a directory that keeps a copy."""
        name = min(self._members[directory], key=lambda one: (self._of_member[one], -_weight(task, one)))
        self._of_member[name] += 1
        return name


def _weight(task: TaskId, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{task} {name}".encode(), digest_size=6).digest(), "big")


def standbys_of(
    picture: GroupPicture, topology: GroupTopology, replicas: int, tags: Sequence[str]
) -> dict[TaskId, tuple[str, ...]]:
    """Returns the members that keep a copy of each task by a picture of the group."""
    if picture.copies is not None:
        return dict(picture.copies)
    logged = [task for tasks in picture.held.values() for task in tasks if task.subtopology in topology.logged]
    return place_standbys(picture.held, picture.places, logged, replicas, tags)


def state_of(picture: GroupPicture, kept: Mapping[TaskId, tuple[str, ...]]) -> dict[TaskId, dict[str, int]]:
    """Returns the members that have the state of each task, with a number for how much of it they have at once.

    :param kept: the members that keep copies.
    """
    having: defaultdict[TaskId, dict[str, int]] = defaultdict(dict)
    owners = [(task, name, OWNED) for name, tasks in picture.held.items() for task in tasks]
    keepers = [(task, name, COPIED) for task, names in kept.items() for name in names]
    for task, name, rank in (*owners, *keepers):
        for other, place in picture.places.items():
            if place.directory == picture.places[name].directory:
                having[task][other] = max(ON_DISK, having[task].get(other, 0))
        having[task][name] = max(rank, having[task][name])
    return dict(having)


class _KnownState:
    """Remembers who had the state of each task before the last change of the group."""

    def __init__(self, clock: Clock) -> None:
        self.having: Mapping[TaskId, Mapping[str, int]] = {}
        self._clock = clock
        self._picture = GroupPicture({}, {}, {})
        self._kept: Mapping[TaskId, tuple[str, ...]] = {}
        self._changed_at = -math.inf

    def changed(self) -> None:
        """Keeps who has which state now, unless the group has changed a moment ago: new copies are not filled yet."""
        now = self._clock.monotonic()
        if now - self._changed_at >= SETTLED_S:
            self.having = state_of(self._picture, self._kept)
        self._changed_at = now

    def take(self, picture: GroupPicture, kept: Mapping[TaskId, tuple[str, ...]]) -> None:
        """Takes a picture of the group, with the members that keep copies of each task by it."""
        if picture.held != self._picture.held:
            self.changed()
        self._picture, self._kept = picture, kept


@dataclass(frozen=True, kw_only=True)
class StandbySettings:
    """The standby tasks that an application wants.

    :param member: the lasting name of this member.
    :param replicas: ``num.standby.replicas``.
    :param tags: ``rack.aware.assignment.tags``.
    """

    member: str
    replicas: int = 0
    tags: Sequence[str] = ()
    threads: Threads = field(default=SYSTEM_THREADS)


class StandbyPlaces:
    """Knows which standby copies a member is to have, and looks at the group for those that it fills, too. Used by its
    thread; the group is asked on another one."""

    def __init__(self, admin: Admin, clock: Clock, settings: StandbySettings, warm_up: WarmUp) -> None:
        self._admin = admin
        self._topics: ControlTopics | None = None
        self._settings = settings
        self._warm_up = warm_up
        failed = (log, "the group cannot be described; standby tasks stay where they are")
        self._looks = PeriodicCall("standby-places", clock, settings.threads, failed)
        self.own: frozenset[TaskId] = frozenset()
        """The copies that this member is to keep besides those that it fills."""
        self._known = _KnownState(clock)

    def having(self) -> Mapping[TaskId, Mapping[str, int]]:
        """Returns the members that had the state of each task before the last change of the group, with a number that
        is greater the more of it is there: open as their own, as a copy, or on the disk of their state directory.

        Where no copies are kept, the group is not looked at all the time, and nothing is known of it."""
        return self._known.having if self._settings.replicas else {}

    def begin(self, topics: ControlTopics) -> None:
        """Takes the control topics of the group that the member joins."""
        self._topics = topics

    def changed(self, active: frozenset[TaskId], gone: frozenset[TaskId]) -> None:
        """Takes that the tasks of this member have changed. What it had stays as a copy until the next picture says
        where copies belong."""
        logged = frozenset[int]() if self._topics is None else self._topics.topology.logged
        self._known.changed()
        self.own = (self.own | {task for task in gone if task.subtopology in logged}) - active
        if self._settings.replicas:
            self._looks.within(AFTER_CHANGE_S)
        else:
            self._looks.after(KEPT_S)

    def poll(self, active: frozenset[TaskId]) -> None:
        """Takes a picture that has come, and has another one made when it is time.

        :param active: the tasks of this member; a picture with others is of another moment.
        """
        picture: GroupPicture | None = self._looks.take()
        if picture is not None and self._topics is not None:
            self._warm_up.observe(picture)
            self._take(picture, self._topics.topology, active)
        is_filling = self._warm_up.is_filling
        if self._topics is None or not (self._settings.replicas or self.own or is_filling):
            return
        if self._looks.is_due:
            period_s = FILLING_INTERVAL_S if is_filling else PICTURE_INTERVAL_S
            self._looks.start(period_s, partial(read_picture, self._admin, self._topics, with_ends=is_filling))

    def _take(self, picture: GroupPicture, topology: GroupTopology, active: frozenset[TaskId]) -> None:
        settings = self._settings
        is_current = picture.is_alone and picture.held.get(settings.member) == active
        if not is_current or not picture.is_complete(topology.task_counts):
            self._looks.within(AFTER_CHANGE_S)
            return
        kept = standbys_of(picture, topology, settings.replicas, settings.tags)
        self._known.take(picture, kept)
        self.own = frozenset(task for task, names in kept.items() if settings.member in names)

    def close(self) -> None:
        """Ends it, without waiting for a picture."""
        self._looks.close()


class MemberCopies:
    """The copies that a member is to have, with how far it has come into its group. Used by its thread."""

    def __init__(self, admin: Admin, clock: Clock, standbys: StandbySettings, warm_ups: WarmUpSettings) -> None:
        self._admin = admin
        self.warm_up = WarmUp(clock, warm_ups)
        self._places = StandbyPlaces(admin, clock, standbys, self.warm_up)
        self._keeps_standbys = standbys.replicas > 0
        self._given: tuple[frozenset[TaskId], frozenset[TaskId]] = frozenset(), frozenset()
        self._subscribes_to_all = True

    def having(self) -> Mapping[TaskId, Mapping[str, int]]:
        """Returns what :meth:`StandbyPlaces.having` does."""
        return self._places.having()

    def begin(self, topics: ControlTopics) -> None:
        """Looks at the group that the member is to join.

        :raises RetryableError: if the coordinator or a broker does not answer.
        """
        self._places.begin(topics)
        self.warm_up.begin(self._admin, topics)

    def subscription(self, topics: ControlTopics) -> list[str]:
        """Returns the topics to subscribe to now."""
        self._subscribes_to_all = not self.warm_up.is_filling
        return self.warm_up.subscription(topics)

    def take(self) -> tuple[frozenset[TaskId], frozenset[TaskId]]:
        """Returns the standby copies, and those that are only here for tasks that move, such as those to fill. They are
        what the worker has from now on."""
        self._given = self._wanted
        return self._given

    @property
    def _wanted(self) -> tuple[frozenset[TaskId], frozenset[TaskId]]:
        own, filled = self._places.own, self.warm_up.wanted
        return (own, filled) if self._keeps_standbys else (frozenset(), own | filled)

    def changed(self, active: frozenset[TaskId], gone: frozenset[TaskId]) -> None:
        """Takes that the tasks of the member have changed."""
        self._places.changed(active, gone)

    def poll(self, active: frozenset[TaskId]) -> None:
        """Takes what is known of the group now.

        :param active: the tasks of the member.
        """
        self._places.poll(active)
        self.warm_up.poll()

    @property
    def must_subscribe(self) -> bool:
        """Whether the member is to subscribe to all topics now."""
        return not (self._subscribes_to_all or self.warm_up.is_filling)

    @property
    def has_others(self) -> bool:
        """Whether the worker is to have other copies than it took last."""
        return self._wanted != self._given

    def close(self) -> None:
        """Ends it, without waiting."""
        self._places.close()
