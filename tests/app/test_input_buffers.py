"""What waits to be processed is bounded by count and by bytes, partition by partition (semantics 10, KIP-770)."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.task_id import TopicPartition
from runtime_support.running_app import Cluster, passing_on
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from waiting import wait_until

FULL, EMPTY = TopicPartition("in", 0), TopicPartition("in-2", 0)
WAITS = {"max.task.idle.ms": 600_000, "max.poll.records": 2}
"""A partition that was read to its end is waited for all the same, so that the other one fills up."""


def start(cluster: Cluster, **settings: Any) -> KafkaStreams:
    cluster.broker.create_topic("in-2", 1)
    given = {name.replace("_", "."): value for name, value in settings.items()}
    app = cluster.app(passing_on(lambda value: None, "in", "in-2"), {**WAITS, **given})
    cluster.until_state(app, ClientState.RUNNING)
    return app


def thread(app: KafkaStreams) -> Any:
    (found,) = app._run.threads  # type: ignore[misc]
    return found


def buffered(app: KafkaStreams) -> Any:
    (task,) = thread(app)._resources.tasks.all_running()
    return task.inputs.queues[FULL]


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"buffered_records_per_partition": 5}, 8),
        ({"input_buffer_max_bytes": 100_000}, 8),  # 50,000 for each of two partitions, of values with 10,000
        ({"input_buffer_max_bytes": 200_000, "num_stream_threads": 2}, 8),
    ],
)
def test_a_partition_that_buffers_too_much_is_paused(settings: dict[str, Any], most: int, cluster: Cluster) -> None:
    """It alone, and read on when the task has caught up; nothing is lost or reordered."""
    settings = dict(settings)
    threads = settings.pop("num_stream_threads", 1)
    app = start(cluster, **settings, num_stream_threads=threads)
    values = [f"{number:02d}".ljust(10_000, ".") for number in range(40)]
    cluster.send(*values)
    (busy,) = [one for one in app._run.threads or () if one.owned_tasks()]
    wait_until("the partition is paused", lambda: busy._loop.intake.paused == {FULL})
    (task,) = busy._resources.tasks.all_running()  # type: ignore[union-attr]
    assert 4 < len(task.inputs.queues[FULL]) <= most
    assert cluster.values() == []
    cluster.send(*(f"end{number}" for number in range(2)), topic="in-2", timestamp=10)
    wait_until("all is processed", lambda: cluster.values()[:40] == values, lambda: len(cluster.values()))
    wait_until("it is read on", lambda: busy._loop.intake.paused == set())


@pytest.mark.parametrize("part", ["key", "headers"])
def test_keys_and_headers_count_too(part: str, cluster: Cluster) -> None:
    """Large ones were buffered by their number alone, whatever memory they took."""
    app = start(cluster, input_buffer_max_bytes=100_000)
    large = "x" * 10_000
    for number in range(40):
        given: dict[str, Any] = {"key": large} if part == "key" else {"headers": [("h", large.encode())]}
        cluster.send(str(number), **given)
    wait_until("the partition is paused", lambda: thread(app)._loop.intake.paused == {FULL})
    assert len(buffered(app)) <= 8
    cluster.send("end", topic="in-2", timestamp=10)
    wait_until("all is processed", lambda: len(cluster.values()) >= 40)


def test_without_a_limit_in_bytes_only_the_count_decides(cluster: Cluster) -> None:
    app = start(cluster, input_buffer_max_bytes=-1)
    cluster.send(*("x" * 50_000 for _ in range(60)))
    wait_until("all waits", lambda: len(buffered(app)) == 60)
    assert thread(app)._loop.intake.paused == set()
    assert buffered(app).buffered_bytes() == 60 * 50_001


def test_idling_is_told(cluster: Cluster) -> None:
    """A task that waits for a partition says since when, and where the partition ended."""
    app = start(cluster)
    cluster.send("a")

    def waiting() -> Any:
        tasks = [task for one in app.metadata_for_local_threads() for task in one.active_tasks]
        return [task for task in tasks if task.time_current_idling_started is not None]

    (task,) = wait_until("it idles", waiting)
    assert abs(cluster.broker.clock.time_ms() - task.time_current_idling_started) < 60_000
    assert task.end_offsets[EMPTY] == 0
