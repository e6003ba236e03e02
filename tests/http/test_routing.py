"""Reads are answered by any worker: it asks the one that has the partition."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from dsl import Consumed, StreamsBuilder
from http_support.asking import AT_ONCE, ask, free_port, lines, pages_of
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.partitioner import partition_for_key
from runtime_support.running_app import Cluster
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.queries.owners import HostInfo
from waiting import wait_until

WORDS = [f"w{number:04}" for number in range(40)]
PARTITIONS = 4


def topology() -> Any:
    """Two subtopologies: words are counted, and the counts of their first letters behind a repartition."""
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    words.group_by_key().count(materialized="counts")
    words.group_by(lambda key, value: key[:2]).count(materialized="letters")
    return builder.build()


class Workers:
    """Two workers of one application, and their ports."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ports = [free_port(), free_port()]
        self.apps: list[KafkaStreams] = []
        for port in self.ports:
            app = cluster.app(topology(), AT_ONCE, http_listen=f"127.0.0.1:{port}")
            self.apps.append(app)
            cluster.until_state(app, ClientState.RUNNING)
        producer = cluster.clients.producer({})
        for word in WORDS:
            producer.produce("in", b"x", word.encode(), -1, None, None, 1000, None)
        producer.flush()
        wait_until("both have tasks", lambda: all(self.tasks(app) for app in self.apps))
        wait_until("all are counted, and no task moves", self._is_settled)

    def _is_settled(self) -> bool:
        """Members exchange tasks once when the group is at rest; then each has as many of each subtopology."""
        of_parts = [Counter(task[0] for task in self.tasks(app)) for app in self.apps]
        even = all(parts == {"0": PARTITIONS // 2, "1": PARTITIONS // 2} for parts in of_parts)
        return even and all(len(self.range(port)) == len(WORDS) for port in self.ports)

    @staticmethod
    def tasks(app: KafkaStreams) -> list[str]:
        return [str(task) for tasks in app.tasks().values() for task in tasks]

    def range(self, port: int) -> list[Any]:
        answer = ask(port, "/stores/counts/range")
        return lines(answer)[0] if answer.status == 200 else []

    def has(self, number: int, partition: int) -> bool:
        return partition in ask(self.ports[number], "/stores/counts").json["here"]


def partition_of(word: str) -> int:
    return partition_for_key(word.encode(), PARTITIONS)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with Cluster(tmp_path_factory.mktemp("two"), partitions=PARTITIONS) as cluster:
        yield Workers(cluster)


def test_each_worker_answers_for_each_key(workers: Workers) -> None:
    for port in workers.ports:
        for word in WORDS:
            found = ask(port, f"/stores/counts/get?key={word}")
            assert (found.status, found.json.get("value")) == (200, 1), found
            assert found.json["partition"] == partition_of(word)


def test_a_key_that_is_nowhere_is_404_at_each_worker(workers: Workers) -> None:
    for port in workers.ports:
        answer = ask(port, "/stores/counts/get?key=nobody")
        assert (answer.status, answer.json["found"]) == (404, False)


def test_a_range_has_the_rows_of_all_workers_page_by_page(workers: Workers) -> None:
    for limit in (3, 1000):
        for port in workers.ports:
            assert sorted(chain(*pages_of(port, f"/stores/counts/range?limit={limit}"))) == WORDS


def test_several_keys_come_from_several_workers(workers: Workers) -> None:
    body = json.dumps({"keys": WORDS}).encode()
    for port in workers.ports:
        assert [row["value"] for row in ask(port, "/stores/counts/get", body).json["rows"]] == [1] * len(WORDS)


def test_a_store_behind_a_repartition_is_found_too(workers: Workers) -> None:
    wait_until(
        "all letters are counted",
        lambda: ask(workers.ports[0], "/stores/letters/get?key=w0").json.get("value") == len(WORDS),
    )
    assert ask(workers.ports[1], "/stores/letters/get?key=w0").json["value"] == len(WORDS)
    assert ask(workers.ports[1], "/stores/letters/count").json["count"] >= 1


def test_the_wrong_worker_says_421_if_it_alone_is_asked(workers: Workers) -> None:
    for number in (0, 1):
        wrong = [word for word in WORDS if not workers.has(number, partition_of(word))]
        assert wrong
        answer = ask(workers.ports[number], f"/stores/counts/get?key={wrong[0]}&local=true")
        assert answer.status == 421
        assert "is not in this process" in answer.json["error"]


def test_the_metadata_name_the_owner_of_each_key(workers: Workers) -> None:
    for app in workers.apps:
        for word in WORDS[:8]:
            found = app.query_metadata_for_key("counts", word, Serdes.STRING)
            owner = workers.ports.index(found.active_host.port)
            assert found.partition == partition_of(word)
            assert workers.has(owner, found.partition)
            by_partitioner = app.query_metadata_for_key(
                "counts", word, lambda topic, key, value, headers, count: [partition_of(key)]
            )
            assert by_partitioner == found


def test_the_metadata_of_a_key_are_asked_for_by_headers_too(workers: Workers) -> None:
    """Of records whose partition a function chose by their headers (Kafka Streams since 4.4.0)."""

    def of_region(topic: str, key: Any, value: Any, headers: Any, count: int) -> list[int]:
        return [0 if headers is None else dict(headers)["region"][0] % count]

    app = workers.apps[0]
    for partition in range(PARTITIONS):
        found = app.query_metadata_for_key("counts", "x", of_region, headers=[("region", bytes([partition]))])
        assert found.partition == partition
        assert workers.has(workers.ports.index(found.active_host.port), partition)
    assert app.query_metadata_for_key("counts", "x", of_region).partition == 0


def test_the_metadata_of_all_processes_have_their_stores_and_partitions(workers: Workers) -> None:
    found = workers.apps[0].metadata_for_all_streams_clients()
    assert [one.host_info for one in found] == sorted(HostInfo("127.0.0.1", port) for port in workers.ports)
    inputs = [partition for one in found for partition in one.topic_partitions if partition.topic == "in"]
    assert sorted(inputs) == [TopicPartition("in", number) for number in range(PARTITIONS)]
    assert workers.apps[1].streams_metadata_for_store("counts") == found


def test_a_worker_that_has_left_is_asked_no_more(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its tasks go to the other one; until that runs them the answer is 503, and never one without the row."""
    with Cluster(tmp_path_factory.mktemp("left"), partitions=PARTITIONS) as cluster:
        workers = Workers(cluster)
        workers.apps[1].close()
        port = workers.ports[0]
        answers: set[tuple[int, Any]] = set()

        def all_are_here() -> bool:
            found = {
                (answer.status, answer.json.get("value"))
                for answer in (ask(port, f"/stores/counts/get?key={word}") for word in WORDS)
            }
            answers.update(found)
            return found == {(200, 1)}

        wait_until("the other worker has all keys", all_are_here)
        assert answers <= {(200, 1), (503, None)}


def test_a_missing_worker_makes_a_range_503_or_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(tmp_path_factory.mktemp("missing"), partitions=PARTITIONS) as cluster:
        port = free_port()
        app = cluster.app(topology(), AT_ONCE, http_listen=f"127.0.0.1:{port}")
        cluster.until_state(app, ClientState.RUNNING)
        silent = cluster.app(topology())  # tells no address
        cluster.until_state(silent, ClientState.RUNNING)
        wait_until("both have tasks", lambda: len(ask(port, "/stores/counts").json["here"]) < PARTITIONS)
        answer = ask(port, "/stores/counts/range")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        found, last = lines(ask(port, "/stores/counts/range?partial=true"))
        assert found == []
        assert {one["partition"] for one in last["missing"]}.isdisjoint(ask(port, "/stores/counts").json["here"])
        assert last["missing"]
        count = ask(port, "/stores/counts/count?partial=true").json
        assert {one["partition"] for one in count["missing"]} == {one["partition"] for one in last["missing"]}


def test_two_workers_of_one_address_are_said_to_be_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each would ask itself for the keys of the other; it says so in place of asking forever."""
    with Cluster(tmp_path_factory.mktemp("same"), partitions=PARTITIONS) as cluster:
        ports = [free_port(), free_port()]
        for port in ports:
            same = {"application_server": f"127.0.0.1:{ports[0]}", "http_listen": f"127.0.0.1:{port}"}
            cluster.until_state(cluster.app(topology(), AT_ONCE, **same), ClientState.RUNNING)
        wait_until(
            "both have tasks",
            lambda: all(0 < len(ask(port, "/stores/counts").json["here"]) < PARTITIONS for port in ports),
        )

        def errors() -> set[str]:
            answers = [ask(port, f"/stores/counts/get?key={word}") for port in ports for word in WORDS[:10]]
            assert {answer.status for answer in answers} == {404, 503}
            return {answer.json["error"] for answer in answers if answer.status == 503}

        wait_until("all tasks run", lambda: not any("does not run yet" in error for error in errors()))
        assert all("another one has the same application.server" in error for error in errors())


def test_a_copy_answers_where_the_owner_does_not_if_stale_rows_are_allowed(tmp_path: Any) -> None:
    with Cluster(tmp_path, partitions=6) as cluster:
        ports, dead = [free_port(), free_port()], free_port()
        copied = {**AT_ONCE, "num.standby.replicas": 1}
        apps = [cluster.app(topology(), copied, http_listen=f"127.0.0.1:{port}") for port in ports]
        silent = cluster.app(topology(), copied, application_server=f"127.0.0.1:{dead}")
        for app in (*apps, silent):
            cluster.until_state(app, ClientState.RUNNING)
        producer = cluster.clients.producer({})
        for number in range(6):
            producer.produce("in", b"x", f"k{number}".encode(), number, None, None, 1000, None)
        producer.flush()

        def owned(app: KafkaStreams) -> set[int]:
            return {task.partition for tasks in app.tasks().values() for task in tasks if task.subtopology == 0}

        def kept(app: KafkaStreams) -> set[int]:
            copies = [copy for thread in app.metadata_for_local_threads() for copy in thread.standby_tasks]
            return {copy.task_id.partition for copy in copies if copy.task_id.subtopology == 0}

        wait_until("all own some", lambda: all(len(owned(app)) == 2 for app in (*apps, silent)))
        wait_until("copies are elsewhere", lambda: owned(silent) <= kept(apps[0]) | kept(apps[1]))
        wait_until("they are filled", lambda: all(copy.lag == 0 < copy.position for copy in _copies_of(silent, apps)))
        for partition in owned(silent):
            path = f"/stores/counts/get?key=k{partition}&partition={partition}"
            for port in ports:
                wait_until(
                    "a copy answers",
                    lambda port=port, path=path: ask(port, f"{path}&stale=true").json.get("value") == 1,  # type: ignore[misc]
                )
                assert ask(port, path).status == 503
        chosen = min(owned(silent))
        found = apps[0].query_metadata_for_key("counts", "k", lambda *_: {chosen}).standby_hosts
        assert found <= {HostInfo("127.0.0.1", port) for port in ports}
        assert len(found) == 1


def _copies_of(owner: KafkaStreams, apps: list[KafkaStreams]) -> list[Any]:
    owned = {str(task) for tasks in owner.tasks().values() for task in tasks if task.subtopology == 0}
    return [copy for app in apps for copy in app.status().standbys if copy.task in owned]
