"""Standby tasks: copies of tasks in other processes, which take over where their owner has gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dsl import Consumed, Materialized, Produced, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.stores.queries import KeyQuery
from processor_api.task_id import TopicPartition
from runtime_support.running_app import Cluster, JumpingClock, Restores, active, counting, standbys
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.queries.position import Position, PositionBound
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.restore.follower import SuspendReason
from waiting import wait_until

EOS = {"processing.guarantee": "exactly_once_v2"}
STANDBY = {"num.standby.replicas": 1}
SIX = [f"0_{number}" for number in range(6)]
ALL = ["0_0", "0_1", "0_2", "0_3"]


def position(app: KafkaStreams, partition: int) -> int:
    """Returns the next offset that a store or its copy takes."""
    found = app.all_local_store_partition_lags().get("counts", {}).get(partition)
    return -1 if found is None else found.current_offset_position


def partitions(tasks: list[str]) -> list[int]:
    return [int(task.partition("_")[2]) for task in tasks]


def pair(cluster: Cluster, topology: Callable[[], Any], **settings: Any) -> tuple[KafkaStreams, KafkaStreams]:
    """Starts two workers of four tasks, and waits until each has the copies of the other's tasks."""
    first, second = (cluster.app(topology(), {**STANDBY, **settings}) for _ in range(2))
    for app in (first, second):
        cluster.until_state(app, ClientState.RUNNING)
    wait_until("each has two tasks", lambda: len(active(first)) == len(active(second)) == 2)
    wait_until("and copies", lambda: standbys(first) == active(second) and standbys(second) == active(first))
    return first, second


def counted(times: int, copies: int = 4) -> list[str]:
    return [f"a={number}" for number in range(1, times + 1) for _ in range(copies)]


def filled(*apps: KafkaStreams) -> Callable[[], bool]:
    """Returns whether every store and copy has what is on the changelogs."""

    def all_equal() -> bool:
        found = [[position(app, partition) for app in apps] for partition in range(4)]
        return all(len(set(each)) == 1 and each[0] > 0 for each in found)

    return all_equal


class Told:
    """A listener that remembers its calls."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.batches: list[tuple[str, int]] = []
        self.suspended: list[tuple[str, SuspendReason]] = []

    def on_update_start(self, partition: Any, store: str, starting_offset: int) -> None:
        self.started.append(str(partition))

    def on_batch_loaded(
        self, partition: Any, store: str, task_id: Any, batch_end_offset: int, batch_size: int, current_end_offset: int
    ) -> None:
        self.batches.append((str(task_id), batch_size))

    def on_update_suspended(
        self, partition: Any, store: str, store_offset: int, current_end_offset: int, reason: SuspendReason
    ) -> None:
        self.suspended.append((str(partition), reason))


@pytest.mark.parametrize(
    ("guarantee", "protocol"),
    [
        ("at_least_once", "classic"),
        ("exactly_once_v2", "classic"),
        ("exactly_once_v2", "streams"),
    ],
)
def test_the_tasks_of_a_process_that_leaves_go_on_from_their_copies(
    make_cluster: Callable[..., Cluster], store: Any, guarantee: str, protocol: str
) -> None:
    """The stores are not restored: what the copies have applied is not read again. In a streams group the broker places
    the copies, by a setting of the group."""
    cluster = make_cluster(4)
    cluster.broker.groups.group("app").standby_replicas = 1
    settings = {"processing.guarantee": guarantee, "group.protocol": protocol}
    told, restores = Told(), Restores()
    first = cluster.app(counting(store=store), {**STANDBY, **settings}, restores=restores, start=False)
    first.set_standby_update_listener(told)
    first.start()
    second = cluster.app(counting(store=store), {**STANDBY, **settings})
    wait_until("copies", lambda: len(standbys(first)) == 2 and standbys(second) == active(first))
    for partition in range(4):
        cluster.send(*("a" * 50), partition=partition)
    cluster.until_out(*counted(50))
    wait_until("copies are filled", filled(first, second))
    moved = partitions(active(second))
    restores.started.clear()

    second.close()
    wait_until("it has all tasks", lambda: active(first) == ALL)
    for partition in range(4):
        cluster.send("a", partition=partition)
    cluster.until_out(*counted(51))

    restored = sum(end - start for _, _, start, end in restores.started)
    assert restored <= 2, restores.started  # markers of transactions at most
    assert sorted(partition for partition, _ in told.suspended) == [f"app-counts-changelog-{p}" for p in moved]
    assert {reason for _, reason in told.suspended} == {SuspendReason.PROMOTED}
    assert sum(size for _, size in told.batches) >= 2
    assert standbys(first) == []


def test_a_task_that_goes_to_another_process_stays_as_a_copy(make_cluster: Callable[..., Cluster], store: Any) -> None:
    """Its engine is not closed, so that a store in memory is not read from its changelog again."""
    cluster = make_cluster(4)
    told = Told()
    first = cluster.app(counting(store=store), STANDBY, start=False)
    first.set_standby_update_listener(told)
    first.start()
    for partition in range(4):
        cluster.send(*("a" * 10), partition=partition)
    cluster.until_out(*counted(10))
    engines = {str(task.id): dict(task.stores.engines) for task in running(first)}
    second = cluster.app(counting(store=store), STANDBY)
    wait_until("half of the tasks move", lambda: len(active(first)) == len(active(second)) == 2)
    wait_until("they stay as copies", lambda: standbys(first) == active(second))
    kept = {str(copy.id): copy.task for copy in copies(first)}
    assert {id_: task.stores.engines for id_, task in kept.items()} == {id_: engines[id_] for id_ in kept}
    second.close()
    wait_until("they come back", lambda: active(first) == ALL)
    assert {str(task.id): task.stores.engines for task in running(first)} == engines
    cluster.send("a", partition=0)
    wait_until("and go on", lambda: "a=11" in cluster.values())
    assert sum(size for _, size in told.batches) == 0


def running(app: KafkaStreams) -> Iterator[Any]:
    wait_until("all run", lambda: app.state is ClientState.RUNNING)
    for thread in app._run.threads or ():
        yield from thread.running_tasks()


def copies(app: KafkaStreams) -> Iterator[Any]:
    for thread in app._run.threads or ():
        yield from thread.list_standbys()


def test_a_copy_is_read_where_stale_stores_are_allowed(make_cluster: Callable[..., Cluster], store: Any) -> None:
    cluster = make_cluster(4)
    first, second = pair(cluster, lambda: counting(store=store))
    for partition in range(4):
        cluster.send(*("a" * 3), partition=partition)
    cluster.until_out(*counted(3))
    wait_until("copies are filled", filled(first, second))
    kept = partitions(standbys(first))[0]
    parameters = StoreQueryParameters.from_name_and_type("counts", QueryableStoreTypes.key_value_store())
    assert first.store(parameters.enable_stale_stores().with_partition(kept)).get("a") == 3
    assert list(first.store(parameters.enable_stale_stores()).all()) == [("a", 3)] * 4
    assert list(first.store(parameters).all()) == [("a", 3)] * 2

    request = StateQueryRequest.in_store("counts").with_query(KeyQuery("a")).with_partitions([kept])
    wait_until("the copy knows its position", lambda: first.query(request).partition_results[kept].position)
    seen = second.query(request).partition_results[kept].position
    bound = request.with_position_bound(PositionBound.at(seen))
    wait_until("it reaches it", lambda: first.query(bound).partition_results[kept].is_success)
    assert first.query(bound).partition_results[kept].result == 3
    ahead = request.with_position_bound(PositionBound.at(Position({"in": {kept: 99}})))
    assert first.query(ahead).partition_results[kept].failure_reason is FailureReason.NOT_UP_TO_BOUND
    only_active = first.query(request.require_active()).partition_results[kept]
    assert only_active.failure_reason is FailureReason.NOT_PRESENT


def test_a_copy_is_seen_in_status_and_metrics(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(4)
    first, second = pair(cluster, counting)
    for partition in range(4):
        cluster.send(*("a" * 7), partition=partition)
    cluster.until_out(*counted(7))
    wait_until("copies are filled", filled(first, second))
    seen = {copy.task: copy for copy in first.status().standbys}
    assert sorted(seen) == active(second)
    for copy in seen.values():
        assert (copy.store, copy.lag, copy.thread) == ("counts", 0, next(iter(first.tasks())))
        assert copy.position == position(second, int(copy.task[2:]))
        assert 1 <= copy.applied <= 7
    metrics = {name: metric for name, metric in first.metrics().items() if name.name.startswith("update-")}
    assert {(name.name, name.tags["task-id"]) for name in metrics} == {
        (f"update-{what}", task) for what in ("rate", "total", "remaining-records-total") for task in seen
    }
    totals = {
        name.tags["task-id"]: metric.metric_value() for name, metric in metrics.items() if name.name == "update-total"
    }
    assert totals == {task: copy.applied for task, copy in seen.items()}


def test_copies_are_in_no_state_directory_of_their_task(make_cluster: Callable[..., Cluster]) -> None:
    """Processes of one machine share the directory: a copy there would be lost with it, and its files are locked."""
    cluster = make_cluster(4)
    shared = {**STANDBY, "state.dir": str(cluster.directory / "shared")}
    first, second = cluster.app(counting(), shared), cluster.app(counting(), shared)
    wait_until("each has two tasks", lambda: len(active(first)) == len(active(second)) == 2)
    other = cluster.app(counting(), STANDBY)
    wait_until("they spread", lambda: sorted(len(active(app)) for app in (first, second, other)) == [1, 1, 2])

    def placed() -> bool:
        here, there = standbys(first) + standbys(second), standbys(other)
        return sorted(here) == active(other) and there == sorted(active(first) + active(second))

    wait_until("copies are elsewhere", placed)
    other.close()
    wait_until("all run", lambda: sorted(active(first) + active(second)) == ALL)
    for partition in range(4):
        cluster.send("a", partition=partition)
    cluster.until_out(*counted(1))


def test_a_copy_whose_changelog_was_cut_is_filled_again(make_cluster: Callable[..., Cluster], store: Any) -> None:
    """Records that it has not read may have deleted rows: what it has cannot be trusted (KIP-892)."""
    cluster = make_cluster(4)
    told = Told()
    first = cluster.app(counting(store=store), STANDBY, start=False)
    first.set_standby_update_listener(told)
    first.start()
    second = cluster.app(counting(store=store), STANDBY)
    wait_until("copies", lambda: len(standbys(first)) == 2 and standbys(second) == active(first))
    kept = partitions(standbys(first))[0]
    cluster.send("a", "b", partition=kept)
    wait_until("the copy is filled", lambda: position(first, kept) >= 2)
    first.pause()
    cluster.send(*"cdefgh", partition=kept)
    wait_until("the owner goes on", lambda: position(second, kept) >= 8)
    changelog = TopicPartition("app-counts-changelog", kept)
    cluster.broker.log(changelog).delete_before(6)
    first.resume()
    wait_until("it is filled from what is left", lambda: position(first, kept) >= 8)
    assert told.started.count(str(changelog)) == 2
    parameters = StoreQueryParameters.from_name_and_type("counts", QueryableStoreTypes.key_value_store())
    stale = first.store(parameters.enable_stale_stores().with_partition(kept))
    assert sorted(key for key, _ in stale.all()) == ["g", "h"]


def test_a_worker_without_another_directory_keeps_no_copies(cluster: Cluster) -> None:
    app = cluster.start(counting(), **{"num.standby.replicas": 2})
    cluster.send("a")
    cluster.until_out("a=1")
    assert standbys(app) == []


def test_a_table_on_its_source_topic_is_copied_up_to_what_is_committed(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(4)

    def topology() -> Any:
        builder = StreamsBuilder()
        strings = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
        table: Any = builder.table("in", strings, materialized=Materialized(name="counts"))
        table.to_stream().to("out", Produced(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
        return builder.build({"topology.optimization": "all"})

    first, second = pair(cluster, topology, **{"topology.optimization": "all"})
    for partition in range(4):
        cluster.send("a", "b", "c", partition=partition)
    wait_until("the last are passed on", lambda: cluster.values().count("c") == 4)
    wait_until("copies are filled", lambda: [position(first, p) for p in range(4)] == [3] * 4)
    kept = partitions(standbys(first))[0]
    parameters = StoreQueryParameters.from_name_and_type("counts", QueryableStoreTypes.key_value_store())
    assert first.store(parameters.enable_stale_stores().with_partition(kept)).get("k") == "c"
    second.close()
    wait_until("it has all tasks", lambda: active(first) == ALL)


def test_tasks_go_to_the_members_that_have_their_copies(make_cluster: Callable[..., Cluster]) -> None:
    """The group gives the tasks of a member that has gone to any other. Members exchange them then."""
    cluster = make_cluster(6)
    clock = JumpingClock()
    apps = [cluster.app(counting(), STANDBY, clock=clock) for _ in range(3)]
    wait_until("each has two tasks", lambda: all(len(active(app)) == 2 for app in apps))
    wait_until("copies are placed", lambda: sorted(task for app in apps for task in standbys(app)) == SIX)
    for partition in range(6):
        cluster.send(*("a" * 5), partition=partition)
    cluster.until_out(*counted(5, 6))
    for app in apps:
        wait_until("each has a picture of the group", lambda app=app: bool(standbys(app)))  # type: ignore[misc]
    having = [{*active(app), *standbys(app)} for app in apps[:2]]
    clock.ahead_s += 20.0  # the copies count as filled

    apps[2].close()
    wait_until("both have three tasks", lambda: all(len(active(app)) == 3 for app in apps[:2]))
    wait_until(
        "of those they had", lambda: all(set(active(app)) <= had for app, had in zip(apps, having, strict=False))
    )
    for partition in range(6):
        cluster.send("a", partition=partition)
    cluster.until_out(*counted(6, 6))
