"""The contract of memberships, whatever protocol they speak (`streams.kafka.membership.port.Membership`).

    class TestMine(MembershipContract):
        @pytest.fixture(autouse=True)
        def _kit(self): self.kit = MyKit(); yield; self.kit.close()

The kit makes workers of one group; each is driven by calling :meth:`Worker.turn` again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.port import GroupTopology, Membership, ShutdownRequested, Tasks
from streams.kafka.ports import OffsetAndMetadata

__all__ = ["MembershipContract", "MembershipKit", "Worker"]

COUNTS = {0: 4, 1: 2}
GROWING = 0
"""The subtopology that may get more tasks."""
TURNS_TO_LISTEN = 150
ALL = frozenset(TaskId(part, partition) for part, count in COUNTS.items() for partition in range(count))


class Worker:
    """One member, and the tasks that it owns."""

    def __init__(
        self, membership: Membership, poll: Callable[[], None], history: list[tuple[Worker, frozenset[TaskId]]]
    ):
        self.membership = membership
        self.owned: frozenset[TaskId] = frozenset()
        self.notified = 0
        self.shut_down: str | None = None
        """The reason of the request to shut down."""
        self._turns_with_tasks = 0
        self._poll = poll
        self._history = history

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        self.owned = tasks.active
        self.notified += 1
        self._history.append((self, tasks.active))

    def turn(self) -> None:
        """Runs one round of a worker's loop."""
        for step in (self._poll, self.membership.poll):
            try:
                step()
            except ShutdownRequested as error:
                self.shut_down = str(error)
        self._turns_with_tasks += self.notified > 0

    @property
    def listens(self) -> bool:
        """Whether the worker has run for some time since it got its tasks."""
        return self._turns_with_tasks > TURNS_TO_LISTEN


class MembershipKit(Protocol):
    """Makes members of one new group."""

    history: list[tuple[Worker, frozenset[TaskId]]]
    input: TopicPartition
    """An existing partition to commit offsets of."""

    def worker(self, topology: GroupTopology, instance: str) -> Worker: ...

    def topology(self, digest: str = "0" * 8, more: int = 0) -> GroupTopology:
        """Returns the topology of the group, with the task counts of :data:`COUNTS`, and ``more`` in the subtopology
        :data:`GROWING`."""
        ...

    reasons_arrive: bool
    """Whether a request to shut down carries its reason to the other members."""
    spreads_subtopologies: bool
    """Whether each subtopology is spread evenly, and not only all tasks together."""

    def committed(self) -> OffsetAndMetadata | None:
        """Returns the offset that the group has committed for `input`."""
        ...

    def until(self, condition: Callable[[], bool], workers: Collection[Worker], what: str) -> None:
        """Turns the workers until the condition holds; fails with ``what`` at a deadline."""
        ...

    def close(self) -> None: ...


class MembershipContract:
    """The rules of a membership, as tests; mix in with a fixture that sets ``self.kit``."""

    kit: MembershipKit

    def _joined(self, *names: str, digest: str = "0" * 8) -> list[Worker]:
        topology = self.kit.topology(digest)
        workers = [self.kit.worker(topology, name) for name in names]
        for worker in workers:
            worker.membership.join(topology, worker)
        return workers

    def _settled(self, workers: Collection[Worker]) -> None:
        def whole() -> bool:
            return frozenset().union(*(worker.owned for worker in workers)) == ALL and all(
                worker.owned for worker in workers
            )

        self.kit.until(whole, workers, "all tasks are owned, by all workers")

    def _never_twice(self) -> None:
        owned: dict[Worker, frozenset[TaskId]] = {}
        for worker, tasks in self.kit.history:
            owned[worker] = tasks
            others = [one for name, one in owned.items() if name is not worker]
            assert not any(tasks & one for one in others), "a task was owned by two workers"

    def test_one_worker_owns_all_tasks(self) -> None:
        """A single worker owns every task of every subtopology."""
        workers = self._joined("one")
        self._settled(workers)
        assert workers[0].owned == ALL

    def test_a_second_worker_takes_over_some_and_no_task_has_two_owners(self) -> None:
        """A task that moves is closed by the one before the other owns it."""
        (first,) = self._joined("one")
        self._settled([first])
        (second,) = self._joined("two")
        self._settled([first, second])
        self._never_twice()
        assert not first.owned & second.owned

    def test_a_worker_that_leaves_gives_its_tasks_to_the_others(self) -> None:
        """The others get the tasks at once, not after the session timeout."""
        first, second = self._joined("one", "two")
        self._settled([first, second])
        second.membership.leave()
        self.kit.until(lambda: first.owned == ALL, [first], "the tasks of the one that left are taken over")

    def test_each_subtopology_is_spread_evenly(self) -> None:
        """Workers differ by one task at most, after starts one by one, a restart, and a worker that leaves."""
        (first,) = self._joined("one")
        self._settled([first])
        (second,) = self._joined("two")
        self._even([first, second])
        first.membership.leave()
        (again,) = self._joined("one")
        self._even([again, second])
        (third,) = self._joined("three")
        self._even([again, second, third])
        second.membership.leave()
        self._even([again, third])
        self._never_twice()

    def _even(self, workers: Collection[Worker]) -> None:
        def even() -> bool:
            owned = [worker.owned for worker in workers]
            by_part = [[sum(task.subtopology == part for task in one) for one in owned] for part in COUNTS]
            whole = sum(map(len, owned)) == len(ALL) and frozenset().union(*owned) == ALL
            if not self.kit.spreads_subtopologies:
                by_part = [[len(one) for one in owned]]
            return whole and all(max(counts) - min(counts) <= 1 for counts in by_part)

        self.kit.until(even, workers, "every subtopology is spread evenly")

    def test_commits_of_a_member_are_the_groups(self) -> None:
        """The next owner of the task finds the commits."""
        (worker,) = self._joined("one")
        self._settled([worker])
        worker.membership.commit({self.kit.input: OffsetAndMetadata(3, "m")})
        assert self.kit.committed() == OffsetAndMetadata(3, "m")

    def test_a_member_that_left_commits_nothing(self) -> None:
        """The commit raises, and the group's offset stays."""
        first, second = self._joined("one", "two")
        self._settled([first, second])
        first.membership.commit({self.kit.input: OffsetAndMetadata(3)})
        second.membership.leave()
        refused = False
        try:
            second.membership.commit({self.kit.input: OffsetAndMetadata(1)})
        except Exception:  # the client decides which error a call after a close raises
            refused = True
        assert refused
        found = self.kit.committed()
        assert found is not None
        assert found.offset == 3

    def test_tasks_that_are_added_get_owners(self) -> None:
        """Any member may know of the tasks first; the others get theirs from the group."""
        workers = self._joined("one", "two")
        self._settled(workers)
        extended = self.kit.topology(more=3)
        workers[0].membership.extend(extended)
        every = {TaskId(part, number) for part, count in extended.task_counts.items() for number in range(count)}
        self.kit.until(
            lambda: frozenset().union(*(worker.owned for worker in workers)) == every,
            workers,
            "the new tasks are owned",
        )
        self._never_twice()
        workers[1].membership.extend(extended)
        late = self.kit.worker(extended, "three")
        late.membership.join(extended, late)
        self.kit.until(lambda: bool(late.owned), [*workers, late], "a third worker has tasks")

    def test_all_members_are_asked_to_shut_down(self) -> None:
        """Every member gets the reason; one that joins later does not."""
        asking, asked = self._joined("one", "two")
        self._settled([asking, asked])
        self.kit.until(lambda: asked.listens, [asking, asked], "requests are read")
        asking.membership.request_shutdown("a disk is full")
        self.kit.until(lambda: asked.shut_down is not None, [asked], "the other is asked")
        assert asked.shut_down is not None
        assert "a member of the application asked all of them to shut down: " in asked.shut_down
        assert asked.shut_down.endswith("a disk is full") or not self.kit.reasons_arrive
        for member in (asked, asking):  # a member without turns could own tasks, and never give them up
            member.membership.leave()
        (late,) = self._joined("three")
        self.kit.until(lambda: bool(late.owned) and late.listens, [late], "a later one has tasks")
        for _ in range(10):
            late.turn()
        assert late.shut_down is None

    def test_tasks_stay_closed_beside_members_of_another_topology(self) -> None:
        """Tasks are opened when those members have left."""
        (first,) = self._joined("one")
        self._settled([first])
        self.kit.until(first.membership.may_open, [first], "a worker alone may open its tasks")
        (other,) = self._joined("two", digest="f" * 8)
        self.kit.until(lambda: bool(other.owned), [first, other], "the second worker gets its tasks")
        assert not first.membership.is_blocked()
        assert not other.membership.may_open()
        self.kit.until(other.membership.is_blocked, [first, other], "the second worker says why its tasks stay closed")
        first.membership.leave()
        self.kit.until(lambda: other.owned == ALL, [other], "the second worker owns what the first had")
        self.kit.until(other.membership.may_open, [other], "it may open tasks now")
        assert not other.membership.is_blocked()
