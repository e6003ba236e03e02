"""A real registry, Apicurio, passes the contract of registries, and an application works with it on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.struct_pb2 import Struct

from integration_support.topics import Topics
from registry_contract import Order, RegistryContract, avro_record
from streams import Avro, KafkaStreams, Protobuf, SchemaRegistry, StreamsBuilder, StreamsConfig
from streams.cli.registry.check import checked
from streams.registry.schemas import SchemaError
from tools.apicurio import Apicurio
from waiting import wait_until

pytestmark = pytest.mark.slow
TOPIC_STRATEGY = {"subject.name.strategy.type": "TOPIC"}


@pytest.fixture(scope="module")
def apicurio() -> Iterator[str]:
    with Apicurio() as registry:
        yield registry.url


@pytest.fixture
def confluent(apicurio: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": apicurio}) as client:
        yield client


class TestApicurio(RegistryContract):
    @pytest.fixture
    def url(self, apicurio: str) -> str:
        return apicurio


def test_an_incompatible_schema_is_refused_by_its_subject(apicurio: str, confluent: SchemaRegistryClient) -> None:
    registry = SchemaRegistry(apicurio)
    Avro(schema={"type": "record", "name": "R", "fields": []}, registry=registry).bind("held", is_key=False).serialize(
        {}
    )
    confluent.set_compatibility("held-value", "BACKWARD")
    assert registry.client.compatibility("held-value") == "BACKWARD"
    wider = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    serde = Avro(schema=wider, registry=registry)
    assert not registry.client.is_compatible("held-value", serde.format().own)
    with pytest.raises(SchemaError, match=r"subject held-value: .* rejects it"):
        serde.bind("held", is_key=False).serialize({"a": 1})


def test_the_check_foretells_what_a_registry_refuses(
    apicurio: str, confluent: SchemaRegistryClient, unique_name: Callable[[str], str]
) -> None:
    """A schema that reads the latest version, but not the first one, is refused where the level is transitive."""
    registry, strict, lax = SchemaRegistry(apicurio), unique_name("strict"), unique_name("lax")
    for topic, level in ((strict, "BACKWARD_TRANSITIVE"), (lax, "BACKWARD")):
        for fields in (["customer:string"], ["customer:string", "cents:long:0"]):
            schema = Avro(schema=avro_record("Order", *fields)).format().own
            assert schema is not None
            registry.client.register(f"{topic}-value", schema)
        confluent.set_compatibility(f"{topic}-value", level)
    wanted = Avro(schema=avro_record("Order", "customer:string", "cents:long"), registry=registry)
    builder = StreamsBuilder(key_serde="string", value_serde=wanted)
    builder.stream([strict, lax]).to(unique_name("new"))
    config = StreamsConfig(application_id="shop", bootstrap_servers="localhost:9092")

    def findings(level: str | None) -> list[str]:
        return [str(found).partition("avro ")[2] for found in checked(builder.build(), config, level)][:2]

    assert findings(None) == [
        "is not compatible with all versions (BACKWARD_TRANSITIVE)",
        "is compatible with version 2",
    ]
    for topic, refused in ((strict, True), (lax, False)):
        with pytest.raises(SchemaError, match="not compatible with the earlier versions") if refused else nullcontext():
            wanted.bind(topic, is_key=False).serialize({"customer": "ann", "cents": 1})
    assert findings("FORWARD_TRANSITIVE") == ["is compatible with version 2", ""]
    assert findings("FULL") == ["is compatible with version 2", ""]
    complaint = "against version 1: older records cannot be read: field 'cents' is new and does not have a default"
    assert findings("FULL_TRANSITIVE") == [f"is not FULL_TRANSITIVE {complaint}", ""]


def test_a_registry_without_guids_says_that_ids_go_in_front(apicurio: str) -> None:
    serde = Avro(Order, registry=SchemaRegistry(apicurio, schema_ids="header")).bind("headers", is_key=False)
    with pytest.raises(SchemaError, match="headers are GUIDs, but the registry"):
        serde.with_headers([]).serialize(Order("ann", 1))


def test_messages_of_protobuf(apicurio: str) -> None:
    value = Struct()
    value.update({"customer": "ann"})
    serde = Protobuf(Struct, registry=SchemaRegistry(apicurio)).bind("structs", is_key=False)
    assert serde.deserialize(serde.serialize(value)) == value


def test_an_application_reads_and_writes_beside_confluents_clients(
    kafka: str,
    apicurio: str,
    confluent: SchemaRegistryClient,
    tmp_path: Path,
    unique_name: Callable[[str], str],
    topics: Topics,
) -> None:
    source, target, application = topics.create("in"), topics.create("out"), unique_name("shop")
    registry = SchemaRegistry(apicurio)
    serializer = AvroSerializer(confluent, Avro(Order).format().own.text, conf=TOPIC_STRATEGY)
    producer = Producer({"bootstrap.servers": kafka})
    for cents in (1, 2):
        fields = {"customer": "ann", "cents": cents, "note": None}
        producer.produce(source, serializer(fields, SerializationContext(source, MessageField.VALUE)), "ann")
    producer.flush()
    builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=registry)
    sums = builder.stream(source).group_by_key()
    sums.reduce(lambda a, b: Order(a.customer, a.cents + b.cents), materialized="sums").to_stream().to(target)
    config = {"application.id": application, "bootstrap.servers": kafka, "state.dir": str(tmp_path)}
    read = AvroDeserializer(confluent, conf=TOPIC_STRATEGY)
    seen: list[int] = []
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": application, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(target, 0, OFFSET_BEGINNING)])

    def has_sum() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen.append(read(message.value(), SerializationContext(target, MessageField.VALUE))["cents"])
        return bool(seen) and seen[-1] == 3

    with closing(consumer), KafkaStreams(builder.build(), {**config, "commit.interval.ms": 100}):
        wait_until("the sum is 3", has_sum)
    assert f"{application}-sums-changelog-value" in registry.client.subjects()
