"""Warm-ups: a task with state moves to another worker when its copy there is near (semantics 100)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from runtime_support.running_app import Cluster, JumpingClock, Restores, counting
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.kafka.membership.task_slots import SETTLED_S, SlotPlan
from waiting import wait_until

FAR = {"acceptable.recovery.lag": 10, "commit.interval.ms": 20}
ALL = {f"0_{number}" for number in range(4)}
WORDS = 40


@pytest.fixture(params=["memory", "rocksdb"])
def store(request: pytest.FixtureRequest) -> Any:
    make = Stores.in_memory_key_value_store if request.param == "memory" else Stores.persistent_key_value_store
    return make("counts")


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def cluster(tmp_path: Path, clock: JumpingClock) -> Iterator[Cluster]:
    with Cluster(tmp_path, 4, clock=clock) as made:
        yield made


def active(app: KafkaStreams) -> set[str]:
    return {str(task) for tasks in app.tasks().values() for task in tasks}


def warming(app: KafkaStreams) -> set[str]:
    """Returns the tasks of which a worker fills copies."""
    return {copy.task for copy in app.status().standbys if copy.warms_up}


def counted(times: int) -> list[str]:
    return sorted(f"{word}={number}" for word in words() for number in range(1, times + 1) for _ in range(4))


def words() -> list[str]:
    return [f"w{number}" for number in range(WORDS)]


def fill(cluster: Cluster) -> None:
    for partition in range(4):
        cluster.send(*words(), partition=partition)


def settled(cluster: Cluster, clock: JumpingClock) -> None:
    """Returns when the group has rested for some time, which its members have committed."""
    clock.ahead_s += SETTLED_S
    offsets = cluster.broker.groups.group("app").offsets
    first = TopicPartition("app-0-tasks", 0)
    wait_until("it is committed", lambda: first in offsets and SlotPlan.decode(offsets[first].metadata).owners)


def busy_worker(cluster: Cluster, clock: JumpingClock, store: Any, **settings: Any) -> KafkaStreams:
    """Starts a worker of four tasks, each of whose changelogs is longer than a copy may lack."""
    app = cluster.app(counting(store=store), {**FAR, **settings})
    cluster.until_state(app, ClientState.RUNNING)
    fill(cluster)
    wait_until("all is counted", lambda: len(cluster.values("out")) == 4 * WORDS)
    settled(cluster, clock)
    return app


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_worker_fills_copies_before_it_takes_tasks(
    cluster: Cluster, clock: JumpingClock, store: Any, guarantee: str
) -> None:
    """What it takes over it has restored as a copy; nothing is restored for an active task, and no count is lost."""
    restores = Restores()
    settings = {"processing.guarantee": guarantee}
    first = busy_worker(cluster, clock, store, **settings)
    second = cluster.app(counting(store=store), {**FAR, **settings}, restores=restores)
    wait_until("tasks move", lambda: len(active(first)) == len(active(second)) == 2)
    fill(cluster)
    wait_until("all is counted", lambda: sorted(cluster.values("out")) == counted(2))
    assert sum(end - start for _, _, start, end in restores.started) <= 2 * 10, restores.started
    wait_until("no copy is left", lambda: not second.status().standbys and not first.status().standbys)
    assert second.is_ready()
    assert active(first) | active(second) == ALL


def filling(cluster: Cluster, store: Any, **settings: Any) -> KafkaStreams:
    """Starts a worker whose copies do not come near, since it is paused."""
    app = cluster.app(counting(store=store), {**FAR, **settings}, start=False)
    app.pause()
    app.start()
    wait_until("it fills copies", lambda: bool(app.metadata_for_local_threads()) and thread_fills(app))
    return app


def thread_fills(app: KafkaStreams) -> bool:
    return app.state is ClientState.RUNNING and not app.is_ready()


def test_a_worker_takes_tasks_at_once_when_their_owner_goes(cluster: Cluster, clock: JumpingClock, store: Any) -> None:
    first = busy_worker(cluster, clock, store)
    second = filling(cluster, store)
    assert active(first) == ALL
    first.close()
    second.resume()
    wait_until("it has all tasks", lambda: active(second) == ALL)
    fill(cluster)
    wait_until("all is counted", lambda: sorted(cluster.values("out")) == counted(2))
    wait_until("it is ready", second.is_ready)


def test_copies_that_do_not_come_near_are_given_up(
    cluster: Cluster, clock: JumpingClock, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The lag is looked at twice; after that the worker takes tasks as they are, with a warning."""
    first = busy_worker(cluster, clock, store, **{"probing.rebalance.interval.ms": 60_000})
    second = filling(cluster, store, **{"probing.rebalance.interval.ms": 60_000})
    begun = clock.monotonic()

    def later(condition: Callable[[], bool]) -> Callable[[], bool]:
        def reached() -> bool:
            clock.ahead_s += 1.0  # less than a session between two polls
            return condition()

        return reached

    wait_until("the first look is over", later(lambda: clock.monotonic() > begun + 90.0))
    assert active(first) == ALL
    wait_until("it takes tasks", later(lambda: len(active(second)) == 2))
    assert any("copies do not come near their tasks" in record.getMessage() for record in caplog.records)
    second.resume()
    fill(cluster)
    wait_until("all is counted", lambda: sorted(cluster.values("out")) == counted(2))


def test_small_state_moves_at_once(cluster: Cluster, clock: JumpingClock, store: Any) -> None:
    """A copy that lacks all of a short changelog is near."""
    first = busy_worker(cluster, clock, store)
    second = cluster.app(counting(store=store), {**FAR, "acceptable.recovery.lag": 10_000})
    wait_until("tasks move", lambda: len(active(first)) == len(active(second)) == 2)
    assert not warming(second)
    fill(cluster)
    wait_until("all is counted", lambda: sorted(cluster.values("out")) == counted(2))
