"""Custom stores in tasks: what they are given, what processors see of them, and where their offsets go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ProcessingError, StateError, StoreError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ReadOnlyKeyValueStore
from processor_api.stores.custom import CustomStateStore, StateStoreContext
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from state.formats.offsets import read_checkpoint
from state_support.bytes_stores import ForwardsOnly, MemoryBytes, PlainBytes, PlainBytesSupplier, TimestampedBytes
from state_support.texts import Buffering, Managing, Texts
from streams.testing import MockProcessorContext, TopologyTestDriver

S = Serdes.STRING
CHANGELOG, INPUT = TopicPartition("app-store-changelog", 0), TopicPartition("in", 0)


def using(builder: Any, process: Callable[[Any, Record[str, str]], None]) -> Topology:
    """A topology whose processor calls ``process(store, record)``."""

    class Uses(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            process(self.context.get_state_store("store"), record)

    return Topology().add_source("s", "in").add_processor("p", Uses, "s").add_state_store(builder, "p")


def puts(store: Any, record: Record[str, str]) -> None:
    store.put(record.key, record.value)


def own(kit: TaskKit) -> Any:
    """The store itself, behind what processors see."""
    engine: Any = kit.task.stores.progress.engine_of("store")
    return engine.store


# ---------------------------------------------------------------------- what processors see


def test_a_processor_gets_the_calls_of_the_store_and_not_its_life(tmp_path: Path) -> None:
    with TaskKit(using(Stores.custom("store", Texts), puts), tmp_path) as kit:
        kit.pipe("in", b"k", b"v")
        store = kit.store("store")
        assert (store.name, store.is_open, store.persistent) == ("store", True, True)
        assert store.get("k") == "v"
        for call in (lambda: store.commit({}), lambda: store.init(None), store.close):
            with pytest.raises(StoreError, match="only the runtime initializes, commits and closes store 'store'"):
                call()
        with pytest.raises(AttributeError, match="store 'store' is a Texts, which does not have 'fetch'"):
            store.fetch("k")
        with pytest.raises(AttributeError, match="_file"):
            _ = store._file
    assert not store.is_open
    with pytest.raises(StoreError, match="store 'store' is closed"):
        store.get("k")


def test_a_commit_in_a_processor_is_an_error_of_that_processor(tmp_path: Path) -> None:
    with TaskKit(using(Stores.custom("store", Texts), lambda store, record: store.commit({})), tmp_path) as kit:
        with pytest.raises(ProcessingError, match="to request a commit, call context") as caught:
            kit.pipe("in", b"k", b"v")
        assert caught.value.node == "p"


def test_a_store_may_tell_processors_its_position(tmp_path: Path) -> None:
    """Nobody else asks for it; without one it is empty."""

    class Knows(Texts):
        @property
        def position(self) -> Any:
            return {INPUT: 41}

    for kind, position in ((Knows, {INPUT: 41}), (Texts, {})):
        with TaskKit(using(Stores.custom("store", kind), puts), tmp_path / kind.__name__) as kit:
            assert kit.store("store").position == position


def test_operators_of_python_reach_the_store(tmp_path: Path) -> None:
    class Indexed(Texts):
        def __len__(self) -> int:
            return len(self.everything())

        def __contains__(self, key: str) -> bool:
            return self.get(key) is not None

        def __getitem__(self, key: str) -> str:
            return self.everything()[key]

    with TaskKit(using(Stores.custom("store", Indexed), puts), tmp_path) as kit:
        kit.pipe("in", b"k", b"v")
        store = kit.store("store")
        assert (len(store), "k" in store, "other" in store, store["k"]) == (1, True, False, "v")


@pytest.mark.parametrize("call", ["reverse_all", "reverse_range", "prefix_scan", "backward_fetch", "backward_all"])
def test_what_a_store_lacks_is_named(call: str, tmp_path: Path) -> None:
    """Also where it has the declaration of a protocol, which does nothing (KIP-617)."""

    class Declared(Texts, ReadOnlyKeyValueStore[str, str]):  # type: ignore[misc]
        name = "store"  # type: ignore[assignment]

    for kind in (Texts, Declared):
        with TaskKit(using(Stores.custom("store", kind), puts), tmp_path) as kit:
            says = f"store 'store' does not support {call}: {kind.__name__} does not implement it"
            with pytest.raises(StoreError, match=says):
                getattr(kit.store("store"), call)("k")


def test_a_byte_store_that_cannot_go_backwards_is_named(tmp_path: Path) -> None:
    builder = Stores.key_value_store_builder(PlainBytesSupplier(kind=ForwardsOnly), S, S)
    with TaskKit(using(builder, puts), tmp_path) as kit:
        kit.pipe("in", b"k", b"v")
        store = kit.store("store")
        assert list(store.all()) == [("k", "v")]
        for read, lacking in ((store.reverse_all, "reverse_all"), (lambda: store.reverse_range("a"), "reverse_range")):
            with pytest.raises(StoreError, match=f"store 'store' .* ForwardsOnly does not implement {lacking}"):
                read()


# ---------------------------------------------------------------------- what stores are given


def test_a_store_is_given_its_place_and_its_changelog(tmp_path: Path) -> None:
    seen: list[StateStoreContext] = []

    class Looking(Texts):
        def init(self, context: StateStoreContext) -> None:
            seen.append(context)
            assert context.state_dir.is_dir()
            with pytest.raises(StoreError, match="logs a change, but it is being initialized or restored"):
                context.log_change(b"k", b"v")
            super().init(context)

    with TaskKit(using(Stores.custom("store", Looking), puts), tmp_path) as kit:
        context = seen[-1]
        assert (context.application_id, context.task_id) == ("app", TaskId(0, 0))
        assert context.changelog_topic == CHANGELOG.topic
        assert context.state_dir == tmp_path / "0_0" / "stores" / "store"
        assert (context.key_serde, context.value_serde) == (S, S)
        assert context.app_configs()["application.id"] == "app"
        assert (context.record_timestamp_ms(), context.current_stream_time_ms()) == (-1, -1)
        kit.pipe("in", b"k", b"v", 5)
        assert context.current_stream_time_ms() == 5
        context.commit()
        assert kit.environment.users.commit_requested
        context.log_change(b"x", None, 7)
        kit.commit()
        assert kit.sent("app-store-changelog") == [(b"k", b"v", 5), (b"x", None, 7)]
        for bad in (("text", b""), (b"k", "text")):
            with pytest.raises(StoreError, match="a changelog accepts bytes"):
                context.log_change(*bad)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="logs a change, but it is closed"):
        context.log_change(b"k", b"v")


def test_a_byte_store_is_logged_for(tmp_path: Path) -> None:
    class Logs(PlainBytes):
        def init(self, context: StateStoreContext) -> None:
            self.context = context
            super().init(context)

    builder = Stores.key_value_store_builder(PlainBytesSupplier(kind=Logs), S, S)
    with TaskKit(using(builder, puts), tmp_path) as kit:
        kit.pipe("in", b"k", b"v", 5)
        assert own(kit).get(b"k") is None  # it is written with the commit
        kit.commit()
        assert own(kit).get(b"k") == b"v"
        assert kit.sent("app-store-changelog") == [(b"k", b"v", 5)]
        with pytest.raises(StoreError, match="a byte store, so the library logs its changes"):
            own(kit).context.log_change(b"k", b"v")


# ---------------------------------------------------------------------- commits and offsets


def test_a_store_that_manages_its_offsets_gets_them_with_the_commit(tmp_path: Path) -> None:
    """And there is no file of ours; the next task finds them."""
    with TaskKit(using(Stores.custom("store", Managing), puts), tmp_path) as kit:
        kit.pipe("in", b"a", b"1")
        kit.pipe("in", b"b", b"2")
        assert kit.task.stores.progress.stored_offset("store") is None
        kit.commit()
        store = own(kit)
        assert (store.committed_offset(CHANGELOG), store.committed_offset(INPUT)) == (1, 2)
    assert list(tmp_path.rglob(".checkpoint*")) == []
    with TaskKit(using(Stores.custom("store", Managing), puts), tmp_path, start=False) as kit:
        assert kit.task.stores.progress.stored_offset("store") == 1
        assert kit.task.stores.progress.stored_positions() == {"in-0": 2}


def test_one_that_does_not_has_a_file_of_offsets_after_each_commit(tmp_path: Path) -> None:
    with TaskKit(using(Stores.custom("store", Buffering), puts), tmp_path) as kit:
        file = tmp_path / "0_0" / ".checkpoint_store"
        kit.pipe("in", b"a", b"1")
        assert not file.exists()
        kit.commit()
        assert read_checkpoint(file.read_text()) == {CHANGELOG: 0, INPUT: 1}
        kit.pipe("in", b"b", b"2")
        kit.commit()
        assert read_checkpoint(file.read_text()) == {CHANGELOG: 1, INPUT: 2}
    with TaskKit(using(Stores.custom("store", Buffering), puts), tmp_path, start=False) as kit:
        assert kit.task.stores.progress.stored_offset("store") == 1
        assert kit.task.stores.progress.stored_positions() == {"in-0": 2}


@pytest.mark.parametrize("text", ["", "0\n1\n", "0\n2\napp-store-changelog 0 1\n", "1\n0\n", "nonsense"])
def test_a_damaged_file_of_offsets_is_none(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The store is rebuilt, and that is said."""
    (tmp_path / "0_0").mkdir()
    (tmp_path / "0_0" / ".checkpoint_store").write_text(text)
    with TaskKit(using(Stores.custom("store", Buffering), puts), tmp_path, start=False) as kit:
        assert kit.task.stores.progress.stored_offset("store") is None
    assert "store is rebuilt from its changelog" in caplog.text


def test_uncommitted_bytes_of_a_custom_store_ask_for_a_commit(tmp_path: Path) -> None:
    with TaskKit(using(Stores.custom("store", Buffering), puts), tmp_path) as kit:
        kit.budget.uncommitted_limit = 100
        kit.pipe("in", b"key", b"v" * 40)
        assert not kit.budget.wants_commit()
        kit.pipe("in", b"key", b"v" * 45)
        assert not kit.budget.wants_commit()
        kit.pipe("in", b"another", b"v" * 50)
        assert kit.budget.wants_commit()
        kit.commit()
        assert not kit.budget.wants_commit()
        kit.budget.uncommitted_limit = -1
        kit.pipe("in", b"key", b"v" * 1000)
        assert not kit.budget.wants_commit()
    assert kit.budget.reports == []


@pytest.mark.parametrize("kind", [Managing, Buffering])
def test_what_was_not_committed_is_gone_after_an_abort(kind: Any, tmp_path: Path) -> None:
    """The task is rebuilt with another store object, which holds the last commit."""
    with TaskKit(
        using(Stores.custom("store", kind), puts), tmp_path, {"processing.guarantee": "exactly_once_v2"}
    ) as kit:
        kit.pipe("in", b"a", b"1")
        kit.commit()
        kit.pipe("in", b"b", b"2")
        before = own(kit)
        kit.task.roll_back()
        assert kit.task.stores.progress.stored_offset("store") == 0
        kit.task.start(kit.collector, {})
        assert own(kit) is not before
        assert kit.store("store").everything() == {"a": "1"}


# ---------------------------------------------------------------------- builders and bad input


class Builder:
    """As Kafka Streams' users write them."""

    name = "store"
    logging = True
    topic_config: dict[str, str] = {"segment.bytes": "1000000"}  # noqa: RUF012 - not changed

    def build(self) -> Any:
        return Texts()


def test_a_builder_of_the_users_own_is_one(tmp_path: Path) -> None:
    builder = Builder()
    topology = using(builder, puts).add_state_store(builder)
    found = topology.stores["store"]
    assert (found.kind, found.logging, found.topic_config) == ("custom", True, {"segment.bytes": "1000000"})
    with TaskKit(topology, tmp_path) as kit:
        kit.pipe("in", b"k", b"v")
        assert kit.store("store").get("k") == "v"
    builder.logging = False
    assert not using(builder, puts).stores["store"].logging
    with pytest.raises(TopologyError, match="a store named 'store' is already added"):
        using(Builder(), puts).add_state_store(Builder())


def test_a_supplier_brings_a_custom_store_along() -> None:
    class Brings(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            puts(self.context.get_state_store("store"), record)

        @staticmethod
        def stores() -> Any:
            return [Builder()]

    with TopologyTestDriver(
        Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Brings, "s")
    ) as driver:
        driver.create_input_topic("in", S, S).pipe_input("k", "v")
        assert driver.get_state_store("store").get("k") == "v"


def test_a_mock_context_opens_custom_stores() -> None:
    context = MockProcessorContext(stores=[Stores.custom("store", Texts)])
    context.get_state_store("store").put("k", "v")
    assert context.get_state_store("store").get("k") == "v"
    context.close()


class Nameless(CustomStateStore):
    pass


ONE = Texts()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Stores.custom("store", lambda: ONE), "returned the same object twice"),
        (lambda: Stores.custom("store", lambda: object()), "lacks name, persistent, is_open, init, commit, close"),  # type: ignore[arg-type,return-value]
        (lambda: Stores.custom("store", Nameless), "lacks name, persistent, is_open, init, commit, close"),
        (lambda: Stores.custom("store", lambda: 1 / 0), "the supplier of store 'store' failed: ZeroDivisionError"),  # type: ignore[arg-type,return-value]
        (lambda: Stores.custom("other", Texts), "the supplier of store 'other' made a store named 'store'"),
        (lambda: Stores.custom("a/b", Texts), "the name of a custom store is also that of a directory"),
        (lambda: Stores.custom("..", Texts), "the name of a custom store is also that of a directory"),
        (lambda: Stores.custom("store", Texts()), "takes a function as its supplier"),  # type: ignore[arg-type]
        (lambda: Stores.custom("store", Texts).with_caching_enabled(), "is never cached"),
        (
            lambda: Stores.custom("store", Texts).supplier.on_engine("rocksdb"),
            "is a custom store, which does not have an engine",
        ),
        (lambda: Stores.key_value_store_builder(object()), "expected a store supplier"),  # type: ignore[arg-type]
        (lambda: Stores.window_store_builder(PlainBytesSupplier()), "a window store cannot be built from"),  # type: ignore[arg-type]
        (
            lambda: Stores.timestamped_key_value_store_with_headers_builder(PlainBytesSupplier()),
            "a key-value store with headers cannot be built from",
        ),
        (lambda: Topology().add_state_store("store"), "expected a store builder"),  # type: ignore[arg-type]
        (
            lambda: Topology().add_global_store(
                Stores.custom("store", Texts).with_logging_disabled(),
                "s",
                "t",
                "p",
                lambda: Processor(),  # type: ignore[abstract]
            ),
            "global store 'store' cannot be a custom store",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_once(make: Callable[[], object], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        make()


def test_a_logged_store_that_cannot_be_restored_is_refused(tmp_path: Path) -> None:
    class Unregistered(Texts):
        def init(self, context: StateStoreContext) -> None:
            super().init(context)
            context.restore = None  # type: ignore[attr-defined]

    with pytest.raises(StateError, match="custom store 'store' is logged, but could not be restored"):
        TaskKit(using(Stores.custom("store", Unregistered), puts), tmp_path / "1")
    silent = Stores.custom("store", Unregistered).with_logging_disabled()
    with TaskKit(using(silent, puts), tmp_path / "2") as kit:
        kit.pipe("in", b"k", b"v")
        assert kit.sent("app-store-changelog") == []


@pytest.mark.parametrize(("call", "done"), [("init", "opened"), ("commit", "committed"), ("close", "closed")])
def test_a_store_that_fails_is_named(call: str, done: str, tmp_path: Path) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is gone")

    kind = type("Failing", (Texts,), {call: fail})

    def live() -> None:
        kit = TaskKit(using(Stores.custom("store", kind), puts), tmp_path)
        kit.pipe("in", b"k", b"v")
        kit.commit()
        kit.task.close()

    with pytest.raises(StateError, match=f"custom store 'store' could not be {done}: OSError: the disk is gone"):
        live()


# ---------------------------------------------------------------------- timestamps over bytes (KIP-258)


def builders(kind: Any) -> tuple[StoreBuilder[Any, Any], StoreBuilder[Any, Any]]:
    supplier = PlainBytesSupplier(kind=kind)
    return Stores.key_value_store_builder(supplier, S, S), Stores.timestamped_key_value_store_builder(supplier, S, S)


def test_the_kind_of_a_byte_store_is_what_its_class_says() -> None:
    kinds = {
        kind.__name__: [builder.kind for builder in builders(kind)]
        for kind in (PlainBytes, TimestampedBytes, MemoryBytes)
    }
    assert kinds == {
        "PlainBytes": ["key-value", "proxied-key-value"],
        "TimestampedBytes": ["key-value", "timestamped-key-value"],
        "MemoryBytes": ["key-value", "timestamped-key-value"],
    }
    assert TimestampedBytes.convert_to_timestamped_format(b"v") == b"\xff" * 8 + b"v"
    assert TimestampedBytes.convert_to_timestamped_format(None) is None
