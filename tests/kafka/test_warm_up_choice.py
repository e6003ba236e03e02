"""The copies that a member fills before it joins, and the reports of members on their state."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from processor_api.clock import SystemClock
from processor_api.task_id import TaskId
from streams.kafka.membership.group_picture import Place
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.slot_reports import (
    BYTES_MAX,
    COPIED,
    OWNED,
    Coming,
    ReportedState,
    StateReport,
    report_in,
)
from streams.kafka.membership.spread import spread
from streams.kafka.membership.task_slots import SlotPlan
from streams.kafka.membership.warm_up import EXTRA, choose_warm_ups


def topology(counts: dict[int, int], logged: set[int]) -> GroupTopology:
    return GroupTopology(application_id="app", prefix="app", task_counts=counts, hash="0" * 8, logged=frozenset(logged))


def group(chance: Random, members: int, counts: dict[int, int]) -> dict[str, list[TaskId]]:
    """Gives each member as many tasks as any other, or one more."""
    tasks = [TaskId(part, number) for part, count in counts.items() for number in range(count)]
    chance.shuffle(tasks)
    return {f"m{number}": tasks[number::members] for number in range(members)}


def choice(
    held: dict[str, list[TaskId]], given: GroupTopology, member: str = "new", **directories: str
) -> list[TaskId]:
    places = {name: Place(directories.get(name, name), name) for name in (*held, member)}
    return choose_warm_ups(held, places, member, given, lambda task: 0)


@pytest.mark.parametrize("seed", range(40))
def test_a_member_copies_what_it_would_get(seed: int) -> None:
    """As many tasks as any other would have, and of each subtopology a fair part; two more at most."""
    chance = Random(seed)
    counts = {part: chance.randint(1, 9) for part in range(chance.randint(1, 3))}
    logged = {part for part in counts if chance.random() < 0.7}
    members = chance.randint(1, 4)
    held = group(chance, members, counts)
    found = choice(held, topology(counts, logged))
    assert len(found) == len(set(found))
    assert {task.subtopology for task in found} <= logged
    share = sum(counts.values()) // (members + 1)
    assert len(found) <= share + EXTRA
    per_part = Counter(task.subtopology for task in found)
    for part in logged:
        assert per_part[part] <= -(-counts[part] // (members + 1)) + EXTRA
    if logged == set(counts):
        assert len(found) >= share
    again = choice({name: list(reversed(tasks)) for name, tasks in reversed(held.items())}, topology(counts, logged))
    assert again == found


def test_tasks_come_from_the_owners_with_most() -> None:
    tasks = [TaskId(0, number) for number in range(9)]
    found = choice({"a": tasks[:5], "b": tasks[5:]}, topology({0: 9}, {0}))
    assert Counter(task in tasks[:5] for task in found) == {True: 2, False: 1}


def test_tasks_of_the_same_directory_come_first() -> None:
    """They need no copy."""
    tasks = [TaskId(0, number) for number in range(6)]
    found = choice({"a": tasks[:3], "b": tasks[3:]}, topology({0: 6}, {0}), new="d", a="d")
    assert set(found) & set(tasks[:3])


def test_preferred_tasks_come_first() -> None:
    tasks = [TaskId(0, number) for number in range(8)]
    places = {name: Place(name, name) for name in ("a", "new")}
    wanted = {TaskId(0, 6), TaskId(0, 1), TaskId(0, 3), TaskId(0, 4)}
    found = choose_warm_ups({"a": tasks}, places, "new", topology({0: 8}, {0}), lambda task: task not in wanted)
    assert set(found) == wanted


def test_reports_are_read_as_they_were_written() -> None:
    for coming in Coming:
        report = StateReport("a b-0%", coming, {TaskId(0, 3): 0, TaskId(1, 2): 4096})
        assert report_in(f"7 {report.encode()}") == report
    assert report_in("7") is None
    assert report_in("7 arriving m 0_x:1") is None
    assert report_in("7 unheard m -") is None
    large = StateReport("m", Coming.ARRIVING, {TaskId(0, number): number for number in range(5000)})
    assert len(large.encode()) <= BYTES_MAX
    found = report_in(f"7 {large.encode()}")
    assert found is not None
    assert found.lags.items() <= large.lags.items()


def test_a_plan_names_the_member_that_made_it() -> None:
    plan = SlotPlan(3, "0" * 8, {}, frozenset(), {TaskId(0, 0): "a", TaskId(0, 1): "b"}, "member/1=2,3;4 5")
    found = SlotPlan.decode(plan.encode())
    assert (found, found.owners, found.planner) == (plan, plan.owners, plan.planner)


def reported(held: dict[str, list[TaskId]], *reports: StateReport) -> ReportedState:
    state = ReportedState(SystemClock(), {0}, None)
    by_member = {one.member: f"0 {one.encode()}" for one in reports}
    texts = {max(tasks): by_member[name] for name, tasks in held.items() if name in by_member}
    state.read(held, lambda: texts, is_new=True)
    return state


def test_a_member_that_arrives_gets_the_tasks_that_it_has_copies_of() -> None:
    """The others go back to the member that had them."""
    t = [TaskId(0, number) for number in range(4)]
    held = {"old": t[:2], "new": t[2:]}
    state = reported(held, StateReport("new", Coming.ARRIVING, {t[0]: 0, t[2]: 0}))
    having = state.having(held, dict.fromkeys(t, "old"), {})
    assert having[t[0]] == {"old": OWNED, "new": COPIED}
    assert spread(held, having=having, closed=state.closed()) == [(t[3], t[0])]


def test_a_member_that_fills_copies_is_given_no_tasks_with_state() -> None:
    stateful, other = [TaskId(0, number) for number in range(4)], [TaskId(1, number) for number in range(4)]
    held = {"old": stateful, "new": other}
    state = reported(held, StateReport("new", Coming.FILLING))
    assert spread(held, closed=state.closed()) == []
    assert len(spread(held)) == 2


def test_lags_rank_the_copies_of_members() -> None:
    task = TaskId(0, 0)
    held = {"a": [TaskId(0, 1)], "b": [TaskId(0, 2)], "c": [task]}
    far = StateReport("a", Coming.SETTLED, {task: 1 << 20})
    near = StateReport("b", Coming.SETTLED, {task: 0})
    having = reported(held, far, near).having(held, {}, {task: {"a": COPIED, "b": COPIED}})
    assert having[task]["a"] < having[task]["b"] == COPIED
    assert spread(held, having=having) == [(task, TaskId(0, 2))]


def test_the_first_report_of_a_member_that_has_come_is_waited_for() -> None:
    state = ReportedState(SystemClock(), {0}, None)
    held = {"old": [TaskId(0, 0)]}
    assert not state.read(held, dict, is_new=True)
    held = {**held, "new": [TaskId(0, 1)]}
    assert state.read(held, dict, is_new=False)
    text = f"0 {StateReport('new', Coming.SETTLED).encode()}"
    assert not state.read(held, lambda: {TaskId(0, 1): text}, is_new=False)
