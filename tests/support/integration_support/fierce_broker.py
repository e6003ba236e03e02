"""A broker that looks for old records each second and compacts all the time, and a way to wait until it has."""

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from waiting import wait_until

FIERCE = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.0001",
    "log.roll.ms": "500",
    "log.segment.delete.delay.ms": "100",
}
OLD_MS = 1_000_000_000_000


def wait_for_the_cleaner(bootstrap: str, canary: str) -> None:
    """Waits until the broker has looked for old records and compacted since now.

    :param canary: the name of a topic that this makes, with an old record that is deleted and keys that are compacted.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    producer = Producer({"bootstrap.servers": bootstrap})
    topics = {
        f"{canary}-old": {"retention.ms": "1000"},
        f"{canary}-keys": {"cleanup.policy": "compact", "segment.ms": "500", "max.compaction.lag.ms": "500"},
    }
    for future in admin.create_topics([NewTopic(name, 1, 1, config=one) for name, one in topics.items()]).values():
        future.result()
    producer.produce(f"{canary}-old", "v", "k", timestamp=OLD_MS)
    assert producer.flush(60) == 0
    wait_until("old records are deleted", lambda: first_offset(bootstrap, f"{canary}-old") is None)

    def compacted() -> bool:
        producer.produce(f"{canary}-keys", "v", "k")  # a segment is closed by the record behind it
        assert producer.flush(60) == 0
        first = first_offset(bootstrap, f"{canary}-keys")
        return first is not None and first > 0

    wait_until("keys are compacted", compacted)


def first_offset(bootstrap: str, topic: str) -> int | None:
    """The first offset that has a record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "canary", "enable.partition.eof": True})
    try:
        consumer.assign([ClientPartition(topic, 0, 0)])
        message = consumer.poll(10.0)
        return None if message is None or message.error() is not None else message.offset()
    finally:
        consumer.close()
