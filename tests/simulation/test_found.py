"""Schedules and seeds that once found something: each lost records, counted twice, or ended the application.

Seeds of the simulation say other things when the code makes other steps, so that what they found is also written down
as a schedule wherever a short one shows it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import plan, run_seed
from streams.testing.simulation.schedule import Shape

EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}


def fails(application: str, seed: int, actions: list[Action], shape: Shape, **settings: object) -> str:
    """What the run of a schedule found; empty if nothing."""
    _, scenario = scenario_of(seed, application)
    scenario = replace(scenario, settings={**scenario.settings, **EXACTLY_ONCE, **settings})
    found = run_seed(scenario, seed, shape, actions).failure
    return "" if found is None else str(found)


def shape(workers: int = 2, threads: int = 1, *, steps: int = 2500, wraps: bool = True) -> Shape:
    return Shape(workers, threads, 0.1, replaces_threads=True, wraps=wraps, steps=steps)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_replaced_member_punctuated_is_not_committed(seed: int) -> None:
    """A transaction with punctuation output alone carried no offsets, so that the group fenced nobody."""
    freeze = Action("freeze", at=200 + 40 * seed, worker=seed % 2, call="commit_transaction", seconds=60.0)
    assert fails("punctuated", seed, [freeze], shape(wraps=False), **{"commit.interval.ms": 500}) == ""


@pytest.mark.parametrize("seed", range(4))
def test_init_may_forward_and_write(seed: int) -> None:
    """Under exactly once it had no transaction, and the thread died."""
    assert fails("init-forwards", seed, [], shape()) == ""


@pytest.mark.parametrize("seed", range(4))
def test_a_stateless_application_survives_added_partitions(seed: int) -> None:
    """Its workers ended, and each start after that was refused."""
    added = [Action("partitions", at=300), Action("stop", at=900, worker=1, seconds=1.0)]
    assert fails("stateless", seed, added, shape()) == ""


@pytest.mark.parametrize(
    ("seed", "made", "actions"),
    [
        (20216, Shape(2, 2, 0.02, True, False, 2500), [Action("outage", 633, 1, seconds=20.0), Action("cut", 1173)]),
        (20271, Shape(1, 1, 0.02, True, False, 1500), [Action("outage", 498, seconds=100.0), Action("cut", 1118)]),
    ],
)
def test_a_sources_own_policy_holds_where_its_offset_is_gone(seed: int, made: Shape, actions: list[Action]) -> None:
    """The client knew the application's policy alone, and records that were still there were passed over."""
    assert fails("cut", seed, actions, made) == ""


@pytest.mark.parametrize(
    ("seed", "made", "actions"),
    [
        (20174, Shape(1, 1, 0.1, False, False, 2500), [Action("join", 1573), Action("truncate", 1621)]),
        (
            20218,
            Shape(1, 2, 0.6, True, False, 2500),
            [Action("join", 415), Action("outage", 518, seconds=3.0), Action("truncate", 635)],
        ),
    ],
)
def test_a_changelog_that_is_cut_during_a_restore_restores_the_store(
    seed: int, made: Shape, actions: list[Action]
) -> None:
    """The application ended with an error of the changelog."""
    _, scenario = scenario_of(seed, "count")
    assert run_seed(scenario, seed, made, actions).failure is None


@pytest.mark.parametrize(
    ("seed", "what"),
    [(4, "kill"), (5, "kill"), (6, "fence"), (23, "fence"), (35, "expire"), (36, "fence"), (37, "kill")],
)
def test_offsets_of_tasks_that_moved_on_are_not_committed_again(seed: int, what: str) -> None:
    """A former owner rewound committed offsets when it renewed those that it remembered, hours later."""
    actions = [
        Action(what, at=1000),
        Action("add thread", at=1003 + 7 * (seed % 30)),
        Action("leap", at=2000, seconds=13 * 3600.0),
        Action("leap", at=2300, seconds=13 * 3600.0),
    ]
    made = Shape(1, 1, 0.1 if seed < 30 else 0.4, True, True, 2500)
    assert fails("count", seed, actions, made) == ""


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_behind_the_open_transaction_of_a_former_owner(seed: int) -> None:
    """A store was restored up to the first record of a dead process's transaction only, and what its successor had
    committed after that was lost."""
    actions = [
        Action("kill, empty", at=500 + 30 * seed, worker=0, call="flush", seconds=0.2),
        Action("kill", at=1000 + 30 * seed, worker=0, seconds=0.2),
        Action("kill", at=1500 + 30 * seed, worker=0, call="commit_transaction done", seconds=0.2),
    ]
    assert fails("numbered", seed, actions, shape(workers=1, threads=2)) == ""
    assert fails("count", seed, actions, shape(workers=1, threads=2)) == ""


@pytest.mark.parametrize("seed", range(4))
def test_a_machine_that_slept_tries_again(seed: int) -> None:
    """One error before hours of sleep and one after it were taken for hours of trouble, and the thread died."""
    actions = [
        Action("fault", at=400, worker=0, call="commit_transaction", detail="wants an abort"),
        Action("leap", at=420, seconds=3600.0),
        Action("fault", at=421, worker=0, call="send_offsets", detail="wants an abort"),
    ]
    assert fails("numbered", seed, actions, shape(workers=1)) == ""


@pytest.mark.parametrize("seed", range(4))
def test_tasks_of_a_client_that_takes_no_more_calls_are_closed(seed: int) -> None:
    """They stayed open, and their locks taken, so that nobody could open them again."""
    actions = [Action("fault", at=400, worker=0, call="commit", seconds=2.0, detail="does not come back")]
    guarantee = {"processing.guarantee": "at_least_once"}
    assert fails("count", seed, actions, shape(workers=1), **guarantee) == ""


@pytest.mark.parametrize("hours", [1, 24])
def test_a_clock_that_is_set_back_holds_no_window_up(hours: int) -> None:
    """Windows that had closed were not sent on until the clock had caught up, which another record had to find out."""
    actions = [Action("clock", at=500, worker=0, seconds=-3600.0 * hours)]
    assert fails("final-windows", 1007, actions, shape(workers=1)) == ""


def test_a_topic_of_a_pattern_that_is_gone_again_at_once_ends_nothing() -> None:
    """A topic was made and deleted within a second, between the list of topics and the question where it starts."""
    actions = [Action("topic", at=989, worker=0), Action("topic", at=1082, worker=2)]
    assert fails("pattern", 300175, actions, Shape(3, 1, 0.02, replaces_threads=True, wraps=True, steps=1500)) == ""


@pytest.mark.parametrize(
    ("seed", "application"),
    [
        (169, "count"),  # a purge went ahead of the committed offset, past a transaction's marker
        (6, "punctuated"),
        (30220, "count"),
        (30282, "count"),
        (30601, "count"),
        (20174, "count"),
        (20216, "cut"),
        (98, "stateless"),
        (128, "outer-joined"),  # a clock was set back, and records without a partner waited for it to catch up
        (1007, "final-windows"),  # the same of windows that had closed
        (1206, "foreign-keys"),  # a left row changed while the deletion of its result was under way
        (1239, "foreign-keys"),
        (9009, "foreign-keys"),  # an answer was compared with a row that waited in a cache, and was deleted there
        (2327, "tables-joined"),  # both sides of a row were deleted at once
        (3005, "joins-grouped"),  # a row was taken out of a group that it never was in
        (910177, "suppressed-windows"),  # a session that was read pushed out another that was to be read next
        (
            3001326,
            "table-joined",
        ),  # a worker that stood still at its start took the offsets that it had read for those of now
        (
            3000735,
            "suppressed-windows",
        ),  # a drain of a full cache forgot a row that it knew, before the engine had it
        (3001712, "suppressed-windows"),  # the same, at least once
        (3001973, "suppressed-windows"),
        (
            3000832,
            "session-windows",
        ),  # at least once, the changelog had the deletion of a session and not what it became
        (3001476, "table-joined"),  # a leap of the clock counted as hours of tries
        (7002386, "final-windows"),  # a client that was given up in a commit left its tasks open, and their locks taken
        (52000274, "final-windows-in-parts"),  # a restore left out windows that were not sent on yet, at least once
        (130000768, "copies-of-count"),  # a full disk, and a rebalance in the middle of a transaction
        (130001856, "copies-of-count"),  # a thread was removed whose last commit did not come back
        (130005845, "warm-ups-of-count"),  # the same of the commit before the last
        (
            130004888,
            "warm-ups-of-count",
        ),  # a standby could not become active on a full disk, and kept its lock for ever
        (130007274, "warm-ups-of-merged"),
        (140000477, "copies-of-count"),  # the group was asked with an offset that was before the one it had
        (
            140000034,
            "copies-of-count",
        ),  # the simulation took the copy of a thread in the user's code for one that is done
        (180006530, "pattern-in-streams-group"),  # the group was asked with the offset of a topic that was deleted
        (1102, "registry-away"),  # a task that went back for two reasons was to commit a record that it had not read
        (1093, "sliding"),  # a full cache that could not be logged tried to make room until the stack was full
    ],
)
def test_seeds_that_found_something_find_nothing_now(seed: int, application: str) -> None:
    _, scenario = scenario_of(seed, application)
    found = run_seed(scenario, seed, *plan(seed)).failure
    assert found is None, str(found)


@pytest.mark.parametrize(("seed", "at"), [(52000274, 620), (52000277, 620), (52000277, 644)])
def test_windows_that_were_not_sent_on_are_restored(seed: int, at: int) -> None:
    """At least once, the record that closed them was on the changelog, and no offset said that they were left."""
    in_parts = {"final.results.part.rows": 1, "statestore.uncommitted.max.bytes": 1, "commit.interval.ms": 3000}
    often = {"max.poll.records": 1000, "buffered.records.per.partition": 2, "processing.guarantee": "at_least_once"}
    killed = Action("kill, empty", at=at, call="commit", seconds=1.0)
    made = shape(1, steps=1500, wraps=False)
    assert fails("final-windows-in-parts", seed, [killed], made, **in_parts, **often) == ""


def test_a_worker_that_was_replaced_and_has_state_in_memory_is_waited_for() -> None:
    """The simulation took rows of its old engine for those of the task."""
    _, scenario = scenario_of(401629, "foreign-keys")
    drawn, _ = plan(401629)
    slow = Action("slow", at=1243, worker=1, seconds=400.0)
    assert run_seed(scenario, 401629, drawn, [slow]).failure is None


def test_a_store_that_a_deployment_moved_leaves_rows_with_its_former_task() -> None:
    """The simulation took them for rows of the task as it is now."""
    _, scenario = scenario_of(7382, "table-graphs")
    made = Shape(workers=1, threads=1, switching=0.6, replaces_threads=True, wraps=False, steps=1500)
    assert run_seed(scenario, 7382, made, [Action("deploy", at=1497)]).failure is None


NO_ROOM = {
    "commit.interval.ms": 3000,
    "statestore.cache.max.bytes": 0,
    "statestore.uncommitted.max.bytes": 2000,
    "max.poll.records": 5,
}


@pytest.mark.parametrize(
    ("application", "seed"),
    [
        *(("count", seed) for seed in (0, 16, 23)),
        *(("copies-of-count", seed) for seed in (1, 2, 6, 7, 14, 31)),
    ],
)
def test_tasks_that_go_away_while_the_disk_is_full_leave_nothing_in_the_transaction(
    application: str, seed: int
) -> None:
    """Their results were committed with the next offsets of the others, without their own, and came twice; and a
    standby that was to become active was lost, with its lock."""
    full = Action("full disk", at=500 + 10 * seed, worker=seed % 2, seconds=15.0)
    thread = Action("add thread", at=540 + 10 * seed, worker=seed % 2)
    assert fails(application, seed, [full, thread], shape(wraps=False), **NO_ROOM) == ""


@pytest.mark.parametrize(
    ("application", "seed"),
    [*(("pattern", seed) for seed in (34, 35, 38)), *(("pattern-in-streams-group", seed) for seed in (34, 36, 38))],
)
def test_the_group_is_asked_without_the_offsets_of_deleted_topics(application: str, seed: int) -> None:
    """At least once a worker asks before it logs whether it has its place, with offsets that the group has. Brokers
    refuse those of a topic that was deleted, and the worker committed nothing any more."""
    made = Action("topic", at=250 + 7 * seed, worker=0)
    deleted = Action("topic", at=500 + 11 * seed, worker=0)
    again = Action("fault", at=900, worker=seed % 2, call="commit", detail="_DESTROY", seconds=2.0)
    settings = {"processing.guarantee": "at_least_once"}
    assert fails(application, seed, [made, deleted, again], shape(wraps=False), **settings) == ""
