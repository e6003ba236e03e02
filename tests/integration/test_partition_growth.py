"""A source topic that is given more partitions while its readers run."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewPartitions

from integration_support.counting import PARTITIONS, Counting
from integration_support.topics import Topics
from integration_support.workers import Workers


def test_more_partitions_end_all_workers_with_one_error(kafka: str, topics: Topics, workers: Workers) -> None:
    """It names the topic and both counts, nothing is lost, and a new start is refused in the same way."""
    counting = Counting(topics, workers, metadata_max_age_ms=500)
    counting.send()
    running = [counting.start().wait_running() for _ in range(2)]
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        admin = AdminClient({"bootstrap.servers": kafka})
        admin.create_partitions([NewPartitions(counting.input, PARTITIONS + 2)])[counting.input].result(60)
        counts = f"source topic {counting.input!r} has {PARTITIONS + 2} partitions now and had {PARTITIONS}"
        for worker in running:
            assert worker.wait() == 2  # it cannot run as asked
            assert len(worker.errors) == 1, worker.tail
            assert counts in worker.errors[0]
        again = counting.start()
        assert again.wait() == 2
        assert len(again.errors) == 1, again.tail
        assert f"-changelog' has {PARTITIONS}, but needs {PARTITIONS + 2}" in again.errors[0]
        counting.check(reader)
