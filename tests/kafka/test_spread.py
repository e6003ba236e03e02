"""Exchanges of tasks that spread every subtopology evenly."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.task_id import TaskId
from streams.kafka.membership.spread import spread


def dealt(counts: list[int], members: int, order: list[int]) -> dict[str, list[TaskId]]:
    """All tasks, dealt out in some order; the first members have one more."""
    tasks = [TaskId(part, partition) for part, count in enumerate(counts) for partition in range(count)]
    tasks = [task for _, task in sorted(zip(order, tasks, strict=False))]
    size, more = divmod(len(tasks), members)
    held, at = {}, 0
    for number in range(members):
        end = at + size + (number < more)
        held[f"m{number}"] = tasks[at:end]
        at = end
    return held


def after(held: dict[str, list[TaskId]], exchanges: list[tuple[TaskId, TaskId]]) -> dict[str, set[TaskId]]:
    owner = {task: name for name, tasks in held.items() for task in tasks}
    for first, second in exchanges:
        assert owner[first] != owner[second]
        owner[first], owner[second] = owner[second], owner[first]
    return {name: {task for task, one in owner.items() if one == name} for name in held}


GROUPS = st.integers(1, 6).flatmap(
    lambda members: st.lists(st.integers(1, 9), min_size=1, max_size=5).flatmap(
        lambda counts: st.permutations(range(sum(counts))).map(lambda order: (counts, members, list(order)))
    )
)


@given(GROUPS)
def test_no_two_members_differ_by_more_than_a_task_in_any_subtopology(group: tuple[list[int], int, list[int]]) -> None:
    """Whatever the group dealt out; each has as many tasks as before."""
    counts, members, order = group
    held = dealt(counts, members, order)
    found = after(held, spread(held))
    for name, tasks in found.items():
        assert len(tasks) == len(held[name])
    by_part = [Counter(task.subtopology for task in tasks) for tasks in found.values()]
    for part in range(len(counts)):
        numbers = [one[part] for one in by_part]
        assert max(numbers) - min(numbers) <= 1


@given(GROUPS)
def test_what_is_even_stays(group: tuple[list[int], int, list[int]]) -> None:
    """A second look asks for nothing; no task is exchanged twice without need."""
    counts, members, order = group
    held = dealt(counts, members, order)
    found = after(held, spread(held))
    assert spread(found) == []


def test_tasks_go_back_to_the_members_that_had_them() -> None:
    """Where all is even, only those of one subtopology change places."""
    a, b = [TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)], [TaskId(0, 2), TaskId(0, 3), TaskId(1, 1)]
    settled = {**dict.fromkeys(a, "b"), **dict.fromkeys(b, "a")}
    found = after({"a": a, "b": b}, spread({"a": a, "b": b}, settled=settled))
    assert {name: sorted(tasks) for name, tasks in found.items()} == {"a": b, "b": a}
    assert spread(found, settled=settled) == []
    assert spread({"a": a, "b": b}, settled=dict.fromkeys(b, "a")) == [], "nothing of a's was b's"


def test_as_few_tasks_move_as_that_takes() -> None:
    """Half of each subtopology."""
    held = {"a": [TaskId(0, n) for n in range(4)], "b": [TaskId(1, n) for n in range(4)]}
    assert len(spread(held)) == 2


@given(st.integers(2, 3), st.integers(2, 3), GROUPS)
def test_members_of_a_worker_even_it_out_with_other_workers(
    workers: int, threads: int, group: tuple[list[int], int, list[int]]
) -> None:
    """Members stay even; what workers differ by is never more than their totals and threads leave open."""
    counts, _, order = group
    held = dealt(counts, workers * threads, order)
    processes = {name: f"w{number % workers}" for number, name in enumerate(sorted(held))}
    found = after(held, spread(held, processes))
    by_member = {name: Counter(task.subtopology for task in tasks) for name, tasks in found.items()}
    for part in range(len(counts)):
        for first, second in combinations(found, 2):
            assert abs(by_member[first][part] - by_member[second][part]) <= 1
        by_worker = Counter[str]()
        for name, one in by_member.items():
            by_worker[processes[name]] += one[part]
        assert max(by_worker.values()) - min(by_worker.values()) <= threads


def test_tasks_without_state_go_where_it_is_if_as_many_come_back() -> None:
    """A member that has gone leaves tasks to others; the copy of one is elsewhere than the group has put it."""
    a, b = [TaskId(0, 0), TaskId(0, 1), TaskId(0, 4)], [TaskId(0, 2), TaskId(0, 3), TaskId(0, 5)]
    own = {**{task: {"a": 10} for task in a[:2]}, **{task: {"b": 10} for task in b[:2]}}
    swapped = {**own, TaskId(0, 4): {"b": 9}, TaskId(0, 5): {"a": 9}}
    assert spread({"a": a, "b": b}, having=swapped) == [(TaskId(0, 4), TaskId(0, 5))]
    # what runs with its state goes only where a copy of it is
    assert spread({"a": a, "b": b}, having={**own, TaskId(0, 4): {"b": 9}}) == [(TaskId(0, 4), TaskId(0, 5))]
    lent = {**own, TaskId(0, 5): {"b": 10}, TaskId(0, 4): {"b": 9}}
    assert spread({"a": a, "b": b}, having=lent) == []
    copied = {**lent, TaskId(0, 2): {"b": 10, "a": 9}}
    assert spread({"a": a, "b": b}, having=copied) == [(TaskId(0, 4), TaskId(0, 2))]


@pytest.mark.parametrize("seed", range(40))
def test_exchanges_for_state_end_and_keep_the_spread(seed: int) -> None:
    chance = Random(seed)
    names = [f"m{number}" for number in range(chance.randint(2, 5))]
    tasks = [TaskId(part, number) for part in range(chance.randint(1, 3)) for number in range(chance.randint(1, 8))]
    chance.shuffle(tasks)
    held = {name: tasks[number :: len(names)] for number, name in enumerate(names)}
    having = {task: {name: chance.choice((0, 8, 9, 10)) for name in names} for task in tasks}
    settled = {task: chance.choice(names) for task in tasks}
    found = after(held, spread(held, settled=settled, having=having))
    for part in {task.subtopology for task in tasks}:
        counts = [sum(task.subtopology == part for task in found[name]) for name in names]
        assert max(counts) - min(counts) <= 1
    owner = {task: name for name, own in found.items() for task in own}
    for one, other in combinations(tasks, 2):
        if one.subtopology == other.subtopology:
            now = having[one][owner[one]] + having[other][owner[other]]
            assert having[one][owner[other]] + having[other][owner[one]] <= now, "an exchange would bring more state"
