"""Partitions that librdkafka's partitioners choose for keys, compared with those of this library."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from streams import StreamsBuilder, TopologyTestDriver

KEYS = [f"device-{number}" for number in range(40)]
PARTITIONS = 4
"""The number that librdkafka's own cluster for tests gives to a topic."""


def partitions_of_librdkafka(settings: dict[str, str]) -> list[int | None]:
    found: dict[bytes | str | None, int | None] = {}

    def sent(error: KafkaError | None, message: Message) -> None:
        assert error is None
        found[message.key()] = message.partition()

    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0, **settings})
    for key in KEYS:
        producer.produce("devices", key=key, on_delivery=sent)
    assert producer.flush(30) == 0
    return [found[key.encode()] for key in KEYS]


def partitions_here() -> list[int | None]:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("devices")
    with TopologyTestDriver(builder, partitions={"devices": PARTITIONS}) as driver:
        driver.create_input_topic("in").pipe_key_values([(key, "") for key in KEYS])
        return [record.partition for record in driver.create_output_topic("devices").read_records()]


def test_murmur2_random_chooses_the_partitions_of_this_library() -> None:
    assert partitions_of_librdkafka({"partitioner": "murmur2_random"}) == partitions_here()


def test_the_default_of_librdkafka_shares_one_partition_in_four() -> None:
    """The documentation says about one in four, by chance."""
    pairs = zip(partitions_of_librdkafka({}), partitions_here(), strict=True)
    assert sum(theirs == ours for theirs, ours in pairs) == 9
