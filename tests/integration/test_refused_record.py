"""A sink's record that cannot be delivered ends the application, and nothing at or after its input is committed.

One that only cannot be delivered yet is processed again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from integration_support.topics import Topics
from integration_support.workers import Workers
from tools.kafka.broker import Broker
from waiting import wait_until

BEFORE, LARGE_AT, AFTER = 20, 50, 200


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize(("size", "refuses"), [(5_000, "the broker"), (1_500_000, "the client")])
def test_a_refused_record_ends_the_application(
    topics: Topics, workers: Workers, guarantee: str, size: int, refuses: str
) -> None:
    """Whether the broker refuses it later, or the client at once: one error that names the topic, status 1."""
    source = topics.create("input", config={"max.message.bytes": "4000000"})
    sink = topics.create("output", config={"max.message.bytes": "2000"})
    topics.send(source, ((None, f"small {number}") for number in range(BEFORE)))
    worker = workers.start(
        "copy_values:topology",
        settings={"processing.guarantee": guarantee, "commit.interval.ms": 300},
        env={"INPUTS": source, "OUTPUT": sink},
    )
    group = workers.application
    wait_until("what can be copied is committed", lambda: topics.committed(group, source) == {0: BEFORE})
    values = ["x" * size if number == LARGE_AT else f"small {number}" for number in range(BEFORE, AFTER)]
    topics.send(source, ((None, value) for value in values))

    assert worker.wait() == 1
    assert len(worker.errors) == 1, worker.errors
    assert sink in worker.errors[0]
    assert "too large" in worker.errors[0].lower() or "too big" in worker.errors[0].lower()
    assert topics.committed(group, source)[0] <= LARGE_AT
    with topics.reader(sink) as reader:
        reader.to_end()
        copied = [record.value().decode() for record in reader.records]
    assert copied[:BEFORE] == [f"small {number}" for number in range(BEFORE)]
    if guarantee == "exactly_once_v2":
        assert len(copied) == topics.committed(group, source)[0]


@pytest.mark.parametrize("kind", ["fixed", "dynamic"])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_topic_with_a_low_limit_gets_every_record(
    topics: Topics, workers: Workers, guarantee: str, kind: str
) -> None:
    """A batch that is refused took along records that the topic takes: now none is made that is too large, or, where
    the limit was not known, it is rolled back and sent in smaller ones. A handler that drops records drops none."""
    source, sink = topics.create("input"), topics.create("output", config={"max.message.bytes": "20000"})
    values = [f"{number:03d}".ljust(200, ".") for number in range(500)]
    topics.send(source, ((None, value) for value in values))
    worker = workers.start(
        f"copy_values:{'topology' if kind == 'fixed' else 'chosen'}",
        settings={
            "processing.guarantee": guarantee,
            "commit.interval.ms": 300,
            "production.exception.handler": "copy_values:dropping",
        },
        env={"INPUTS": source, "OUTPUT": sink},
    )
    wait_until("all is committed", lambda: topics.committed(workers.application, source) == {0: len(values)})
    worker.stop()
    with topics.reader(sink) as reader:
        reader.to_end()
        copied = [record.value().decode() for record in reader.records]
    assert copied[-len(values) :] == values
    if kind == "fixed" or guarantee == "exactly_once_v2":
        assert copied == values


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_dead_letter_near_the_limit_leaves_out_headers(topics: Topics, workers: Workers, guarantee: str) -> None:
    """The application ended at it, at each restart again."""
    source, sink = topics.create("input"), topics.create("output")
    letters = topics.create("letters", config={"max.message.bytes": "3000"})
    values = ["1", "x" * 2_400, "2", "y" * 2_900, "3"]
    topics.send(source, ((None, value) for value in values))
    worker = workers.start(
        "copy_values:only_short",
        settings={
            "processing.guarantee": guarantee,
            "commit.interval.ms": 100,
            "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
            "errors.dead.letter.queue.topic.name": letters,
        },
        env={"INPUTS": source, "OUTPUT": sink},
    )
    wait_until("all is committed", lambda: topics.committed(workers.application, source) == {0: len(values)})
    worker.stop()
    with topics.reader(letters) as reader, topics.reader(sink) as copied:
        reader.to_end()
        copied.to_end()
        found = {record.value().decode(): [name for name, _ in record.headers() or ()] for record in reader.records}
        assert set(found) == {values[1], values[3]}
        assert {record.value() for record in copied.records} == {b"1", b"2", b"3"}
    assert "__streams.errors.offset" in found[values[1]]
    assert "__streams.errors.stacktrace" not in found[values[1]]
    assert found[values[3]] == []


@pytest.mark.parametrize("size", [5_000, 1_500_000])
def test_a_refused_record_becomes_a_dead_letter(topics: Topics, workers: Workers, size: int) -> None:
    """With its own time and headers, which the client's report does not have; the others are copied."""
    source = topics.create("input", config={"max.message.bytes": "4000000"})
    sink = topics.create("output", config={"max.message.bytes": "2000"})
    letters = topics.create("letters")
    topics.send(source, ((None, f"{number}".ljust(size if number == 1 else 1)) for number in range(3)))
    worker = workers.start(
        "copy_values:tagged",
        settings={
            "commit.interval.ms": 100,
            "production.exception.handler": "copy_values:as_dead_letter",
            "errors.dead.letter.queue.topic.name": letters,
            "producer.batch.num.messages": 1,  # a broker refuses whole batches
        },
        env={"INPUTS": source, "OUTPUT": sink},
    )
    wait_until("all is committed", lambda: topics.committed(workers.application, source) == {0: 3})
    worker.stop()
    with topics.reader(letters) as reader, topics.reader(sink) as copied:
        reader.to_end()
        copied.to_end()
        (letter,) = reader.records
        assert [record.value() for record in copied.records] == [b"0", b"2"]
    assert letter.value() == b"1 (shortened)"
    assert letter.timestamp()[1] == 7
    headers = dict(letter.headers())
    assert headers["tag"] == b"1"
    assert headers["__streams.errors.exception"] == b"processor_api.errors.ProductionError"


@pytest.mark.parametrize(
    ("guarantee", "timeout"),
    [
        ("exactly_once_v2", "producer.transaction.timeout.ms"),
        pytest.param("at_least_once", "producer.delivery.timeout.ms", marks=pytest.mark.slow),
    ],
)
def test_what_is_refused_for_a_while_is_processed_again(
    start_broker: Callable[..., Broker],
    unique_name: Callable[[str], str],
    tmp_path: Path,
    guarantee: str,
    timeout: str,
) -> None:
    """As long as the topic is not there the work since the last commit is done over; then it goes on by itself."""
    broker = start_broker({"auto.create.topics.enable": "false"})
    topics, sink = Topics(broker.bootstrap, unique_name), unique_name("output")
    source = topics.create("input")
    topics.send(source, ((None, f"value {number}") for number in range(AFTER)))
    with closing(Workers(tmp_path, broker.bootstrap, unique_name("app"))) as workers:
        worker = workers.start(
            "copy_values:topology",
            settings={"processing.guarantee": guarantee, "commit.interval.ms": 100, timeout: 1000},
            env={"INPUTS": source, "OUTPUT": sink},
        )
        # a transaction may be over before the delivery is
        tried = (
            "a record was refused; its task goes back to its last commit, and waits",
            "transaction aborted; tasks go back to their last commit",
        )
        wait_until("it was tried twice", lambda: sum(len(worker.events(line)) for line in tried) >= 2)
        assert topics.committed(workers.application, source).get(0, 0) == 0
        topics.create_named(sink, 1)
        wait_until("all is committed", lambda: topics.committed(workers.application, source) == {0: AFTER})
        worker.stop()
    with topics.reader(sink) as reader:
        reader.to_end()
        copied = [record.value().decode() for record in reader.records]
    due = [f"value {number}" for number in range(AFTER)]
    assert copied == due if guarantee == "exactly_once_v2" else set(copied) == set(due)
