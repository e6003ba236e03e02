"""An input offset that is outside of its log: what is done is the source's own policy, and said in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsl import Consumed, Materialized, Produced, StreamsBuilder
from processor_api.errors import StreamsError
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import RepartitionTopic
from processor_api.topology.topology import Topology
from processor_api.user_code.offset_reset import AutoOffsetReset
from runtime_support.running_app import Cluster, passing_on
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.config import StreamsConfig
from streams.kafka.ports import OffsetAndMetadata
from waiting import wait_until

IN = TopicPartition("in", 0)
S = Serdes.STRING
EARLIEST, LATEST, NONE = AutoOffsetReset.earliest(), AutoOffsetReset.latest(), AutoOffsetReset.none()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def committed(cluster: Cluster, partition: TopicPartition = IN) -> int:
    found = cluster.broker.groups.group("app").offsets.get(partition)
    return -1 if found is None else found.offset


def delete(cluster: Cluster, before: int, partition: TopicPartition = IN) -> None:
    cluster.clients.admin({}).delete_records({partition: before})


def stopped_at_10(cluster: Cluster, topology: Topology, **config: str) -> dict[str, str]:
    """An application that has processed 0..9 and does not run, and its settings."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    cluster.send(*numbers(0, 10))
    app = cluster.app(topology, settings)
    cluster.until_out(*numbers(0, 10))
    assert app.close(60)
    return settings


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_what_is_still_there_is_read_by_a_source_that_says_earliest(
    guarantee: str, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The client knew the application's policy only, "latest", and skipped what was there without a word."""
    topology = passing_on(offset_reset=EARLIEST)
    settings = stopped_at_10(cluster, topology, auto_offset_reset="latest", processing_guarantee=guarantee)
    cluster.send(*numbers(10, 30))
    delete(cluster, 15)
    with caplog.at_level(logging.WARNING, "streams"):
        cluster.app(topology, settings)
        cluster.until_out(*numbers(0, 10), *numbers(15, 30))
    (told,) = [one for one in caplog.records if one.msg.startswith("offset outside of the log")]
    place = {"topic": "in", "partition": 0, "offset": 10, "beginning": 15, "end": 30}
    assert {name: getattr(told, name) for name in place} == place
    assert (told.policy, told.goes_on_at) == ("earliest", 15)  # type: ignore[attr-defined]


def test_a_source_that_says_latest_goes_on_at_the_end(cluster: Cluster) -> None:
    """And commits that, so that a record that comes between two starts is not skipped."""
    topology = passing_on(offset_reset=LATEST)
    stopped_at_10(cluster, passing_on(offset_reset=EARLIEST))
    cluster.send(*numbers(10, 30))
    delete(cluster, 15)
    app = cluster.app(topology)
    wait_until("the new position is committed", lambda: committed(cluster) == 30)
    assert app.close(60)
    cluster.send(*numbers(30, 35))
    cluster.app(topology)
    cluster.until_out(*numbers(0, 10), *numbers(30, 35))


def test_an_offset_that_is_lost_while_records_wait_is_lost_behind_them(cluster: Cluster) -> None:
    """While running: what was fetched before is processed, what is deleted is skipped, the rest is read."""
    topology = passing_on(offset_reset=EARLIEST)
    app = cluster.app(topology, {"auto.offset.reset": "latest"})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send(*numbers(0, 3))
    cluster.until_out(*numbers(0, 3))
    app.pause()
    with cluster.broker.lock:  # nothing is fetched between the two
        cluster.send(*numbers(3, 10))
        delete(cluster, 6)
    app.resume()
    cluster.until_out(*numbers(0, 3), *numbers(6, 10))
    assert app.state is ClientState.RUNNING


def overtaken(cluster: Cluster, policy: AutoOffsetReset, guarantee: str, *, keeps: int = 0) -> KafkaStreams:
    """A running application that has processed 0..2, and whose partition has lost 3..5 before they were read."""
    app = cluster.app(passing_on(offset_reset=policy), {"processing.guarantee": guarantee}, start=False)
    cluster.send("first")
    producer = cluster.clients.consumer({"group.id": "app"})
    producer.commit({IN: OffsetAndMetadata(0)})
    producer.close()
    app.start()
    cluster.until_out("first")
    cluster.send(*numbers(1, 3))
    cluster.until_out("first", *numbers(1, 3))
    wait_until("it is committed", lambda: committed(cluster) == 3)
    app.pause()
    with cluster.broker.lock:  # nothing is fetched between the two
        cluster.send(*numbers(3, 6 + keeps))
        delete(cluster, 6)
    app.resume()
    return app


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("keeps", [0, 4])
def test_retention_overtakes_a_reader(
    guarantee: str, keeps: int, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It was never read again: librdkafka does not go on with a partition that it has stopped, in a member of a group.
    Now what is left is read, also if that is nothing, and the records that are gone are counted at their source."""
    with caplog.at_level(logging.WARNING, "streams"):
        app = overtaken(cluster, EARLIEST, guarantee, keeps=keeps)
        wait_until("the position is committed", lambda: committed(cluster) == 6 + keeps)
    cluster.until_out("first", *numbers(1, 3), *numbers(6, 6 + keeps))
    (told,) = [one for one in caplog.records if one.msg.startswith("offset outside of the log")]
    found = (told.offset, told.beginning, told.policy, told.goes_on_at)  # type: ignore[attr-defined]
    assert found == (3, 6, "earliest", 6)
    (task,) = app.status().tasks
    lost = [one for one in task.drops if one.reason == "deleted-unread"]
    assert [(one.node, one.count) for one in lost] == [("source", 3)]
    cluster.send("last")
    cluster.until_out("first", *numbers(1, 3), *numbers(6, 6 + keeps), "last")


@pytest.mark.parametrize("keeps", [0, 4])
def test_a_reader_that_retention_overtakes_goes_to_the_end_by_its_policy(keeps: int, cluster: Cluster) -> None:
    overtaken(cluster, LATEST, "exactly_once_v2", keeps=keeps)
    wait_until("the position is committed", lambda: committed(cluster) == 6 + keeps)
    cluster.send("last")
    cluster.until_out("first", *numbers(1, 3), "last")


@pytest.mark.parametrize("keeps", [0, 4])
def test_a_reader_that_retention_overtakes_ends_without_a_policy(keeps: int, cluster: Cluster) -> None:
    error = failure(cluster, overtaken(cluster, NONE, "at_least_once", keeps=keeps))
    assert f"offset 3 of in-0 is outside of its log, which has offsets 6 to {6 + keeps}" in str(error)
    assert cluster.values() == ["first", *numbers(1, 3)]
    assert committed(cluster) == 3


def test_without_a_policy_it_is_an_error_with_the_range(cluster: Cluster) -> None:
    stopped_at_10(cluster, passing_on(offset_reset=EARLIEST))
    cluster.send(*numbers(10, 30))
    delete(cluster, 15)
    app = cluster.app(passing_on(offset_reset=NONE))
    error = failure(cluster, app)
    assert "offset 10 of in-0 is outside of its log, which has offsets 15 to 30" in str(error)
    assert "is 'none'" in str(error)
    assert (error.topic, error.partition, error.offset) == ("in", 0, 10)
    assert committed(cluster) == 10


@pytest.mark.parametrize("offsets", [(2, 1, 0), (1, 0, 2), (2, 0, 1), (2, 2, 2)])
@pytest.mark.parametrize("knows", [True, False], ids=["the leader tells", "it does not tell"])
def test_offsets_that_go_back_within_the_log(
    offsets: tuple[int, ...], knows: bool, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker takes a batch whose offsets are not in order, and the partition was read from its beginning for ever.

    What comes too late is skipped, as Kafka's own consumer does, and nothing is processed twice, unless the leader does
    not tell that its log was not truncated."""
    cluster.send(*numbers(0, 3))
    producer = cluster.clients.producer({"transactional.id": "other"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("in", b"behind", b"k", 0)
    producer.commit_transaction()
    with cluster.broker.lock:
        for record, offset in zip(cluster.broker.records("in"), offsets, strict=False):
            record.log_offset = offset
            record.epoch = record.epoch if knows else -1
    with caplog.at_level(logging.WARNING, "streams"):
        cluster.app(passing_on(offset_reset=EARLIEST))
        wait_until("the record behind was read", lambda: committed(cluster) >= 4)
    back = next(index for index in range(1, 3) if offsets[index] <= offsets[index - 1])
    later = [str(index) for index in range(back, 3) if offsets[index] > offsets[back - 1]]
    assert cluster.values() in [[*numbers(0, back) * times, *later, "behind"] for times in ((1,) if knows else (1, 2))]
    told = [one for one in caplog.records if one.msg.startswith("offsets go back within the log")]
    assert len(told) == 1


def test_an_offset_beyond_the_end_is_lost_too(cluster: Cluster) -> None:
    """Of a topic that was made anew."""
    topology = passing_on(offset_reset=EARLIEST)
    settings = stopped_at_10(cluster, topology)
    cluster.clients.admin({}).delete_topics(["in"])
    cluster.broker.create_topic("in", 1)
    cluster.send("a", "b")
    cluster.app(topology, settings)
    cluster.until_out(*numbers(0, 10), "a", "b")


def through_repartition() -> Topology:
    topology = Topology().add_source("source", "in").add_repartition_topic(RepartitionTopic(name="again"))
    topology.add_sink("to-again", "again", "source").add_source("from-again", "again")
    return topology.add_sink("sink", "out", "from-again")


def test_records_of_a_repartition_topic_are_never_skipped(cluster: Cluster) -> None:
    """Whatever the policy of the application is."""
    again = TopicPartition("app-again", 0)
    stopped_at_10(cluster, through_repartition(), auto_offset_reset="earliest")
    producer = cluster.clients.producer({})
    for value in numbers(10, 20):
        producer.produce("app-again", value.encode(), b"k", 0, None, None, 5, None)
    producer.flush()
    delete(cluster, 15, again)
    error = failure(cluster, cluster.app(through_repartition()))
    assert "offset 10 of app-again-0 is outside of its log, which has offsets 15 to 20" in str(error)
    assert "this internal topic were deleted" in str(error)
    assert committed(cluster, again) == 10
    assert cluster.values() == numbers(0, 10)


def failure(cluster: Cluster, app: KafkaStreams) -> StreamsError:
    wait_until("it fails", lambda: app.state is ClientState.ERROR)
    assert isinstance(app.failure, StreamsError)
    return app.failure


def table_of(settings: dict[str, str]) -> Topology:
    builder = StreamsBuilder()
    consumed = Consumed(key_serde=S, value_serde=S, offset_reset=LATEST)
    table = builder.table("in", consumed, materialized=Materialized(name="table"))
    table.to_stream().to("out", Produced(key_serde=S, value_serde=S))
    return builder.build(StreamsConfig.of(settings))


def test_a_source_that_is_a_changelog_skips_nothing_that_is_there(cluster: Cluster) -> None:
    """A restore would read it: the store of a task that goes on at the end would show something else."""
    settings = {"application.id": "app", "bootstrap.servers": "x:1", "topology.optimization": "all"}
    topology = table_of(settings)
    app = cluster.app(topology, {"topology.optimization": "all"})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send(*numbers(0, 10))
    wait_until("it is read", lambda: committed(cluster) == 10)
    assert app.close(60)
    cluster.send(*numbers(10, 30))
    delete(cluster, 15)
    cluster.app(table_of(settings), {"topology.optimization": "all"})
    wait_until("the rest is read", lambda: cluster.values()[-1:] == ["29"])
    assert committed(cluster) >= 15
