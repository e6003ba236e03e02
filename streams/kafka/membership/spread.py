"""Chooses the tasks that the members of a group should exchange, so that each subtopology is spread evenly: a pure
function.

The group gives every member as many tasks as any other, or one more, and does not regard which tasks they are. An
exchange of two tasks leaves these numbers as they are. While one member has two tasks of a subtopology more than
another, it has fewer of some other subtopology, since their totals differ by one at most; to exchange one for one of
those makes the sum of the squares of all counts smaller. So exchanges always end, and then no two members differ by
more than one task in any subtopology.

Where a member lacks the state of a task that another one has, as its earlier owner or as the keeper of a standby copy,
the two exchange tasks of this subtopology if more state is where it is needed then.

When all members have left and come back, the group may give each member what another one had, whose state it lacks.
Then two members that each have a task of the other's exchange these, if they are of one subtopology.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from processor_api.task_id import TaskId

COMPARED_MAX = 50
"""Largest number of members of which each pair is compared, to find the exchange that costs least; of more members only
those with the most and the fewest tasks of a subtopology are compared."""


class _Exchange(NamedTuple):
    """An exchange of a task of one member for a task of another one."""

    giver: str
    given: TaskId
    taker: str
    taken: TaskId


def spread(
    held: Mapping[str, Collection[TaskId]],
    workers: Mapping[str, str] | None = None,
    former: Mapping[TaskId, str] | None = None,
    settled: Mapping[TaskId, str] | None = None,
    having: Mapping[TaskId, Mapping[str, int]] | None = None,
    *,
    closed: Mapping[str, Collection[int]] | None = None,
) -> list[tuple[TaskId, TaskId]]:
    """Returns the exchanges to make, in order: each of a task of one member for a task of another.

    No two members have then more than one task of difference in any subtopology, if their totals differ by one at most.
    Exchanges also even out the tasks of workers with the same number of members, as far as possible. Of equally good
    exchanges, those that give tasks back to their earlier members come first. The same input always gives the same
    result.

    :param held: the tasks of each member.
    :param workers: the process of each member; each has one of its own if not given.
    :param former: the members that had the tasks before the group assigned them, as far as they are known.
    :param settled: the members that had them for a time, and may have their state.
    :param having: the members that have the state of each task, with a number that is greater the more of it they have.
    :param closed: the subtopologies of which a member takes no tasks, such as before it has copies of some.
    """
    state = _Spread(held, workers or {}, former or {}, settled or {}, having or {}, closed or {})
    steps = state.between_members, state.between_workers, state.to_state, state.giving_back
    while (found := next((one for step in steps if (one := step()) is not None), None)) is not None:
        state.make(found)
    return state.exchanges


class _Spread:
    def __init__(
        self,
        held: Mapping[str, Collection[TaskId]],
        workers: Mapping[str, str],
        former: Mapping[TaskId, str],
        settled: Mapping[TaskId, str],
        having: Mapping[TaskId, Mapping[str, int]],
        closed: Mapping[str, Collection[int]],
    ) -> None:
        self.exchanges: list[tuple[TaskId, TaskId]] = []
        self._former = former
        self._settled = settled
        self._having = having
        self._closed = closed
        self._members = sorted(held)
        self._held = {name: sorted(tasks, reverse=True) for name, tasks in held.items()}
        self._parts = sorted({task.subtopology for tasks in held.values() for task in tasks})
        self._counts = {name: Counter(task.subtopology for task in tasks) for name, tasks in held.items()}
        self._workers = {name: workers.get(name, name) for name in held}
        self._threads = Counter(self._workers.values())
        self._of_worker: dict[str, Counter[int]] = {worker: Counter() for worker in self._threads}
        for name, counts in self._counts.items():
            self._of_worker[self._workers[name]] += counts

    def _worker_count(self, name: str, part: int) -> int:
        return self._of_worker[self._workers[name]][part]

    def _may(self, giver: str, part: int, taker: str, other: int) -> bool:
        """Whether the members may exchange tasks of these subtopologies."""
        return part not in self._closed.get(taker, ()) and other not in self._closed.get(giver, ())

    # ------------------------------------------------------------------ between members

    def between_members(self) -> _Exchange | None:
        """Returns the best exchange between members that differ by two or more in a subtopology."""
        best: tuple[tuple[int, int, int], _Exchange] | None = None
        for part in self._parts:
            for giver, taker in self._uneven(part):
                for other in self._parts:
                    fits = self._counts[taker][other] > self._counts[giver][other]
                    if fits and self._may(giver, part, taker, other):
                        found = self._cheapest(giver, part, taker, other)
                        rank = (self._cost(found), -self._gain(found), self._worker_gain(found))
                        if best is None or rank < best[0]:
                            best = rank, found
        return None if best is None else best[1]

    def _uneven(self, part: int) -> Iterator[tuple[str, str]]:
        counts = self._counts
        givers = takers = self._members
        if len(self._members) > COMPARED_MAX:
            givers = [max(self._members, key=lambda name: counts[name][part])]
            takers = [min(self._members, key=lambda name: counts[name][part])]
        for giver in givers:
            for taker in takers:
                if counts[giver][part] - counts[taker][part] >= 2:
                    yield giver, taker

    def _cheapest(self, giver: str, part: int, taker: str, other: int) -> _Exchange:
        """Returns the tasks of these subtopologies whose exchange gives the fewest tasks to another owner than
        before."""
        given = min(self._of(giver, part), key=lambda task: self._price(task, giver, taker))
        taken = min(self._of(taker, other), key=lambda task: self._price(task, taker, giver))
        return _Exchange(giver, given, taker, taken)

    def _price(self, task: TaskId, giver: str, taker: str) -> tuple[int, int]:
        """Returns what it costs that a task moves: the first number decides, then how little of its state moves."""
        having = self._having.get(task, {})
        return self._moves(task, giver, taker), having.get(giver, 0) - having.get(taker, 0)

    def _of(self, name: str, part: int) -> list[TaskId]:
        return [task for task in self._held[name] if task.subtopology == part]

    def _moves(self, task: TaskId, giver: str, taker: str) -> int:
        """Returns how many more tasks are away from their earlier owner when this one moves."""
        before = self._former.get(task, giver)
        return (before != taker) - (before != giver)

    def _cost(self, one: _Exchange) -> int:
        return self._moves(one.given, one.giver, one.taker) + self._moves(one.taken, one.taker, one.giver)

    def _gain(self, one: _Exchange) -> int:
        """Returns by how much the exchange brings the two members together."""
        giver, taker = self._counts[one.giver], self._counts[one.taker]
        part, other = one.given.subtopology, one.taken.subtopology
        return giver[part] - taker[part] + taker[other] - giver[other]

    def _worker_gain(self, one: _Exchange) -> int:
        """Returns a number that is smaller the more the exchange brings the workers of the two together."""
        part, other = one.given.subtopology, one.taken.subtopology
        apart = self._worker_count(one.taker, part) - self._worker_count(one.giver, part)
        return apart + self._worker_count(one.giver, other) - self._worker_count(one.taker, other)

    # ------------------------------------------------------------------ between workers

    def between_workers(self) -> _Exchange | None:
        """Returns an exchange between workers with as many members that differ by two or more, where members stay
        even."""
        if len(self._threads) == len(self._members):
            return None  # each worker is one member: then members that are even are even workers
        for part in self._parts:
            for giver in self._members:
                for taker in self._members:
                    other = self._even_part(giver, taker, part)
                    if other is not None:
                        return self._cheapest(giver, part, taker, other)
        return None

    def _even_part(self, giver: str, taker: str, part: int) -> int | None:
        alike = self._threads[self._workers[giver]] == self._threads[self._workers[taker]]
        apart = self._worker_count(giver, part) - self._worker_count(taker, part) >= 2
        if not (alike and apart and self._counts[giver][part] > self._counts[taker][part]):
            return None
        for other in self._parts:
            even = self._counts[taker][other] > self._counts[giver][other]
            even = even and self._worker_count(taker, other) > self._worker_count(giver, other)
            if even and self._may(giver, part, taker, other):
                return other
        return None

    # ------------------------------------------------------------------ to the state

    def to_state(self) -> _Exchange | None:
        """Returns the exchange of two tasks of one subtopology that brings most tasks to members with their state."""
        best: tuple[int, _Exchange] | None = None
        for giver in self._members:
            for given in self._held[giver]:
                found = self._having.get(given, {})
                for taker in sorted(found.keys() & self._held.keys()):
                    if taker == giver or found[taker] <= found.get(giver, 0):
                        continue
                    for taken in self._for(giver, given.subtopology, taker):
                        exchange = _Exchange(giver, given, taker, taken)
                        gain = self._state_gain(exchange)
                        if gain > 0 and (best is None or gain > best[0]):
                            best = gain, exchange
        return None if best is None else best[1]

    def _for(self, giver: str, part: int, taker: str) -> Iterator[TaskId]:
        """Yields the tasks of a member that it may give for one of a subtopology, so that all stay as even as they are:
        those of the same one, and of others of which it has one more, for one of which the other has one more."""
        uneven = self._counts[giver][part] - self._counts[taker][part] == 1
        alone = len(self._threads) == len(self._members)
        for taken in self._held[taker]:
            other = taken.subtopology
            fits = alone and uneven and self._counts[taker][other] - self._counts[giver][other] == 1
            if (other == part or fits) and self._may(giver, part, taker, other):
                yield taken

    def _state_gain(self, one: _Exchange) -> int:
        """Returns how much more state is where it is needed after an exchange."""
        given, taken = self._having.get(one.given, {}), self._having.get(one.taken, {})
        after = given.get(one.taker, 0) + taken.get(one.giver, 0)
        return after - given.get(one.giver, 0) - taken.get(one.taker, 0)

    # ------------------------------------------------------------------ giving back

    def giving_back(self) -> _Exchange | None:
        """Returns an exchange of two tasks of one subtopology that gives both back to the members that had them
        before."""
        for giver in self._members:
            for given in self._held[giver]:
                taker = self._settled.get(given, giver)
                if taker == giver or taker not in self._held:
                    continue
                part = given.subtopology
                for taken in self._of(taker, part) if self._may(giver, part, taker, part) else ():
                    exchange = _Exchange(giver, given, taker, taken)
                    if self._settled.get(taken) == giver and self._state_gain(exchange) >= 0:
                        return exchange
        return None

    # ------------------------------------------------------------------ making it

    def make(self, one: _Exchange) -> None:
        self.exchanges.append((one.given, one.taken))
        for name, gone, come in ((one.giver, one.given, one.taken), (one.taker, one.taken, one.given)):
            self._held[name].remove(gone)
            self._held[name] = sorted([*self._held[name], come], reverse=True)
            for counts in (self._counts[name], self._of_worker[self._workers[name]]):
                counts[gone.subtopology] -= 1
                counts[come.subtopology] += 1
