"""A sink's record that cannot be delivered ends the application, and nothing at or after its input is committed."""

from __future__ import annotations

import pytest

from integration_support.topics import Topics
from integration_support.workers import Workers, wait_until

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
