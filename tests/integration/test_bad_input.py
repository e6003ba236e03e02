"""What does not fit the cluster is told in one line that names it; the status is not zero, and nothing is committed.

The other part of the table, for which no Kafka is needed, is in tests/support/bad_input_support; what a broker that is
away gets is in test_broker_outage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from waiting import wait_until


class Given(NamedTuple):
    """What went wrong: who met it, and what it has to be told."""

    worker: Worker
    told: tuple[str, ...]
    source: str | None = None
    """An input topic with one record, none of which may be committed."""


class Row(NamedTuple):
    """One bad input."""

    name: str
    start: Callable[[Topics, Workers], Given]
    status: int


def missing_source(topics: Topics, workers: Workers) -> Given:
    """It may come later: status 1, so that a supervisor tries again."""
    output = topics.create("output")
    worker = workers.start("copy_values:topology", env={"INPUTS": "no-such-topic", "OUTPUT": output})
    return Given(worker, ("source topics do not exist: 'no-such-topic'",))


def internal_topic_of_another_width(topics: Topics, workers: Workers) -> Given:
    """With the counts that it has and needs."""
    source, output = topics.create("lines", 4), topics.create("counts")
    topics.send(source, [(None, "all the words")], partitions=1)
    changelog = f"{workers.application}-counts-changelog"
    topics.create_named(changelog, 3)
    worker = workers.start("word_count:topology", env={"INPUTS": source, "OUTPUT": output})
    return Given(worker, (f"'{changelog}' has 3, but needs 4",), source)


def not_copartitioned(topics: Topics, workers: Workers) -> Given:
    """With their partition counts."""
    first, second, output = topics.create("first", 4), topics.create("second", 3), topics.create("output")
    topics.send(first, [(None, "a record")], partitions=1)
    worker = workers.start("copartitioned:topology", env={"INPUTS": f"{first},{second}", "OUTPUT": output})
    return Given(worker, (first, second, "4", "3"), first)


def lost_offsets(topics: Topics, workers: Workers) -> Given:
    """To start over would count records twice, to start at the end would miss some: a person has to say which."""
    source, output = topics.create("lines"), topics.create("counts")
    environment, settings = {"INPUTS": source, "OUTPUT": output}, {"commit.interval.ms": 100}
    topics.send(source, [(None, "all the words")])
    worker = workers.start("word_count:topology", settings=settings, env=environment)
    with topics.reader(output) as reader:
        reader.until("the words are counted", lambda found: len(found.latest) == 3)
    worker.stop()
    group = workers.application
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    wait_until("nobody is in the group", lambda: not admin.describe_consumer_groups([group])[group].result(60).members)
    admin.delete_consumer_groups([group])[group].result(60)
    worker = workers.start("word_count:topology", settings=settings, env=environment)
    reset = "`streams reset APP --offsets-only --from-file FILE`, with the line "
    return Given(worker, (f"{group}-words-repartition-0", reset, str(workers.state_dir / group)))


def failing_function(topics: Topics, workers: Workers) -> Given:
    """Each start meets the record again, and says the same."""
    source, output = topics.create("lines"), topics.create("output")
    topics.send(source, [("a-key", "bad")])
    environment = {"INPUTS": source, "OUTPUT": output}
    first = workers.start("failing:topology", settings={"commit.interval.ms": 100}, env=environment)
    assert first.wait() == 1, first.tail
    worker = workers.start("failing:topology", settings={"commit.interval.ms": 100}, env=environment)
    return Given(worker, ("ValueError in node 'KSTREAM-MAPVALUES-", f"topic='{source}'", "offset=0", "a-key"), source)


TABLE = [
    Row("missing source topic", missing_source, 1),
    Row("internal topic of another width", internal_topic_of_another_width, 2),
    Row("topics that are not copartitioned", not_copartitioned, 2),
    Row("lost offsets of a store", lost_offsets, 2),
    Row("function that raises", failing_function, 1),
]


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_bad_input_is_told_and_loses_nothing(row: Row, topics: Topics, workers: Workers) -> None:
    found = row.start(topics, workers)
    check(found.worker, row.status, found.told)
    if found.source is not None:
        assert {place: at for place, at in topics.committed(workers.application, found.source, 4).items() if at} == {}


def check(worker: Worker, status: int, told: tuple[str, ...]) -> None:
    assert worker.wait() == status, worker.tail
    assert len(worker.errors) == 1, worker.tail
    assert [part for part in told if part not in worker.errors[0]] == [], worker.tail
