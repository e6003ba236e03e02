"""Which tasks of a thread have a turn, and that nothing is asked of those that have nothing to do."""

from __future__ import annotations

from typing import Any

from processor_api.task_id import TaskId
from streams.runtime.processing.punctuations import NEVER
from streams.runtime.threads.due_tasks import DueTasks


class Worker:
    """What a thread sees of a task."""

    def __init__(self, number: int) -> None:
        self.id = TaskId(0, number)
        self.records = 0
        self.next_wall_clock_ms = NEVER
        self.commit_needed = False
        self.asked = 0

    def has_records(self) -> bool:
        self.asked += 1
        return self.records > 0


class Kit:
    def __init__(self, count: int = 4) -> None:
        self.workers = [Worker(number) for number in range(count)]
        self.due = DueTasks()
        self.run_all()

    def run_all(self) -> None:
        """All of them run, in a mapping of their own."""
        running: Any = {one.id: one for one in self.workers}
        self.due.follow(running)

    def give(self, number: int, records: int = 1) -> None:
        worker: Any = self.workers[number]
        worker.records = records
        self.due.touched(worker)

    def turn(self, now_ms: int = 0, served: int | None = None) -> list[int]:
        found = self.due.in_turn(now_ms, None if served is None else TaskId(0, served))
        return [task.id.partition for task in found]


def test_only_tasks_with_records_have_a_turn() -> None:
    kit = Kit()
    assert kit.turn() == []
    kit.give(2)
    kit.give(0)
    assert kit.turn() == [0, 2]
    kit.give(2, 0)
    assert kit.turn() == [0]


def test_those_behind_the_last_one_go_first() -> None:
    """Also behind one that has nothing to do any more, or that is gone."""
    kit = Kit()
    for number in (0, 1, 3):
        kit.give(number)
    assert kit.turn(served=0) == [1, 3, 0]
    assert kit.turn(served=2) == [3, 0, 1]
    assert kit.turn(served=3) == [0, 1, 3]
    assert kit.turn(served=9) == [0, 1, 3]


def test_a_task_has_a_turn_when_the_wall_clock_comes_to_its_time() -> None:
    kit = Kit()
    kit.workers[1].next_wall_clock_ms = 100
    kit.give(1, 0)
    kit.workers[3].next_wall_clock_ms = 50
    kit.give(3, 0)
    assert (kit.due.next_wall_clock_ms, kit.turn(49), kit.turn(50), kit.turn(100)) == (50, [], [3], [1, 3])
    kit.workers[3].next_wall_clock_ms = NEVER
    kit.give(3, 0)
    assert (kit.due.next_wall_clock_ms, kit.turn(100)) == (100, [1])


def test_idle_tasks_are_asked_nothing() -> None:
    """A turn took as long as there are tasks: 400 idle ones cost 3 % of a core."""
    kit = Kit(100)
    kit.due.committed()
    before = sum(one.asked for one in kit.workers[:7] + kit.workers[8:])
    for _ in range(10):
        kit.give(7)
        kit.turn(10)
        kit.due.committed()
    assert sum(one.asked for one in kit.workers[:7] + kit.workers[8:]) == before
    assert kit.workers[7].asked > 10


def test_the_tasks_that_may_need_a_commit_are_known() -> None:
    """All that were touched, until a commit leaves nothing to do; a commit may schedule something too."""
    kit = Kit()
    kit.due.committed()
    assert list(kit.due.touched_tasks) == []
    kit.workers[1].commit_needed = kit.workers[2].commit_needed = True
    kit.give(1)
    kit.give(2)
    kit.workers[1].commit_needed = False
    kit.workers[1].next_wall_clock_ms = 70
    kit.due.committed()
    assert [task.id.partition for task in kit.due.touched_tasks] == [2]
    assert kit.due.next_wall_clock_ms == 70


def test_what_ran_before_is_forgotten_when_others_run() -> None:
    """A task that was opened again has nothing from before, and one that is gone has no turn."""
    kit = Kit()
    kit.give(0)
    kit.give(1)
    gone: Any = kit.workers.pop(1)
    kit.workers[0].records = 0
    kit.run_all()
    assert kit.turn() == []
    kit.due.touched(gone)
    assert kit.turn() == []
    assert [task.id.partition for task in kit.due.touched_tasks] == [0, 2, 3]
