"""Global tables and read-only stores on a real broker."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from integration_support.topics import Reader, Topics
from integration_support.workers import Worker, Workers

PARTITIONS = 3
ROWS = 3_000


class Lookups:
    """An application that answers questions from a table, and both of its topics."""

    def __init__(self, topics: Topics, workers: Workers, guarantee: str, topology: str) -> None:
        self._topics, self._workers, self._topology = topics, workers, topology
        self.table = topics.create("table", PARTITIONS, {"cleanup.policy": "compact"})
        self.questions = topics.create("questions", PARTITIONS)
        self.answers = topics.create("answers", PARTITIONS)
        self._settings: Mapping[str, Any] = {"processing.guarantee": guarantee, "commit.interval.ms": 100}
        self.expected: dict[str, str] = {}
        self._round = 0

    def start(self, **more: Any) -> Worker:
        """More settings in snake case."""
        env = {"TABLE": self.table, "INPUTS": self.questions, "OUTPUT": self.answers}
        settings = self._settings | {name.replace("_", "."): value for name, value in more.items()}
        return self._workers.start(f"global_lookup:{self._topology}", settings=settings, env=env)

    def put(self, rows: Mapping[str, str]) -> None:
        """Partitioned by the key, as the questions are."""
        self._topics.send(self.table, rows.items())
        self.expected |= rows

    def check(self, reader: Reader, *keys: str) -> None:
        """Asks until the answers are those expected: the table is not synchronised with the questions."""
        self._round += 1
        asked = f"round {self._round}"
        due = {key: f"{asked}: {self.expected.get(key, 'none')}" for key in keys}

        def answered(found: Reader) -> bool:
            self._topics.send(self.questions, [(key, asked) for key in keys])
            found.read()
            return {key: value for key, value in found.latest.items() if key in due} == due

        reader.until("the answers are those of the table", answered)


def restored(worker: Worker) -> dict[str, int]:
    """How many records each partition's restore brought, of those that had anything to restore."""
    return {event.get("changelog", event["store"]): event["records"] for event in worker.events("restored")}


def rows(first: int, last: int, version: int) -> dict[str, str]:
    return {f"key-{number}": f"v{version}-{number}" for number in range(first, last)}


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_a_global_table_is_filled_followed_kept_and_rebuilt(topics: Topics, workers: Workers, guarantee: str) -> None:
    """All of it before the first question; then updates; after a restart the tail only; all again without state."""
    lookups = Lookups(topics, workers, guarantee, "global_table")
    lookups.put(rows(0, ROWS, 1))
    worker = lookups.start()
    with topics.reader(lookups.answers) as reader:
        lookups.check(reader, "key-0", "key-1", f"key-{ROWS - 1}")
        assert all(values[0] != "round 1: none" for values in reader.values.values())
        assert sum(restored(worker).values()) == ROWS
        assert len(restored(worker)) == PARTITIONS

        lookups.put(rows(1, 3, 2))
        lookups.check(reader, "key-0", "key-1", "key-2")
        worker.stop()

        kept = lookups.start()
        lookups.check(reader, "key-1")
        assert restored(kept) == {}
        kept.kill()

        lookups.put(rows(2, 12, 3))
        tail = lookups.start()
        lookups.check(reader, "key-0", "key-1", "key-2", "key-11")
        assert sum(restored(tail).values()) == 10
        tail.stop()

        shutil.rmtree(workers.state_dir)
        again = lookups.start()
        lookups.check(reader, "key-1", "key-2", "key-2999")
        assert sum(restored(again).values()) == ROWS + 2 + 10
        again.stop()
    assert f"{workers.application}-table-changelog" not in topics.names()


def test_a_partition_that_is_added_is_read_while_the_worker_runs(topics: Topics, workers: Workers) -> None:
    """And is kept like the others."""
    lookups = Lookups(topics, workers, "at_least_once", "global_table")
    lookups.put(rows(0, 3, 1))
    worker = lookups.start(metadata_max_age_ms=500)
    with topics.reader(lookups.answers) as reader:
        lookups.check(reader, "key-0")
        more = 8 * PARTITIONS
        topics.add_partitions(lookups.table, more)
        lookups.put(rows(100, 200, 2))
        assert sum(topics.end_offsets(lookups.table, more).values()) == 103
        assert sum(topics.end_offsets(lookups.table, PARTITIONS).values()) < 103
        lookups.check(reader, *rows(100, 200, 2))
        worker.stop()
        again = lookups.start()
        lookups.check(reader, "key-0", "key-199")
        assert restored(again) == {}
        again.stop()


def test_nobody_in_the_group_reads_the_topic_of_a_global_table(topics: Topics, workers: Workers, kafka: str) -> None:
    """Every process reads all of it, by itself."""
    lookups = Lookups(topics, workers, "at_least_once", "global_table")
    lookups.put(rows(0, 3, 1))
    worker = lookups.start()
    with topics.reader(lookups.answers) as reader:
        lookups.check(reader, "key-0")
    group = workers.application
    admin = AdminClient({"bootstrap.servers": kafka})  # it must live as long as its answers are waited for
    described = admin.describe_consumer_groups([group])[group].result(60)
    assigned = {one.topic for member in described.members for one in member.assignment.topic_partitions}
    assert lookups.table not in assigned
    worker.stop()
    assert topics.committed(group, lookups.table, PARTITIONS) == {}


def test_a_global_table_whose_records_were_deleted_is_rebuilt(topics: Topics, workers: Workers, kafka: str) -> None:
    """What it holds may be wrong then; the log says so."""
    lookups = Lookups(topics, workers, "at_least_once", "global_table")
    delete_too(kafka, lookups.table)
    lookups.put({"gone": "1"})
    worker = lookups.start()
    with topics.reader(lookups.answers) as reader:
        lookups.check(reader, "gone")
        worker.stop()
        lookups.put({f"more-{number}": "2" for number in range(20)})
        ends = topics.end_offsets(lookups.table, PARTITIONS)
        admin = AdminClient({"bootstrap.servers": kafka})
        places = [ClientPartition(lookups.table, number, end) for number, end in ends.items()]
        for future in admin.delete_records(places).values():
            future.result(60)
        lookups.expected.clear()
        again = lookups.start()
        lookups.check(reader, "gone")
        assert again.events("global store is rebuilt from its topic: its offset is outside of the topic")
        again.stop()


def delete_too(kafka: str, topic: str) -> None:
    """Records of a topic that is only compacted cannot be deleted."""
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.incremental_alter_configs([resource])[resource].result(60)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_a_read_only_store_is_restored_from_its_source_topic(topics: Topics, workers: Workers, guarantee: str) -> None:
    """KIP-813: no changelog topic; a kept store reads nothing again, a removed one up to the committed offsets."""
    lookups = Lookups(topics, workers, guarantee, "read_only_store")
    lookups.put(rows(0, ROWS, 1))
    worker = lookups.start()
    with topics.reader(lookups.answers) as reader:
        lookups.check(reader, "key-0", "key-1", f"key-{ROWS - 1}")
        worker.stop()
        assert restored(worker) == {}
        assert sum(topics.committed(workers.application, lookups.table, PARTITIONS).values()) == ROWS

        kept = lookups.start()
        lookups.check(reader, "key-1")
        kept.stop()
        assert restored(kept) == {}

        shutil.rmtree(workers.state_dir)
        lookups.put(rows(1, 3, 2))
        again = lookups.start()
        lookups.check(reader, "key-0", "key-1", "key-2")
        again.stop()
    assert sum(event["records"] for event in again.events("restored")) == ROWS
    assert not any("changelog" in name for name in topics.names() if workers.application in name)
