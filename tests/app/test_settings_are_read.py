"""A setting that the table says works is really read, by the build or by a running application."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest

from dsl import EmitStrategy, Grouped, JoinWindows, StreamsBuilder, TimeWindows
from processor_api.errors import ConfigError
from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, StoreSupplier
from runtime_support.running_app import Cluster, counting
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.config import StreamsConfig, clients
from streams.config.keys import ADDED, BY_FIELD, KEYS, WORKS
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.runtime.engines.opener import rocksdb_memory
from waiting import wait_until

S = Serdes.STRING
OLDER_NAMES = {
    "cache.max.bytes.buffering",
    "default.deserialization.exception.handler",
    "default.production.exception.handler",
}
ONE_VALUE = {
    name
    for name, field in StreamsConfig.model_fields.items()
    if len(get_args(field.annotation)) == 1 and isinstance(get_args(field.annotation)[0], str)
}
"""What can only have its default: reading it would change nothing."""


class Settings(Mapping[str, Any]):
    """Settings by dotted name; knows which were looked up."""

    def __init__(self, settings: Mapping[str, Any], read: set[str]) -> None:
        self._settings, self._read = settings, read

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def items(self) -> Any:
        return self._settings.items()


class Watched(StreamsConfig):
    """Knows which of its fields were read."""

    def dotted(self) -> Any:
        before = set(READ)
        found = StreamsConfig.of({k: v for k, v in GIVEN.items() if v is not None}).dotted()
        READ.clear()
        READ.update(before)
        return Settings(found, READ)

    def __getattribute__(self, name: str) -> Any:
        if name in BY_FIELD:
            READ.add(BY_FIELD[name].name)
        return super().__getattribute__(name)


READ: set[str] = set()
GIVEN: dict[str, Any] = {}


def test_every_setting_that_works_is_read(cluster: Cluster) -> None:
    """By one application with tables, stores, a global one too, a repartition topic and a reader of a store, from its
    build to its end."""
    GIVEN.clear()
    GIVEN.update(
        {
            "application.id": "app",
            "bootstrap.servers": "in-memory:9092",
            "state.dir": str(cluster.directory),
            "default.key.serde": S,
            "default.value.serde": S,
            "poll.ms": 10,
            "commit.interval.ms": 20,
            "http.listen": "127.0.0.1:0",
        }
    )
    config = Watched.of(GIVEN)
    READ.clear()
    builder = StreamsBuilder()
    retained = StoreSupplier(name="kept", kind="key-value", engine=MEMORY, parameters={"retention_ms": 1000})
    builder.add_state_store(StoreBuilder(supplier=retained, key_serde=S, value_serde=S))
    table = builder.table("in", materialized="table")
    grouped = table.group_by(lambda key, value: (value, value), Grouped(name="words", key_serde=S, value_serde=S))

    class Nothing(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None: ...

    counts = grouped.count(materialized="counts").to_stream()
    counts.process(Nothing, "kept")
    counts.map_values(str).to("out")
    for topic in ("everywhere", "left", "right"):
        cluster.broker.create_topic(topic, 1)
    left, right = builder.stream("left"), builder.stream("right")
    left.outer_join(right, lambda one, other: one, windows=JoinWindows.of_time_difference_with_no_grace(1000))
    windows = left.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(1000))
    windows.emit_strategy(EmitStrategy.on_window_close()).count()
    builder.global_table("everywhere")
    app = KafkaStreams(builder.build(config), config, clients=cluster.clients)
    cluster.apps.append(app)
    app.start()
    cluster.send("x")
    wait_until("it is counted", lambda: cluster.values() == ["1"])
    app.store(StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()))
    app.close()
    app.clean_up()
    due = {key.name for key in KEYS if key.status in (WORKS, ADDED) and key.field and key.field not in ONE_VALUE}
    assert due - READ == set()
    assert set() == ONE_VALUE


VALUES = {
    "metadata.recovery.strategy": "none",
    "security.protocol": "ssl",
    "enable.metrics.push": "false",
}


@pytest.mark.parametrize("name", [key.name for key in KEYS if key.status == WORKS and key.field is None])
def test_a_setting_that_is_passed_on_reaches_every_client(name: str) -> None:
    if name in OLDER_NAMES:
        pytest.skip("an older name of another setting")
    required = {"application.id": "a", "bootstrap.servers": "b:1"}
    for made in (clients.main_consumer, clients.restore_consumer, clients.producer, clients.admin):
        plain = made(StreamsConfig.of(required), "id")  # type: ignore[operator]
        given = made(StreamsConfig.of({**required, name: VALUES.get(name, 7777)}), "id")  # type: ignore[operator]
        assert plain != given, made


# ------------------------------------------------------------------ those that had no reader


def run_counting(cluster: Cluster, **settings: Any) -> KafkaStreams:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    app = cluster.app(counting(store=Stores.persistent_key_value_store("counts")), given)
    cluster.until_state(app, ClientState.RUNNING)
    return app


def test_a_thread_sums_up_what_it_did(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Every ``log.summary.interval.ms``, since the last time."""
    with caplog.at_level("INFO", logger="streams.thread"):
        run_counting(cluster, log_summary_interval_ms=20)
        cluster.send("a", "b", "c")

        def told() -> list[Any]:
            return [record for record in caplog.records if record.getMessage() == "summary"]

        wait_until("all is told", lambda: sum(one.records for one in told()) == 3)
        wait_until("commits are told", lambda: sum(one.commits for one in told()) >= 1)
    assert all(one.thread_name.endswith("StreamThread-1") for one in told())


def test_no_summary_is_wanted_at_zero(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="streams.thread"):
        run_counting(cluster, log_summary_interval_ms=0)
        cluster.send("a", "b")
        cluster.until_out("a=1", "b=1")
    assert [record for record in caplog.records if record.getMessage() == "summary"] == []


def test_rocksdb_is_configured_by_a_function_of_each_store(cluster: Cluster) -> None:
    """Of the user's stores only; what it raises names the store."""
    told: list[tuple[str, str]] = []
    run_counting(cluster, rocksdb_config_setter=lambda store, options: told.append((store, type(options).__name__)))
    assert told == [("counts", "Options")]

    def fails(store: str, options: Any) -> None:
        raise AttributeError("no such option")

    app = cluster.app(counting(store=Stores.persistent_key_value_store("counts")), {"rocksdb.config.setter": fails})
    cluster.apps[0].close()
    cluster.until_state(app, ClientState.ERROR)
    assert "rocksdb.config.setter failed for store 'counts': AttributeError: no such option" in str(app.failure)


def test_rocksdb_is_configured_by_names_of_options(cluster: Cluster) -> None:
    """As RocksDB itself wrote them down."""
    app = run_counting(cluster, rocksdb_config_setter={"write_buffer_size": 123_456, "num_levels": 5})
    cluster.send("a")
    cluster.until_out("a=1")
    written = [path.read_text() for path in app.config.state_dir.rglob("OPTIONS-*")]
    assert any("write_buffer_size=123456" in text and "num_levels=5" in text for text in written)


def test_rocksdb_syncs_commits_if_asked_to() -> None:
    ids = {"application.id": "app", "bootstrap.servers": "none:1"}
    assert rocksdb_memory(StreamsConfig.of(ids))["sync_commits"] is False
    assert rocksdb_memory(StreamsConfig.of({**ids, "rocksdb.sync.commits": "true"}))["sync_commits"] is True


def test_rocksdb_is_sized_by_a_profile(cluster: Cluster) -> None:
    """Whose options an option by name wins over; sizes given by themselves are checked."""
    app = run_counting(cluster, rocksdb_profile="low-memory", rocksdb_config_setter={"max_open_files": 20})
    cluster.send("a")
    cluster.until_out("a=1")
    written = [path.read_text() for path in app.config.state_dir.rglob("OPTIONS-*")]
    assert any("write_buffer_size=2097152" in text and "arena_block_size=16384" in text for text in written)
    with pytest.raises(ConfigError, match=r"rocksdb.block.cache.bytes must be at least 1048576, got 1000"):
        cluster.app(counting(), {"rocksdb.block.cache.bytes": 1000}, start=False)
    with pytest.raises(
        ConfigError, match=r"rocksdb.profile must be one of default, many-small-stores, .*; got 'small'"
    ):
        cluster.app(counting(), {"rocksdb.profile": "small"}, start=False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"write_bufer_size": 1}, "RocksDB does not have option 'write_bufer_size'; see rocksdict.Options"),
        ({"write_buffer_size": "much"}, "option 'write_buffer_size' cannot be 'much'"),
    ],
)
def test_a_wrong_option_of_rocksdb_is_told_at_the_start(options: Any, says: str, cluster: Cluster) -> None:
    app = cluster.app(counting(), {"rocksdb.config.setter": options}, start=False)
    with pytest.raises(ConfigError, match=says):
        app.start()
    assert app.state is ClientState.ERROR


def test_state_of_tasks_that_went_elsewhere_is_removed(cluster: Cluster) -> None:
    """After ``state.cleanup.delay.ms``; that of a task which runs stays, however old its files are."""
    state = cluster.directory / "kept"
    gone, open_ = state / "app" / "0_7", state / "app" / "0_0"
    gone.mkdir(parents=True)
    (gone / "file").write_text("x")
    for path in (gone / "file", gone):
        os.utime(path, (1, 1))
    run_counting(cluster, state_dir=str(state), state_cleanup_delay_ms=100)
    wait_until("it is gone", lambda: not gone.exists())
    assert open_.is_dir()


@pytest.mark.parametrize(("age", "stays"), [(-1, True), (3_600_000, False)])
def test_state_that_is_too_old_is_removed_at_the_start(age: int, stays: bool, cluster: Cluster) -> None:
    state = cluster.directory / "old"
    old, young = state / "app" / "0_7", state / "app" / "0_8"
    for path in (old, young):
        path.mkdir(parents=True)
    os.utime(old, (1, 1))
    run_counting(cluster, state_dir=str(state), state_cleanup_dir_max_age_ms=age)
    assert old.exists() is stays
    assert young.exists()
