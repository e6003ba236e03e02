"""What chooses the stores of the DSL's operators: the table, else the suppliers of the application, else its engine."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import Consumed, Materialized, StreamsBuilder
from processor_api.errors import ConfigError, TopologyError
from processor_api.serde import Serdes
from processor_api.stores.defaults import (
    BuiltInDslStoreSuppliers,
    DslKeyValueParams,
    DslSessionParams,
    DslStoreSuppliers,
    DslWindowParams,
    on_engine,
)
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from state.engine.memory import MemoryEngine
from state.engine.registry import register_engine
from state_support.bytes_stores import PlainBytesSupplier
from streams.config import StreamsConfig
from streams.testing import TopologyTestDriver

S = Serdes.STRING
TEXTS = Consumed(key_serde=S, value_serde=S)


class Mine:
    """Stores of their own kinds; remembers what it was asked for."""

    asked: list[Any] = []  # noqa: RUF012 - emptied by the tests

    def key_value_store(self, params: DslKeyValueParams) -> Any:
        self.asked.append(params)
        return Stores.lru_map(params.name, 3)

    def window_store(self, params: DslWindowParams) -> Any:
        return BuiltInDslStoreSuppliers.IN_MEMORY.window_store(params)

    def session_store(self, params: DslSessionParams) -> Any:
        return BuiltInDslStoreSuppliers.IN_MEMORY.session_store(params)


def store_of(config: Any = None, **materialized: Any) -> Any:
    builder = StreamsBuilder(config)
    builder.table("in", TEXTS, materialized=Materialized(name="t", **materialized))
    return builder.build().stores["t"]


@pytest.mark.parametrize("given", [Mine, Mine()])
def test_the_application_chooses_for_all_tables(given: Any) -> None:
    """By an object, or a class, of which one is made."""
    Mine.asked.clear()
    config = {"dsl.store.suppliers.class": given, "default.dsl.store": "rocksDB"}
    assert store_of(config).kind == "timestamped-lru-map"
    assert Mine.asked == [DslKeyValueParams(name="t", is_timestamped=True)]


def test_a_table_chooses_for_itself() -> None:
    """Over the application; a supplier of its own over everything."""
    config = {"dsl.store.suppliers.class": Mine}
    assert store_of(config, store_type=BuiltInDslStoreSuppliers.ROCKS_DB).supplier.engine == ROCKSDB
    assert store_of(config, store_type=BuiltInDslStoreSuppliers.IN_MEMORY).supplier.engine == MEMORY
    assert store_of(config, store_type="memory").supplier.engine == MEMORY
    assert store_of({}, store_type=Mine()).kind == "timestamped-lru-map"
    builder = StreamsBuilder(config)
    builder.table("in", TEXTS, materialized=Materialized.as_(Stores.in_memory_key_value_store("own")))
    assert builder.build().stores["own"].kind == "timestamped-key-value"
    assert Materialized.as_(BuiltInDslStoreSuppliers.IN_MEMORY).store_type is BuiltInDslStoreSuppliers.IN_MEMORY


def test_what_the_builder_was_given_counts_over_the_application() -> None:
    """It was lost wherever the builder was passed on with settings, as the driver and `KafkaStreams` do."""
    builder = StreamsBuilder({"default.dsl.store": "in_memory"})
    builder.table("in", TEXTS, materialized="t")
    assert builder.build().stores["t"].supplier.engine == MEMORY
    assert builder.build({}).stores["t"].supplier.engine == MEMORY
    assert builder.build({"default.dsl.store": "rocksDB"}).stores["t"].supplier.engine == MEMORY
    assert builder.build({"dsl.store.suppliers.class": Mine}).stores["t"].kind == "timestamped-lru-map"


def test_an_engine_of_ones_own_serves_all_tables() -> None:
    register_engine("of-a-test", lambda path, families, config: MemoryEngine())  # type: ignore[arg-type,return-value]
    assert store_of({"default.dsl.store": "of-a-test"}).supplier.engine == "of-a-test"
    assert store_of({"dsl.store.suppliers.class": on_engine("of-a-test")}).supplier.engine == "of-a-test"
    assert store_of(store_type="of-a-test").supplier.engine == "of-a-test"
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", "default.dsl.store": "of-a-test"})
    assert store_of(config).supplier.engine == "of-a-test"


def test_the_built_in_suppliers_are_javas() -> None:
    window = DslWindowParams(name="w", retention_period_ms=100, window_size_ms=10)
    session = DslSessionParams(name="s", retention_period_ms=100, emit_on_window_close=True)
    rocks, memory = BuiltInDslStoreSuppliers.ROCKS_DB, BuiltInDslStoreSuppliers.IN_MEMORY
    made = [
        rocks.key_value_store(DslKeyValueParams(name="k")),
        rocks.key_value_store(DslKeyValueParams(name="k", is_timestamped=False)),
        rocks.window_store(window),
        rocks.session_store(session),
        memory.key_value_store(DslKeyValueParams(name="k")),
        memory.window_store(window),
        memory.session_store(session),
    ]
    assert [(one.kind, one.engine) for one in made] == [  # type: ignore[union-attr]
        ("timestamped-key-value", "rocksdb"),
        ("key-value", "rocksdb"),
        ("timestamped-window", "rocksdb"),
        ("time-ordered-session", "rocksdb"),
        ("key-value", "memory"),
        ("window", "memory"),
        ("session", "memory"),
    ]
    assert isinstance(Mine(), DslStoreSuppliers)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers", "IN_MEMORY"),
        ("BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers", "ROCKS_DB"),
    ],
)
def test_a_configuration_knows_javas_names(name: str, expected: str) -> None:
    settings = {"application.id": "a", "bootstrap.servers": "b:1", "dsl.store.suppliers.class": name}
    config = StreamsConfig.of(settings)
    assert config.dsl_store_suppliers_class is getattr(BuiltInDslStoreSuppliers, expected)
    assert store_of(config).supplier.engine == {"IN_MEMORY": MEMORY, "ROCKS_DB": ROCKSDB}[expected]


class Fails(Mine):
    def key_value_store(self, params: DslKeyValueParams) -> Any:
        raise KeyError("nothing")


class Other(Mine):
    def key_value_store(self, params: DslKeyValueParams) -> Any:
        return Stores.in_memory_key_value_store("another")


class Nothing(Mine):
    def key_value_store(self, params: DslKeyValueParams) -> Any:
        return None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Fails, "failed for store 't': KeyError: 'nothing'"),
        (Other, "must return a supplier of store 't', but returned one of 'another'"),
        (Nothing, "expected a store supplier, got None"),
    ],
)
def test_suppliers_that_fail_are_named_with_the_store(given: Any, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        store_of({"dsl.store.suppliers.class": given})


def test_what_is_no_chooser_is_refused() -> None:
    with pytest.raises(ConfigError, match="must have key_value_store, window_store and session_store"):
        store_of({"dsl.store.suppliers.class": object()})
    required = {"application.id": "a", "bootstrap.servers": "b:1"}
    with pytest.raises(ConfigError, match=r"dsl\.store.suppliers.class must have key_value_store"):
        StreamsConfig.of({**required, "dsl.store.suppliers.class": object()})
    with pytest.raises(ConfigError, match=r"default\.dsl\.store must be one of rocksDB, in_memory or memory"):
        StreamsConfig.of({**required, "default.dsl.store": "rockDB"})
    with pytest.raises(TopologyError, match="store_type must be the name of an engine or a DslStoreSuppliers"):
        Materialized(store_type=3)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="storage engine 'disk' does not exist"):
        Materialized(store_type="disk")


# ---------------------------------------------------------------------- byte stores behind tables (KIP-258)


@pytest.mark.parametrize("caching", [False, True])
def test_a_table_on_plain_bytes_forgets_its_timestamps(caching: bool) -> None:
    """What it forwards and logs has them."""
    builder = StreamsBuilder()
    store: Materialized[str, str] = Materialized(supplier=PlainBytesSupplier("t"), caching=caching)
    builder.table("in", TEXTS, materialized=store).to_stream().to("out")
    with TopologyTestDriver(builder.build({})) as driver:
        driver.create_input_topic("in", S, S).pipe_input("k", "v", timestamp=5)
        assert driver.get_timestamped_key_value_store("t").get("k") == ("v", -1)
        assert driver.get_key_value_store("t").get("k") == "v"
        produced = driver.take_produced()
        assert [record.timestamp for records in produced.values() for record in records] == [5] * len(produced)
        assert sum(map(len, produced.values())) == 2
