"""What each client is made with."""

import ctypes
import re
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from processor_api.errors import ConfigError
from processor_api.user_code.offset_reset import AutoOffsetReset
from streams.config import StreamsConfig, clients
from streams.config.client_properties import ALIASES, PROPERTIES, ClientProperty
from streams.config.java_clients import HANDLED, OURS, REFUSED, RENAMED

EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}
AS_JAVA = {
    "reconnect.backoff.max.ms": 1000,
    "socket.connection.setup.timeout.ms": 10_000,
    "socket.keepalive.enable": True,
    "socket.timeout.ms": 30_000,
}


def config(settings: dict[str, Any] | None = None) -> StreamsConfig:
    return StreamsConfig.of({"application.id": "app", "bootstrap.servers": "127.0.0.1:1", **(settings or {})})


def refusal(settings: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        config(settings)
    return caught.value.message


def test_the_main_consumer_leaves_offsets_and_topics_to_the_runtime() -> None:
    assert clients.main_consumer(config(), "app-1-consumer") == {
        "allow.auto.create.topics": False,
        "auto.offset.reset": "earliest",
        "bootstrap.servers": "127.0.0.1:1",
        "client.id": "app-1-consumer",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.metrics.push": True,
        "enable.partition.eof": True,
        "fetch.queue.backoff.ms": 5,
        "group.id": "app",
        "heartbeat.interval.ms": 1000,
        "isolation.level": "read_committed",
        "partition.assignment.strategy": "cooperative-sticky",
        "queued.max.messages.kbytes": 16_384,
        "queued.min.messages": 20_000,
        "statistics.interval.ms": 15_000,
        **AS_JAVA,
    }


def test_static_members_have_their_own_instance_id() -> None:
    made = config({"consumer.group.instance.id": "pod-0"})
    assert clients.group_instance_id(made) == "pod-0"
    assert clients.group_instance_id(config()) is None
    assert clients.main_consumer(made, "c", "pod-0-1")["group.instance.id"] == "pod-0-1"
    assert "group.instance.id" not in clients.main_consumer(made, "c")
    assert "group.instance.id" not in clients.restore_consumer(made, "c")


def test_consumers_never_jump_by_themselves() -> None:
    """The client would know one policy only, where each source may have its own. That of inputs goes to the beginning,
    where the runtime finds it, because a member of a group cannot start a partition again that was stopped."""
    made = config({"consumer.auto.offset.reset": "latest"})
    assert clients.main_consumer(made, "c")["auto.offset.reset"] == "earliest"
    for make in (clients.restore_consumer, clients.global_consumer):
        found = make(made, "c")
        assert found["auto.offset.reset"] == "error"
        assert "partition.assignment.strategy" not in found
        assert found["enable.partition.eof"] is True


def test_consumers_read_committed_records_only_under_each_guarantee() -> None:
    """At least once too: topics may have records that were rolled back by workers with the other guarantee."""
    makes = (clients.main_consumer, clients.restore_consumer, clients.global_consumer)
    for made in (config(), config(EXACTLY_ONCE), config({"consumer.isolation.level": "READ_COMMITTED"})):
        assert {make(made, "c")["isolation.level"] for make in makes} == {"read_committed"}


def test_producers_are_idempotent_and_partition_as_java_does() -> None:
    assert clients.producer(config(), "p") == {
        "bootstrap.servers": "127.0.0.1:1",
        "client.id": "p",
        "delivery.report.only.error": True,
        "enable.idempotence": True,
        "enable.metrics.push": True,
        "linger.ms": 5,
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": 32_768,
        "queue.buffering.max.messages": 500_000,
        "statistics.interval.ms": 15_000,
        **AS_JAVA,
    }
    found = clients.producer(config(EXACTLY_ONCE), "p", "app-uuid-1")
    assert found["transactional.id"] == "app-uuid-1"
    assert found["transaction.timeout.ms"] == 10_000
    assert found["retry.backoff.ms"] == 10


def test_what_waits_in_clients_is_bounded() -> None:
    """A join held several seconds of its input, and of what it sent, in memory."""
    main, restore = clients.main_consumer(config(), "c"), clients.restore_consumer(config(), "c")
    assert (main["queued.max.messages.kbytes"], main["queued.min.messages"]) == (16_384, 20_000)
    assert (restore["queued.max.messages.kbytes"], restore["queued.min.messages"]) == (65_536, 200_000)
    assert (main["statistics.interval.ms"], restore["statistics.interval.ms"]) == (15_000, 0)
    assert clients.global_consumer(config(), "c")["statistics.interval.ms"] == 0
    given = config({"consumer.queued.min.messages": 7, "producer.buffer.memory": 1 << 20})
    assert clients.main_consumer(given, "c")["queued.min.messages"] == 7
    assert clients.restore_consumer(given, "c")["queued.min.messages"] == 7
    assert clients.producer(given, "p")["queue.buffering.max.kbytes"] == 1024


def test_the_largest_record_fits_into_the_buffer() -> None:
    large = config({"producer.max.request.size": 100 << 20})
    assert clients.producer(large, "p")["queue.buffering.max.kbytes"] == 200 << 10


def test_every_client_waits_for_a_broker_as_long_as_javas() -> None:
    """A connection over which nothing comes back was given up after a minute."""
    made = config()
    found = [
        clients.main_consumer(made, "c"),
        clients.restore_consumer(made, "c"),
        clients.global_consumer(made, "c"),
        clients.producer(made, "p"),
        clients.admin(made, "a"),
    ]
    assert [{name: one[name] for name in AS_JAVA} for one in found] == [AS_JAVA] * 5
    transactional = clients.producer(config(EXACTLY_ONCE), "p", "t")
    assert "socket.timeout.ms" not in transactional  # librdkafka's is a little less than the transaction's
    assert transactional["reconnect.backoff.max.ms"] == 1000


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"request.timeout.ms": 5000}, {"socket.timeout.ms": 5000}),
        ({"socket.connection.setup.timeout.ms": 40_000}, {"socket.connection.setup.timeout.ms": 40_000}),
        ({"reconnect.backoff.max.ms": 9000}, {"reconnect.backoff.max.ms": 9000}),
        ({"reconnect.backoff.ms": 5000}, {"reconnect.backoff.ms": 5000, "reconnect.backoff.max.ms": 5000}),
        ({"fetch.max.wait.ms": 50_000}, {"fetch.wait.max.ms": 50_000, "socket.timeout.ms": 51_000}),
    ],
)
def test_settings_of_the_user_decide_how_long_a_client_waits(given: dict[str, Any], found: dict[str, Any]) -> None:
    """Also one that needs more than the default of another."""
    made = clients.main_consumer(config(given), "c")
    assert {name: made[name] for name in found} == found
    confluent_kafka.Consumer({**made, "log_level": 0}).close()


def test_no_timeout_of_a_transactional_producer_outlives_its_transaction() -> None:
    given = {"request.timeout.ms": 40_000, "producer.delivery.timeout.ms": "2147483647"}
    plain = clients.producer(config(given), "p")
    assert (plain["socket.timeout.ms"], plain["delivery.timeout.ms"]) == (40_000, 2_147_483_647)
    found = clients.producer(config({**given, **EXACTLY_ONCE}), "p", "t")
    assert (found["socket.timeout.ms"], found["delivery.timeout.ms"]) == (10_000, 10_000)


def test_the_closer_prefix_wins_under_any_name_of_the_setting() -> None:
    made = config(
        {
            "fetch.max.wait.ms": 1,
            "session.timeout.ms": 1001,
            "consumer.fetch.wait.max.ms": 2,
            "main.consumer.fetch.max.wait.ms": 3,
            "restore.consumer.fetch.min.bytes": 4,
            "linger.ms": 6,
            "producer.queue.buffering.max.ms": 7,
            "client.rack": "r1",
            "admin.client.rack": "r2",
        }
    )
    main, restore = clients.main_consumer(made, "c"), clients.restore_consumer(made, "c")
    assert (main["fetch.wait.max.ms"], restore["fetch.wait.max.ms"]) == (3, 2)
    assert main["session.timeout.ms"] == 1001
    assert ("fetch.min.bytes" in main, restore["fetch.min.bytes"]) == (False, 4)
    assert clients.producer(made, "p")["linger.ms"] == 7
    assert "linger.ms" not in main
    assert [main["client.rack"], clients.producer(made, "p")["client.rack"]] == ["r1", "r1"]
    assert clients.admin(made, "a")["client.rack"] == "r2"
    assert "fetch.wait.max.ms" not in clients.admin(made, "a")


@pytest.mark.parametrize(("session_ms", "heartbeat_ms"), [(45_000, 1000), (9000, 1000), (2100, 700), (1001, 333)])
def test_three_heartbeats_fit_into_a_session_that_was_given(session_ms: int, heartbeat_ms: int) -> None:
    """A session shorter than the client's own interval of heartbeats was over before the first of them."""
    found = clients.main_consumer(config({"session.timeout.ms": session_ms}), "c")
    assert found["heartbeat.interval.ms"] == heartbeat_ms
    given = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 100}
    assert clients.main_consumer(config(given), "c")["heartbeat.interval.ms"] == 100


def test_security_settings_reach_every_client() -> None:
    made = config(
        {"security_protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl_password": "p"}
    )
    for found in (clients.main_consumer(made, "c"), clients.producer(made, "p"), clients.admin(made, "a")):
        assert found["security.protocol"] == "sasl_ssl"
        assert (found["sasl.username"], found["sasl.password"]) == ("u", "p")


def test_java_names_are_translated() -> None:
    made = config(
        {
            "producer.buffer.memory": 33_554_432,
            "producer.max.request.size": 2_000_000,
            "producer.acks": "all",
            "request.timeout.ms": "1000",
            "send.buffer.bytes": -1,
            "metadata.max.age.ms": 60_000,
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    found = clients.producer(made, "p")
    expected = {
        "queue.buffering.max.kbytes": 32_768,
        "message.max.bytes": 2_000_000,
        "acks": -1,
        "socket.timeout.ms": 1000,
        "socket.send.buffer.bytes": 0,
        "topic.metadata.refresh.interval.ms": 60_000,
        "metadata.max.age.ms": 180_000,
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert {name: found[name] for name in expected} == expected


def test_max_poll_records_is_the_size_of_a_batch() -> None:
    assert clients.max_poll_records(config()) == 1000
    made = config({"max.poll.records": 10, "consumer.max.poll.records": "20"})
    assert clients.max_poll_records(made) == 20
    assert "max.poll.records" not in clients.main_consumer(made, "c")
    assert refusal({"max.poll.records": 0}) == "max.poll.records must be from 1 to 2147483647, got 0"


@pytest.mark.parametrize(
    ("given", "reset"),
    [
        ("earliest", AutoOffsetReset.earliest()),
        ("LATEST", AutoOffsetReset.latest()),
        ("largest", AutoOffsetReset.latest()),
        ("none", AutoOffsetReset.none()),
        ("by_duration:P1DT2H3M4S", AutoOffsetReset.by_duration(93_784_000)),
        (AutoOffsetReset.by_duration(5), AutoOffsetReset.by_duration(5)),
    ],
)
def test_where_to_start_is_javas(given: Any, reset: AutoOffsetReset) -> None:
    made = config({"consumer.auto.offset.reset": given})
    assert clients.auto_offset_reset(made) == reset


@pytest.mark.parametrize("given", ["soon", "by_duration:", "by_duration:P", "by_duration:1h", 3])
def test_a_reset_that_is_none_is_refused(given: Any) -> None:
    assert refusal({"auto.offset.reset": given}).startswith("auto.offset.reset must be earliest, latest, none or by_")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"producer.enable.idempotence": "false"}, "producer.enable.idempotence must be true: without it"),
        ({"acks": 1}, "acks must be all: a record counts as written when all replicas have it"),
        ({"retries": 0}, "retries must be at least 1: producers are idempotent"),
        ({"producer.max.in.flight": 6}, "producer.max.in.flight must be at most 5: producers are idempotent"),
        ({"enable.auto.commit": True}, "enable.auto.commit must be false: offsets are committed with the state"),
        ({"consumer.group.id": "x"}, "consumer.group.id cannot be set for a client: the group is the application's"),
        ({"consumer.client.id": "x"}, "consumer.client.id cannot be set for a client: clients are named after"),
        (
            {"producer.transactional.id": "x"},
            "producer.transactional.id cannot be set for a client: this library derives it",
        ),
        ({"admin.bootstrap.servers": "x"}, "admin.bootstrap.servers cannot be set for a client: an application reads"),
        ({"producer.partitioner": "random"}, "producer.partitioner cannot be set for a client: records must go to"),
        ({"allow.auto.create.topics": True}, "allow.auto.create.topics must be false: a missing source topic is an"),
        (
            {"restore.consumer.auto.offset.reset": "latest"},
            "restore.consumer.auto.offset.reset cannot be set: a restore",
        ),
        (
            {"producer.fetch.min.bytes": 1},
            "producer.fetch.min.bytes cannot be set: producers do not have a setting fetch.min",
        ),
        ({"consumer.linger.ms": 1}, "consumer.linger.ms cannot be set: consumers do not have a setting linger.ms"),
        ({"fetch.min.bytes": "many"}, "fetch.min.bytes must be a whole number, got 'many'"),
        ({"fetch.min.bytes": -1}, "fetch.min.bytes must be from 0 to 2147483647, got -1"),
        ({"linger.ms": "soon"}, "linger.ms must be a number, got 'soon'"),
        ({"check.crcs": 1}, "check.crcs must be true or false, got 1"),
        ({"compression.type": "rar"}, "compression.type must be one of none, gzip, snappy, lz4, zstd; got 'rar'"),
        ({"oauth_cb": "x"}, "oauth_cb must be a function, got ********"),
        (
            {"interceptor.classes": "x"},
            "interceptor.classes has no equivalent in librdkafka: this library cannot load Java",
        ),
        ({"ssl.truststore.location": "x"}, "ssl.truststore.location has no equivalent in librdkafka: put the"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config has no equivalent in librdkafka: set sasl.username and"),
    ],
)
def test_what_no_client_may_be_told_is_refused_with_the_reason(settings: dict[str, Any], sentence: str) -> None:
    assert refusal(settings).startswith(sentence)


def test_exactly_once_forbids_reading_uncommitted_records() -> None:
    given = {"consumer.isolation.level": "read_uncommitted"}
    assert clients.main_consumer(config(given), "c")["isolation.level"] == "read_uncommitted"
    assert refusal({**given, **EXACTLY_ONCE}) == (
        "consumer.isolation.level must be read_committed under exactly_once_v2"
    )


def test_output_topics_may_be_made_by_writing_to_them() -> None:
    made = config({"producer.allow.auto.create.topics": False})
    assert clients.producer(made, "p")["allow.auto.create.topics"] is False
    assert "allow.auto.create.topics" not in clients.producer(config(), "p")


def test_topic_settings_are_text() -> None:
    made = config({"topic.retention.ms": 5, "topic.preallocate": True, "topic_segment_bytes": "6"})
    assert clients.topic_settings(made) == {"retention.ms": "5", "preallocate": "true", "segment.bytes": "6"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        EXACTLY_ONCE,
        {"request.timeout.ms": 300_000, "delivery.timeout.ms": 600_000, **EXACTLY_ONCE},
        {"delivery.timeout.ms": 0, "producer.transaction.timeout.ms": 60_000, **EXACTLY_ONCE},
        {"metadata.max.age.ms": 3_600_000, "receive.buffer.bytes": -1, "buffer.memory": 1024, "acks": "all"},
        {"linger.ms": 0.5, "client.rack": "r", "compression.type": "LZ4", "compression.level": 3, "log_level": 0},
        {"session.timeout.ms": 6000, "max.poll.interval.ms": 6000, "isolation.level": "read_committed"},
        {"enable.metrics.push": False, "statistics.interval.ms": 1000},
    ],
)
def test_librdkafka_takes_what_we_give_it(settings: dict[str, Any]) -> None:
    made = config(settings)
    quiet = {"log_level": 0}
    confluent_kafka.Producer({**clients.producer(made, "p", "t" if made.exactly_once else None), **quiet})
    AdminClient({**clients.admin(made, "a"), **quiet})
    for found in (
        clients.main_consumer(made, "c", "instance-1"),
        clients.restore_consumer(made, "c"),
        clients.global_consumer(made, "c"),
    ):
        confluent_kafka.Consumer({**found, **quiet}).close()


def properties_of_the_library(folder: Path) -> str:
    """librdkafka's own table of its settings, in Markdown."""
    library = next(Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*"), None)
    if library is None:
        pytest.skip("this build of confluent_kafka does not come with its own librdkafka")
    rdkafka, libc = ctypes.CDLL(str(library)), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(folder / "properties").encode(), b"w"))
    rdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    return (folder / "properties").read_text()


def test_the_table_of_client_settings_is_that_of_the_installed_library(tmp_path: Path) -> None:
    """A newer librdkafka with another setting, range or choice fails here, and the table is mended."""
    kinds = {"boolean": "bool", "integer": "int", "float": "number", "enum value": "choice"}
    expected: dict[str, ClientProperty] = {}
    for line in properties_of_the_library(tmp_path).splitlines():
        row = re.match(r"(\S+) +\| +([*CP]) +\|(.*?) \| .*\*Type: ([^*]+)\*", line)
        if row is None or row[4] == "see dedicated API" or row[1] in expected:
            continue
        kind, limits = kinds.get(row[4], "text"), row[3].strip()
        low, dots, high = limits.partition(" .. ")
        if kind in ("int", "number") and dots:
            expected[row[1]] = ClientProperty(row[2], kind, int(low), int(high))
        elif kind == "choice":
            expected[row[1]] = ClientProperty(row[2], kind, choices=tuple(limits.split(", ")))
        else:
            expected[row[1]] = ClientProperty(row[2], kind)
    not_for_users = {"builtin.features", "enabled_events", "interceptors"}
    assert {name: found for name, found in expected.items() if name not in not_for_users} == PROPERTIES


def test_the_tables_of_names_do_not_contradict_each_other() -> None:
    assert set(ALIASES) <= set(PROPERTIES)
    assert set(ALIASES.values()) | set(RENAMED.values()) <= set(PROPERTIES)
    assert not set(REFUSED) & (set(PROPERTIES) | set(RENAMED) | set(OURS) | set(HANDLED))
    assert set(OURS) | set(HANDLED) <= set(PROPERTIES)
