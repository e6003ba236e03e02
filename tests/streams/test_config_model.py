"""What a configuration takes, refuses and shows."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from processor_api.errors import ConfigError
from processor_api.handlers import Response
from processor_api.serde import Serdes
from processor_api.stores.queries import IsolationLevel
from processor_api.timestamps import log_and_skip_on_invalid_timestamp
from streams.config import StreamsConfig
from streams.config.keys import BY_NAME, KEYS

REPOSITORY = Path(__file__).resolve().parents[2]
DEPENDING = ("commit.interval.ms", "default.interactive.query.isolation.level", "state.dir")
"""Their defaults are not one value."""
REQUIRED: dict[str, Any] = {"application.id": "app", "bootstrap.servers": "broker:9092"}

# Every key of Kafka Streams 4.4.0 (`StreamsConfig.configDef()`, and the internal ones), written out so that none can be
# lost from the table; `config.providers` is refused as a setting of clients.
KEYS_OF_KAFKA_STREAMS = """
acceptable.recovery.lag allow.os.group.write.access application.id application.server bootstrap.servers
buffered.records.per.partition built.in.metrics.version cache.max.bytes.buffering client.id commit.interval.ms
connections.max.idle.ms default.client.supplier default.deserialization.exception.handler default.dsl.store
default.interactive.query.isolation.level default.key.serde default.list.key.serde.inner default.list.key.serde.type
default.list.value.serde.inner default.list.value.serde.type default.production.exception.handler
default.timestamp.extractor default.value.serde deserialization.exception.handler dsl.store.format
dsl.store.suppliers.class enable.metrics.push enable.transactional.statestores
ensure.explicit.internal.resource.naming errors.dead.letter.queue.topic.name group.protocol log.summary.interval.ms
max.task.idle.ms max.warmup.replicas metadata.cluster.check.enable metadata.max.age.ms
metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
metrics.recording.level metrics.sample.window.ms num.standby.replicas num.stream.threads poll.ms
probing.rebalance.interval.ms processing.exception.handler processing.exception.handler.global.enabled
processing.guarantee processor.wrapper.class production.exception.handler rack.aware.assignment.non_overlap_cost
rack.aware.assignment.strategy rack.aware.assignment.tags rack.aware.assignment.traffic_cost receive.buffer.bytes
reconnect.backoff.max.ms reconnect.backoff.ms repartition.purge.interval.ms replication.factor request.timeout.ms
retry.backoff.ms rocksdb.config.setter security.protocol send.buffer.bytes state.cleanup.delay.ms
state.cleanup.dir.max.age.ms state.dir statestore.cache.max.bytes statestore.uncommitted.max.bytes task.assignor.class
task.timeout.ms topology.description.push.enabled topology.optimization upgrade.from window.size.ms
windowed.inner.class.serde windowstore.changelog.additional.retention.ms
__emit.interval.ms.kstreams.outer.join.spurious.results.fix__ __emit.interval.ms.kstreams.windowed.aggregation__
__internal.override.topic.prefix__ __iq.consistency.offset.vector.enabled__ __processing.threads.enabled__
internal.task.assignor.class
"""


def config(**settings: Any) -> StreamsConfig:
    return StreamsConfig.of({**REQUIRED, **settings})


def problem(*wrong: dict[str, Any], **settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        StreamsConfig.of({**REQUIRED, **settings, **{name: value for each in wrong for name, value in each.items()}})
    assert caught.value.__cause__ is None
    return caught.value.message


def test_every_key_of_kafka_streams_is_in_the_table() -> None:
    assert set(KEYS_OF_KAFKA_STREAMS.split()) <= set(BY_NAME)
    assert len(KEYS) == len(BY_NAME)


def test_settings_that_kafka_streams_does_not_have_are_marked_as_added() -> None:
    of_kafka = {*KEYS_OF_KAFKA_STREAMS.split(), "retry.backoff.max.ms", "__state.updater.enabled__"}
    assert {key.name for key in KEYS if key.status == "added"} == set(BY_NAME) - of_kafka


def test_the_table_and_the_model_have_the_same_fields_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state-home")
    shown = config().shown()
    for key in KEYS:
        if key.field is not None and key.name not in (*REQUIRED, *DEPENDING):
            assert shown[key.name] == key.default, key.name
    collected = {"clients", "consumer", "main_consumer", "restore_consumer", "global_consumer", "producer", "admin"}
    collected |= {"topic", "client_tag", "schema_registry"}
    assert {key.field for key in KEYS if key.field} == set(StreamsConfig.model_fields) - collected
    assert shown["state.dir"] == "/state-home/streams"


def test_the_state_directory_survives_a_reboot_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert config().state_dir == Path("~/.local/state/streams").expanduser()
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert config().state_dir == Path("~/.local/state/streams").expanduser()
    assert config(state_dir="~/s").state_dir == Path("~/s").expanduser()


def test_the_commit_interval_depends_on_the_guarantee() -> None:
    assert config().commit_interval_ms == 1_000
    assert config(processing_guarantee="exactly_once_v2").commit_interval_ms == 100
    assert config(processing_guarantee="EXACTLY_ONCE_V2", commit_interval_ms=250).commit_interval_ms == 250


def test_names_may_be_keywords_dotted_or_snake_case_mixed() -> None:
    by_keyword = StreamsConfig(application_id="app", bootstrap_servers="broker:9092", num_stream_threads=3)
    mixed = StreamsConfig.of({"application.id": "app", "bootstrap_servers": ["broker:9092"], "num.stream.threads": "3"})
    assert by_keyword == mixed
    assert config(rack_aware_assignment_traffic_cost=3).rack_aware_assignment_traffic_cost == 3
    assert config(statestore_cache_max_bytes=7).dotted()["statestore.cache.max.bytes"] == 7


@given(
    st.sets(
        st.sampled_from(
            [key for key in KEYS if key.field is not None and key.status in ("works", "added") and key.default]
        ),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_both_spellings_of_any_settings_make_the_same_configuration(keys: set[Any], random: Any) -> None:
    defaults = config().dotted()
    settings = {
        random.choice([key.name, key.field]): random.choice([defaults[key.name], str(defaults[key.name])])
        for key in keys
    }
    made = config(**settings)
    assert made == config()
    assert {key.name for key in keys} == {
        key.name for key in KEYS if key.field and made.origin(key.name) == "given"
    } - {*REQUIRED}


def test_durations_are_ms_text_or_timedelta() -> None:
    for value in (1500, "1500", timedelta(seconds=1.5)):
        assert config(**{"commit.interval.ms": value}).commit_interval_ms == 1500
    assert config(**{"consumer.session.timeout.ms": timedelta(seconds=6)}).consumer == {
        "session.timeout.ms": timedelta(seconds=6)
    }
    wrong = problem(commit_interval_ms="1s")
    assert wrong == "commit.interval.ms must be a timedelta or whole milliseconds, got '1s'"
    assert problem(task_timeout_ms=-1) == "task.timeout.ms must be at least 0 ms, got -1"
    assert problem(poll_ms=True) == "poll.ms must be a timedelta or whole milliseconds, got True"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    assert problem({"commit.intervall.ms": 1}) == (
        "commit.intervall.ms is not a setting, did you mean commit.interval.ms?"
    )
    assert problem(num_stream_thread=1) == "num_stream_thread is not a setting, did you mean num_stream_threads?"
    assert problem({"consumer.fetch.mim.bytes": 1}) == (
        "consumer.fetch.mim.bytes is not a setting, did you mean consumer.fetch.min.bytes?"
    )
    assert problem({"topic.retension.ms": 1}) == (
        "topic.retension.ms is not a setting of topics, did you mean topic.retention.ms?"
    )
    assert problem({"zzz": 1}) == "zzz is not a setting"


def test_a_topic_setting_that_only_some_brokers_have_is_taken() -> None:
    assert config(**{"topic.vendor.tier.enable": True}).topic == {"vendor.tier.enable": True}


def test_one_setting_under_two_names_is_refused() -> None:
    assert "set twice, also as poll.ms" in problem({"poll.ms": 1, "poll_ms": 2})
    assert "set twice" in problem({"producer.linger.ms": 1, "producer.queue.buffering.max.ms": 2})
    assert "set twice" in problem({"request.timeout.ms": 1000, "socket.timeout.ms": 2000})


def test_each_wrong_setting_has_its_sentence() -> None:
    with pytest.raises(ConfigError) as caught:
        StreamsConfig.of({"num.stream.threads": 0, "security.protocol": "TLS", "application.server": "here"})
    assert caught.value.message.splitlines() == [
        "5 settings are wrong:",
        "  security.protocol must be one of plaintext, ssl, sasl_plaintext, sasl_ssl; got 'TLS'",
        "  application.id is missing: it names the consumer group, the internal topics and the state directory",
        "  bootstrap.servers is missing: it is the address of Kafka, as host:port; set it in streams.toml next to the"
        " application, by the variable STREAMS_BOOTSTRAP_SERVERS or by -c bootstrap.servers=host:port",
        "  num.stream.threads must be at least 1, got 0",
        "  application.server must be host:port, got 'here'",
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"application.id": "my app"}, "application.id must be 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"),
        ({"application.id": 7}, "application.id must be a string, got 7"),
        ({"bootstrap.servers": " , "}, "bootstrap.servers must name at least one broker as host:port"),
        ({"num.stream.threads": "two"}, "num.stream.threads must be a whole number, got 'two'"),
        ({"num.stream.threads": 1.0}, "num.stream.threads must be a whole number, got 1.0"),
        ({"replication.factor": 99999}, "replication.factor must be at most 32767, got 99999"),
        ({"probing.rebalance.interval.ms": 1}, "probing.rebalance.interval.ms must be at least 60000 ms, got 1"),
        (
            {"processing.guarantee": "exactly_once"},
            "processing.guarantee cannot be exactly_once: Kafka Streams removed",
        ),
        ({"processing.guarantee": "maybe"}, "processing.guarantee must be one of at_least_once, exactly_once_v2; got"),
        ({"group.protocol": "share"}, "group.protocol must be one of classic, streams; got 'share'"),
        ({"topology.optimization": "fast"}, "topology.optimization must be none, all, or some of reuse.ktable.source"),
        ({"dsl.store.format": "PLAIN"}, "dsl.store.format must be one of DEFAULT, HEADERS; got 'PLAIN'"),
        ({"enable.metrics.push": "yes"}, "enable.metrics.push must be true or false, got 'yes'"),
        ({"application.server": "h:70000"}, "application.server must be host:port, got 'h:70000'"),
        ({"default.key.serde": "nowhere.at.all"}, "default.key.serde names 'nowhere.at.all', but no module"),
        ({"default.key.serde": "json:nothing"}, "default.key.serde names 'json:nothing', but json has no 'nothing'"),
        (
            {"default.key.serde": "json:loads"},
            "default.key.serde must be a serde, one of the names avro, boolean, bytes, double, float, integer, json,"
            " long, short, string, uuid, void, a pydantic model or a dataclass, or the import path of one; json:loads"
            " is",
        ),
        ({"processing.exception.handler": 3}, "processing.exception.handler must be a function or the import path"),
        ({"task.assignor.class": "x"}, "task.assignor.class cannot be set: librdkafka takes no assignor of ours"),
        ({"rack.aware.assignment.tags": "a,b,c,d,e,f"}, "rack.aware.assignment.tags must be at most 5 names, got 6"),
    ],
)
def test_a_wrong_value_is_named_with_what_to_do(settings: dict[str, Any], sentence: str) -> None:
    found = problem(settings)
    assert found.startswith(sentence)
    assert "\n" not in found


def test_every_refused_key_says_why() -> None:
    for key in KEYS:
        if key.status == "refused":
            found = problem({key.name: "x"})
            assert found.startswith(f"{key.name} cannot be set: ")
            assert len(found) > len(f"{key.name} cannot be set: ") + 10


def test_a_setting_without_effect_is_accepted_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    values = {
        "application.server": "localhost:8080",
        "built.in.metrics.version": "latest",
        "default.interactive.query.isolation.level": "READ_COMMITTED",
        "processing.exception.handler.global.enabled": "true",
        "rack.aware.assignment.strategy": "none",
        "rack.aware.assignment.tags": ["zone"],
        "enable.transactional.statestores": "false",
        "metadata.cluster.check.enable": "false",
        "topology.description.push.enabled": "false",
    }
    for key in KEYS:
        if key.status == "ignored":
            caplog.clear()
            with caplog.at_level(logging.WARNING, logger="streams.config"):
                config(**{key.name: values.get(key.name, 100_000)})
            assert [record.getMessage().partition(":")[0] for record in caplog.records] == [f"{key.name} has no effect"]
    caplog.clear()
    config(num_stream_threads=2)
    config(**{"client.tag.zone_a": "x"})
    assert caplog.records == []


def test_a_setting_that_the_brokers_have_for_streams_groups_is_named(caplog: pytest.LogCaptureFixture) -> None:
    streams = {"group.protocol": "streams", "client.tag.zone": "a"}
    made = config(**streams, **{"consumer.session.timeout.ms": 9000, "heartbeat.interval.ms": 3000})
    assert made.group_protocol == "streams"
    assert made.client_tag == {"zone": "a"}
    assert [record.getMessage() for record in caplog.records] == [
        f"{name} has no effect with group.protocol=streams: the group's setting streams.{setting} applies"
        for name, setting in [
            ("consumer.session.timeout.ms", "session.timeout.ms"),
            ("heartbeat.interval.ms", "heartbeat.interval.ms"),
        ]
    ]


@pytest.mark.parametrize("protocol", ["consumer", "Auto"])
def test_a_protocol_that_was_dropped_is_refused_with_what_to_do(protocol: str) -> None:
    with pytest.raises(ConfigError, match=f"group.protocol cannot be {protocol.lower()}: it was dropped"):
        config(**{"group.protocol": protocol})


@pytest.mark.parametrize("name", ["deserialization.exception.handler", "production.exception.handler"])
def test_older_names_of_handlers_give_way_to_the_newer(name: str, caplog: pytest.LogCaptureFixture) -> None:
    field, older = name.replace(".", "_"), f"default.{name}"

    def first(*_: Any) -> Any:
        return Response.fail()

    def second(*_: Any) -> Any:
        return Response.resume()

    assert getattr(config(**{older: first}), field) is first
    assert caplog.messages == [f"{older} is an older name of {name}"]
    assert getattr(config(**{older: first, name: second}), field) is second


@pytest.mark.parametrize("of", ["key", "value"])
@pytest.mark.parametrize("part", ["inner", "type"])
def test_a_list_serde_in_parts_is_refused_with_what_to_set(of: str, part: str) -> None:
    assert problem({f"default.list.{of}.serde.{part}": "java.util.ArrayList"}) == (
        f"default.list.{of}.serde.{part} cannot be set: a serde of lists is one value: set default.{of}.serde to what"
        " list_serde(inner) of streams.serdes gives"
    )


def test_the_older_name_of_the_cache_size_gives_way_to_the_newer() -> None:
    assert config(**{"cache.max.bytes.buffering": 5}).statestore_cache_max_bytes == 5
    both = config(**{"cache.max.bytes.buffering": 5, "statestore.cache.max.bytes": 6})
    assert both.statestore_cache_max_bytes == 6


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, IsolationLevel.READ_UNCOMMITTED),
        ({"processing.guarantee": "exactly_once_v2"}, IsolationLevel.READ_COMMITTED),
        (
            {"processing.guarantee": "exactly_once_v2", "default.state.isolation.level": "read_uncommitted"},
            IsolationLevel.READ_UNCOMMITTED,
        ),
        ({"default_state_isolation_level": "READ_COMMITTED"}, IsolationLevel.READ_COMMITTED),
        ({"default.interactive.query.isolation.level": "READ_COMMITTED"}, IsolationLevel.READ_COMMITTED),
    ],
)
def test_what_queries_see_unless_they_say_it(settings: dict[str, Any], level: IsolationLevel) -> None:
    """Also under the name of KIP-892."""
    assert config(**settings).query_isolation_level is level


def test_a_setting_under_both_of_its_names_is_refused() -> None:
    names = ("default.state.isolation.level", "default.interactive.query.isolation.level")
    with pytest.raises(ConfigError, match="is set twice"):
        config(**dict.fromkeys(names, "READ_COMMITTED"))


def test_objects_are_given_as_they_are_or_by_import_path() -> None:
    made = config(
        default_key_serde="streams.serdes:Serdes.LONG",
        default_value_serde="org.apache.kafka.common.serialization.Serdes$StringSerde",
        default_timestamp_extractor="org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp",
        processing_exception_handler="os.path.join",
    )
    assert made.default_key_serde is Serdes.LONG
    assert made.default_value_serde is Serdes.STRING
    assert made.default_timestamp_extractor is log_and_skip_on_invalid_timestamp
    assert made.processing_exception_handler is os.path.join
    handler: Callable[..., Any] = lambda *_: None  # noqa: E731
    assert config(production_exception_handler=handler).production_exception_handler is handler
    assert config(default_key_serde="").default_key_serde is None


def test_a_serde_of_kafkas_is_named_by_one_word() -> None:
    made = config(default_key_serde="string", default_value_serde="long")
    assert made.default_key_serde is Serdes.STRING
    assert made.default_value_serde is Serdes.LONG
    assert problem(default_key_serde="String") == (
        "default.key.serde must be a serde, one of the names avro, boolean, bytes, double, float, integer, json, long,"
        " short, string, uuid, void, a pydantic model or a dataclass, or the import path of one; got 'String'; did you"
        ' mean "string"?'
    )


def test_a_module_that_fails_while_it_is_imported_is_a_wrong_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_serdes.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert problem(default_key_serde="broken_serdes:serde") == (
        "default.key.serde names 'broken_serdes:serde', which failed to import: ZeroDivisionError: division by zero"
    )


def test_settings_that_contradict_each_other_are_refused() -> None:
    assert problem(processing_guarantee="exactly_once_v2", commit_interval_ms=10_001).startswith(
        "commit.interval.ms is 10001, more than producer.transaction.timeout.ms (10000)"
    )
    raised = {"producer.transaction.timeout.ms": 20_000, "processing.guarantee": "exactly_once_v2"}
    assert config(**raised, commit_interval_ms=10_001).commit_interval_ms == 10_001
    assert problem({"consumer.max.poll.interval.ms": 5000}).startswith(
        "max.poll.interval.ms is 5000, less than session"
    )
    session = problem({"consumer.session.timeout.ms": 6000, "main.consumer.heartbeat.interval.ms": 6000})
    assert session.startswith("heartbeat.interval.ms is 6000, not less than session.timeout.ms (6000)")
    assert problem({"heartbeat.interval.ms": 50_000}).startswith(
        "heartbeat.interval.ms is 50000, not less than session.timeout.ms (45000)"
    )
    assert config(**{"heartbeat.interval.ms": 5999, "session.timeout.ms": 6000}).application_id
    assert problem({"topic.segment.bytes": 100, "producer.batch.size": 200}).startswith("topic.segment.bytes is 100")


SECRETS = {
    "sasl.password": "hunter2-a",
    "consumer.ssl.key.password": "hunter2-b",
    "producer.sasl.oauthbearer.client.secret": "hunter2-c",
    "admin.ssl.key.pem": "hunter2-d",
    "sasl.oauthbearer.assertion.private.key.passphrase": "hunter2-e",
    "main.consumer.sasl.oauthbearer.config": "hunter2-f",
    "topic.vendor.token": "hunter2-g",
}


def test_secrets_are_masked_wherever_a_configuration_is_shown() -> None:
    made = config(**SECRETS, **{"sasl.username": "ada"})
    for text in (repr(made), str(made), str(made.shown()), f"{made}"):
        assert "hunter2" not in text
        assert "ada" in text
        assert "********" in text
    dotted = made.dotted()
    assert {name: dotted[name] for name in SECRETS} == SECRETS


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.password": {"hunter2"}},
        {"consumer.ssl.key.password": 3.14159},
        {"sasl.jaas.config": "password=hunter2"},
        {"ssl.truststore.password": "hunter2"},
        {"consumer.sasl.passwort": "hunter2"},
        {"num.stream.threads": 0, "sasl.password": "hunter2"},
    ],
)
def test_no_error_shows_a_secret(settings: dict[str, Any]) -> None:
    found = problem(settings)
    assert "hunter2" not in found
    assert "3.14159" not in found


def test_a_configuration_cannot_be_changed() -> None:
    made = config()
    with pytest.raises(ValidationError, match="frozen"):
        made.poll_ms = 3
    assert made.poll_ms != 3


def test_dotted_and_origin_tell_every_value_and_where_it_came_from() -> None:
    made = config(**{"poll.ms": 7, "consumer.fetch_min_bytes": 9, "client.rack": "r1"})
    dotted = made.dotted()
    assert dotted["poll.ms"] == 7
    assert dotted["consumer.fetch.min.bytes"] == 9
    assert dotted["client.rack"] == "r1"
    assert dotted["commit.interval.ms"] == 1_000
    assert made.origin("poll.ms") == made.origin("poll_ms") == made.origin("client.rack") == "given"
    assert made.origin("consumer.fetch.min.bytes") == "given"
    assert made.origin("commit.interval.ms") == made.origin("producer.linger.ms") == "default"


def test_the_effective_values_make_the_same_configuration_again(caplog: pytest.LogCaptureFixture) -> None:
    made = config(**SECRETS, processing_guarantee="exactly_once_v2", default_key_serde=Serdes.UUID)
    assert StreamsConfig.of(made.dotted()) == made


def test_importing_the_room_loads_no_pydantic_and_importing_the_model_builds_nothing() -> None:
    code = (
        "import sys; import streams.config; assert 'pydantic' not in sys.modules\n"
        "from streams.config import StreamsConfig as C; assert not C.__pydantic_complete__\n"
        "C(application_id='a', bootstrap_servers='b'); assert C.__pydantic_complete__\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
