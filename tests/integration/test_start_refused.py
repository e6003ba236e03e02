"""What does not fit is told in one line that names it, and the command ends with a status that is not zero."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from integration_support.topics import Topics
from integration_support.workers import Worker, Workers, wait_until


def refused(worker: Worker, status: int) -> str:
    """The one line that says why it ended."""
    assert worker.wait() == status, worker.tail
    assert len(worker.errors) == 1, worker.tail
    assert "Traceback" not in worker.errors[0]
    return worker.errors[0]


def test_a_missing_source_topic_is_named(topics: Topics, workers: Workers) -> None:
    """It may come later: status 1, so that a supervisor tries again."""
    output = topics.create("output")
    worker = workers.start("copy_values:topology", env={"INPUTS": "no-such-topic", "OUTPUT": output})
    assert "'no-such-topic'" in refused(worker, 1)


def test_an_internal_topic_of_another_width_is_named(topics: Topics, workers: Workers) -> None:
    """With the counts that it has and needs."""
    source, output = topics.create("lines", 4), topics.create("counts")
    changelog = f"{workers.application}-counts-changelog"
    topics.create_named(changelog, 3)
    error = refused(workers.start("word_count:topology", env={"INPUTS": source, "OUTPUT": output}), 2)
    assert f"'{changelog}' has 3, needs 4" in error


def test_topics_that_are_not_copartitioned_are_named(topics: Topics, workers: Workers) -> None:
    """With their partition counts."""
    first, second, output = topics.create("first", 4), topics.create("second", 3), topics.create("output")
    error = refused(workers.start("copartitioned:topology", env={"INPUTS": f"{first},{second}", "OUTPUT": output}), 2)
    for topic, partitions in ((first, 4), (second, 3)):
        assert topic in error
        assert str(partitions) in error


def test_lost_offsets_of_a_store_stop_the_application(topics: Topics, workers: Workers, kafka: str) -> None:
    """To start over would count records twice, to start at the end would miss some: a person has to say which."""
    source, output = topics.create("lines"), topics.create("counts")
    environment = {"INPUTS": source, "OUTPUT": output}
    settings = {"commit.interval.ms": 100}
    topics.send(source, [(None, "all the words")])
    worker = workers.start("word_count:topology", settings=settings, env=environment)
    with topics.reader(output) as reader:
        reader.until("the words are counted", lambda found: len(found.latest) == 3)
    worker.stop()

    group = workers.application
    admin = AdminClient({"bootstrap.servers": kafka})
    wait_until("nobody is in the group", lambda: not admin.describe_consumer_groups([group])[group].result(60).members)
    admin.delete_consumer_groups([group])[group].result(60)
    error = refused(workers.start("word_count:topology", settings=settings, env=environment), 1)
    assert f"{group}-words-repartition-0" in error
    assert "kafka-consumer-groups.sh --reset-offsets" in error
    assert str(workers.state_dir / group) in error
