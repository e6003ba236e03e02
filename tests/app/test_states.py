"""States of the application, its threads and its tasks, and listeners (semantics 130)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import InternalError, MissingTopicError, StreamsError
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from runtime_support.running_app import Cluster, counting, passing_on
from runtime_support.task_kit import TaskKit
from streams.app.states import NEXT, ClientState, StateMachine
from streams.runtime.tasks.task import TaskState
from streams.runtime.threads.thread_state import NEXT as NEXT_OF_THREADS
from streams.runtime.threads.thread_state import ThreadState, check_step
from waiting import wait_until

C, T = ClientState, ThreadState


def machine_in(state: ClientState) -> StateMachine:
    """A machine that went the shortest way to a state."""
    ways = [[C.CREATED]]
    while ways[0][-1] is not state:
        way = ways.pop(0)
        ways += [[*way, following] for following in NEXT[way[-1]]]
    machine = StateMachine()
    for step in ways[0][1:]:
        machine.become(step)
    return machine


@pytest.mark.parametrize(("old", "new"), list(itertools.product(C, C)))
def test_an_application_takes_the_steps_of_kafka_streams_only(old: ClientState, new: ClientState) -> None:
    """What is asked for too late is passed over; what nobody may ask for is a bug."""
    machine = machine_in(old)
    told: list[Any] = []
    machine.listener = lambda *states: told.append(states)
    if new in NEXT[old]:
        assert machine.become(new)
        assert told == [(new, old)]
        return
    ending = old in (C.PENDING_SHUTDOWN, C.PENDING_ERROR) and new not in (C.CREATED, C.NOT_RUNNING, C.ERROR)
    if old is new or old.has_ended() or ending:
        assert not machine.become(new)
    else:
        with pytest.raises(InternalError, match=f"cannot go from {old} to {new}"):
            machine.become(new)
    assert (machine.state, told) == (old, [])


def test_the_steps_of_a_thread() -> None:
    """As in Kafka Streams' StreamThread."""
    allowed = {
        T.CREATED: {T.STARTING, T.PENDING_SHUTDOWN},
        T.STARTING: {T.PARTITIONS_REVOKED, T.PARTITIONS_ASSIGNED, T.PENDING_SHUTDOWN},
        T.PARTITIONS_REVOKED: {T.PARTITIONS_REVOKED, T.PARTITIONS_ASSIGNED, T.PENDING_SHUTDOWN},
        T.PARTITIONS_ASSIGNED: {T.PARTITIONS_REVOKED, T.PARTITIONS_ASSIGNED, T.RUNNING, T.PENDING_SHUTDOWN},
        T.RUNNING: {T.PARTITIONS_REVOKED, T.PARTITIONS_ASSIGNED, T.RUNNING, T.PENDING_SHUTDOWN},
        T.PENDING_SHUTDOWN: {T.DEAD},
        T.DEAD: set(),
    }
    assert {state: set(following) for state, following in NEXT_OF_THREADS.items()} == allowed
    with pytest.raises(InternalError, match="a stream thread cannot go from CREATED to RUNNING"):
        check_step(T.CREATED, T.RUNNING)


def test_the_steps_of_a_task(tmp_path: Path) -> None:
    """It is suspended before it is closed; after an abort it is revived."""
    with TaskKit(passing_on(), tmp_path, start=False) as kit:
        states = []
        kit.task.become = lambda state, become=kit.task.become: (states.append(state), become(state))  # type: ignore[method-assign]
        kit.task.start(kit.collector, {})
        kit.task.roll_back()
        with pytest.raises(InternalError, match="a task cannot go from CREATED to RUNNING"):
            kit.task.become(TaskState.RUNNING)
        kit.task.roll_back()
        states.pop()
        kit.task.start(kit.collector, {})
        kit.task.close()
    up, down = [TaskState.RESTORING, TaskState.RUNNING], [TaskState.SUSPENDED, TaskState.CLOSED]
    assert states == [*up, *down, TaskState.CREATED, *up, *down]


def test_a_listener_is_told_of_every_step(cluster: Cluster) -> None:
    app = cluster.app(passing_on())
    cluster.until_state(app, C.RUNNING)
    assert app.close(60)
    assert cluster.states[app] == [
        (C.CREATED, C.REBALANCING),
        (C.REBALANCING, C.RUNNING),
        (C.RUNNING, C.PENDING_SHUTDOWN),
        (C.PENDING_SHUTDOWN, C.NOT_RUNNING),
    ]


def test_an_application_runs_when_all_of_its_threads_do(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(partitions=4)
    app = cluster.app(passing_on(), {"num.stream.threads": 3})
    cluster.until_state(app, C.RUNNING)
    assert {one.thread_state for one in app.metadata_for_local_threads()} == {"RUNNING"}
    assert len(app.tasks()) == 3

    def partitions() -> list[int]:
        return sorted(task.partition for tasks in app.tasks().values() for task in tasks)

    wait_until("each task has a thread", lambda: partitions() == [0, 1, 2, 3])  # threads may exchange them


def test_a_rebalance_is_seen(make_cluster: Callable[..., Cluster]) -> None:
    """Who loses tasks to a new member rebalances and runs again."""
    cluster = make_cluster(partitions=2)
    first = cluster.app(passing_on())
    cluster.until_state(first, C.RUNNING)
    before = len(cluster.states[first])
    second = cluster.app(passing_on())
    cluster.until_state(second, C.RUNNING)
    wait_until("the first has been through it", lambda: len(cluster.states[first]) >= before + 2)
    assert cluster.states[first][before : before + 2] == [(C.RUNNING, C.REBALANCING), (C.REBALANCING, C.RUNNING)]
    assert sorted(len(task) for app in (first, second) for task in app.tasks().values()) == [1, 1]


def test_a_state_listener_that_raises_is_told_of_and_changes_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    app = cluster.app(passing_on(), start=False)

    def failing(new: ClientState, old: ClientState) -> None:
        raise ValueError("the listener's own")

    app.set_state_listener(failing)
    with caplog.at_level(logging.ERROR):
        app.start()
        cluster.send("a")
        cluster.until_out("a")
        cluster.until_state(app, C.RUNNING)
        assert app.close(60)
    assert app.failure is None
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    assert told[0].endswith(
        "failing raised ValueError when the application went from CREATED to REBALANCING; the application goes on"
    )


def test_a_state_listener_may_close_the_application(cluster: Cluster) -> None:
    """Which would have to wait for itself: it is told that the application has not ended yet."""
    app = cluster.app(passing_on(), start=False)
    told: list[bool] = []
    app.set_state_listener(lambda new, old: told.append(app.close()) if new is C.RUNNING else None)
    app.start()
    cluster.until_state(app, C.NOT_RUNNING)
    assert told == [False]


def test_an_application_may_be_closed_while_it_starts(cluster: Cluster) -> None:
    """Here by its listener: what was opened until then is closed."""
    app = cluster.app(passing_on(), start=False)
    told: list[bool] = []
    app.set_state_listener(lambda new, old: told.append(app.close()) if new is C.REBALANCING else None)
    app.start()
    cluster.until_state(app, C.NOT_RUNNING)
    assert told == [False]
    assert cluster.clients.admin({}).group_members("app") == []
    later = cluster.app(passing_on(), {"state.dir": str(app.config.state_dir)})
    cluster.send("a")
    cluster.until_out("a")
    assert later.state.is_running_or_rebalancing()


def test_a_start_that_fails_leaves_nothing_open(cluster: Cluster) -> None:
    app = cluster.app(passing_on(lambda value: None, "nowhere"), start=False)
    with pytest.raises(MissingTopicError, match="source topics do not exist: 'nowhere'") as caught:
        app.start()
    assert caught.value.topics == ("nowhere",)
    assert (app.state, app.close(0)) == (C.ERROR, True)
    assert isinstance(app.failure, MissingTopicError)
    assert [new for _, new in cluster.states[app]] == [C.REBALANCING, C.PENDING_ERROR, C.ERROR]
    app.clean_up()


def test_a_start_that_fails_while_it_is_closed_raises_its_own_error(cluster: Cluster) -> None:
    """And the application ends as one that was closed."""
    app = cluster.app(passing_on(lambda value: None, "nowhere"), start=False)
    told: list[bool] = []
    app.set_state_listener(lambda new, old: told.append(app.close()) if new is C.REBALANCING else None)
    with pytest.raises(MissingTopicError, match="source topics do not exist: 'nowhere'"):
        app.start()
    cluster.until_state(app, C.NOT_RUNNING)
    assert isinstance(app.failure, MissingTopicError)
    assert told == [False]
    app.clean_up()


def test_a_processor_may_close_the_application(cluster: Cluster) -> None:
    told: list[bool] = []
    app = cluster.app(passing_on(lambda value: told.append(cluster.apps[0].close())))
    cluster.send("a")
    cluster.until_state(app, C.NOT_RUNNING)
    assert told == [False]
    assert cluster.values() == ["a"]


def test_listeners_are_set_before_the_start(cluster: Cluster) -> None:
    app = cluster.app(passing_on())
    for what, call in (
        ("a state listener", app.set_state_listener),
        ("a restore listener", app.set_global_state_restore_listener),
        ("an uncaught exception handler", app.set_uncaught_exception_handler),
    ):
        with pytest.raises(StreamsError, match=rf"{what} can be set only before start\(\), and the application is"):
            call(lambda *_: None)  # type: ignore[operator]
    with pytest.raises(StreamsError, match="an application can be started only once"):
        app.start()


# ------------------------------------------------------------------ restore listeners


class Told:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_restore_start(self, *told: Any) -> None:
        self.calls.append(("start", *told))

    def on_batch_restored(self, *told: Any) -> None:
        self.calls.append(("batch", *told))

    def on_restore_end(self, *told: Any) -> None:
        self.calls.append(("end", *told))

    def on_restore_suspended(self, *told: Any) -> None:
        self.calls.append(("suspended", *told))


CHANGELOG = TopicPartition("app-counts-changelog", 0)


def test_a_restore_is_told_from_start_to_end(cluster: Cluster) -> None:
    app = cluster.app(counting())
    cluster.send("a", "b", "a")
    cluster.until_out("a=1", "b=1", "a=2")
    app.close()
    again = cluster.app(counting(), start=False)
    told = Told()
    again.set_global_state_restore_listener(told)
    again.start()
    cluster.until_state(again, C.RUNNING)
    end = cluster.broker.log(CHANGELOG).end_offset
    assert [call[:3] for call in told.calls] == [(kind, CHANGELOG, "counts") for kind in ("start", "batch", "end")]
    assert [call[3:] for call in told.calls] == [(0, end), (end - 1, end), (end,)]


def test_a_restore_that_does_not_end_is_suspended(cluster: Cluster) -> None:
    """Here because the application, paused meanwhile, closes."""
    app = cluster.app(counting())
    cluster.send("a")
    cluster.until_out("a=1")
    app.close()
    again = cluster.app(counting(), start=False)
    told = Told()
    again.set_global_state_restore_listener(told)
    again.pause()
    again.start()
    wait_until("it begins to restore", lambda: told.calls)
    assert again.state is C.REBALANCING
    assert again.close(60)
    assert [call[0] for call in told.calls] == ["start", "suspended"]
    assert told.calls[1] == ("suspended", CHANGELOG, "counts", 0)


def test_a_restore_listener_that_raises_is_told_of_once_and_changes_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def on_restore_start(self, *told: Any) -> None:
            raise KeyError("mine")

        def on_batch_restored(self, *told: Any) -> None:
            raise KeyError("mine")

    topology = counting(store=Stores.in_memory_key_value_store("counts"))
    app = cluster.app(topology)
    cluster.send("a")
    cluster.until_out("a=1")
    app.close()
    again = cluster.app(topology, start=False)
    again.set_global_state_restore_listener(Failing())  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        again.start()
        cluster.send("a")
        cluster.until_out("a=1", "a=2")
    assert [record.getMessage() for record in caplog.records] == [
        f"{call} of the restore listener {Failing.__qualname__} raised KeyError for store 'counts'; restoring goes on,"
        " and further errors of this call are not logged"
        for call in ("on_restore_start", "on_batch_restored")
    ]


def test_waiting_without_end_for_what_was_not_started_is_refused(cluster: Cluster) -> None:
    """It waited forever. With a timeout another thread may start it meanwhile."""
    app = cluster.app(passing_on(), start=False)
    for state in (None, C.RUNNING):
        with pytest.raises(StreamsError, match=r"is not started: call start\(\) first, or give wait\(\) a timeout"):
            app.wait(state=state)
    assert not app.wait(0, state=C.RUNNING)
    assert not app.wait(timedelta(0), state=C.RUNNING)
    assert not app.wait(0.01, state=C.RUNNING)
    with pytest.raises(TypeError, match=r"timeout must be a timedelta or seconds, got '30'"):
        app.wait("30")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout must not be negative, got -1"):
        app.wait(-1)
    with pytest.raises(ValueError, match="timeout is in seconds, at most 3600, got 30000: where these"):
        app.wait(30_000)
    assert app.close()
    assert app.wait()


def test_an_application_that_runs_is_not_started_again(cluster: Cluster) -> None:
    """A second start made its threads a second time, and lost the first ones: they kept their tasks for good."""
    app = cluster.app(counting())
    cluster.until_state(app, C.RUNNING)
    owned = app.tasks()
    with pytest.raises(StreamsError, match="can be started only once, and it is RUNNING"):
        app.start()
    assert app.state is C.RUNNING
    assert app.tasks() == owned
    assert app.close(60)
    app.clean_up()
    with pytest.raises(StreamsError, match="can be started only once, and it is NOT_RUNNING"):
        app.start()
