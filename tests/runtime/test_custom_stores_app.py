"""Custom stores and engines in applications: restores, exactly-once, and processes that are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from golden_support.topologies import load_module
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from runtime_support.task_kit import TaskKit
from state.engine.registry import register_engine
from state_support.bytes_stores import PlainBytes, PlainBytesSupplier
from state_support.texts import Buffering, InMemory, Managing, Texts
from streams.app.kafka_streams import KafkaStreams
from streams.app.uncaught import StreamThreadExceptionResponse
from streams.testing import TopologyTestDriver

S = Serdes.STRING
EXACTLY_ONCE = {"processing_guarantee": "exactly_once_v2"}
REPOSITORY = Path(__file__).resolve().parents[2]


class Puts(Processor[str, str, str, str]):
    """Puts its records and sends how many keys there are."""

    def process(self, record: Record[str, str]) -> None:
        store = self.context.get_state_store("store")
        store.put(record.key, record.value)
        held = store.everything() if hasattr(store, "everything") else dict(store.all())
        self.context.forward(Record(record.key, str(len(held)), record.timestamp))


def using(builder: Any) -> Topology:
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Puts, "s")
    return topology.add_state_store(builder, "p").add_sink("out", "out", "p", key_serde=S, value_serde=S)


def run(kit: Cluster, topology: Topology, records: list[tuple[str, str]], **config: Any) -> Restores:
    """Runs an application until it has processed these records and all before; returns what it restored."""
    restores = Restores()
    app: KafkaStreams = kit.start(topology, restores, **config)
    before = len(kit.values("out"))
    kit.send_pairs("in", records)
    kit.until(lambda: len(kit.values("out")) >= before + len(records))
    assert app.close(60)
    return restores


# ---------------------------------------------------------------------- custom stores

BUILDERS: dict[str, tuple[Any, int]] = {
    "manages its offsets": (Stores.custom("store", Managing), 0),
    "buffers its writes": (Stores.custom("store", Buffering), 0),
    "does neither": (Stores.custom("store", Texts), 0),
    "in memory": (Stores.custom("store", InMemory), 3),
    "bytes": (Stores.key_value_store_builder(PlainBytesSupplier(kind=PlainBytes), S, S), 0),
}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("which", BUILDERS)
def test_a_store_goes_on_after_a_clean_stop_and_moves_with_its_changelog(
    which: str, guarantee: str, tmp_path: Path
) -> None:
    """On the same disk it restores nothing, unless it is in memory; on another one everything."""
    builder, restored = BUILDERS[which]
    with Cluster(tmp_path / "one", topics={"in": 1, "out": 1}, one_state=True) as kit:
        config = {"processing_guarantee": guarantee}
        run(kit, using(builder), [("a", "1"), ("b", "1"), ("c", "1")], **config)
        again = run(kit, using(builder), [("d", "1")], **config)
        assert sum(count for _, _, count in again.ended) == restored
        assert kit.values("out")[-1] == "4"
        kit.directory = tmp_path / "two"
        moved = run(kit, using(builder), [("e", "1")], **config)
        assert sum(count for _, _, count in moved.ended) == 4
        assert kit.values("out")[-1] == "5"


def test_exactly_once_rebuilds_only_the_store_that_cannot_undo_its_writes(tmp_path: Path) -> None:
    """After an unclean stop, which leaves no file of offsets: it is deleted, with what was never committed."""
    with Cluster(tmp_path, topics={"in": 1, "out": 1}, one_state=True) as kit:
        run(kit, using(Stores.custom("store", Texts)), [("a", "1"), ("b", "1")], **EXACTLY_ONCE)
        task = next(tmp_path.glob("app/0_0"))
        (task / ".checkpoint_store").unlink()
        file = task / "stores" / "store" / "texts.json"
        file.write_text(file.read_text().replace('"a"', '"never committed"'))
        restored = run(kit, using(Stores.custom("store", Texts)), [("a", "2")], **EXACTLY_ONCE)
        assert sum(count for _, _, count in restored.ended) == 2
        assert kit.values("out")[-1] == "2"
        assert "never committed" not in file.read_text()


def test_an_aborted_transaction_leaves_nothing_in_a_custom_store(tmp_path: Path) -> None:
    """Of any sort; the record is processed again by the next task, which finds the last commit."""
    for kind in (Texts, Buffering, Managing):

        class FailsOnce(Puts):
            failed = False

            def process(self, record: Record[str, str]) -> None:
                if record.value == "fails" and not FailsOnce.failed:
                    FailsOnce.failed = True
                    self.context.get_state_store("store").put("ghost", "of the first try")
                    raise ValueError("once")
                super().process(record)

        topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", FailsOnce, "s")
        topology.add_state_store(Stores.custom("store", kind), "p")
        topology.add_sink("out", "out", "p", key_serde=S, value_serde=S)
        with Cluster(tmp_path / kind.__name__, topics={"in": 1, "out": 1}, one_state=True) as kit:
            app = kit.app(topology, start=False, **EXACTLY_ONCE)
            app.set_uncaught_exception_handler(lambda error: StreamThreadExceptionResponse.REPLACE_THREAD)
            app.start()
            kit.send_pairs("in", [("a", "1")])
            kit.until(lambda: kit.values("out") == ["1"])
            kit.send_pairs("in", [("b", "fails"), ("c", "1")])
            kit.until(lambda: len(kit.values("out")) == 3)
            assert kit.values("out") == ["1", "2", "3"]
            assert FailsOnce.failed


# ---------------------------------------------------------------------- killed processes

KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[4:]
from runtime_support.task_kit import TaskKit
from state_support import texts
import test_custom_stores_app as here
from processor_api.stores.factory import Stores
kit = TaskKit(
    here.using(Stores.custom("store", getattr(texts, sys.argv[2]))),
    Path(sys.argv[1]),
    {"processing.guarantee": sys.argv[3]},
)
kit.pipe("in", b"a", b"committed")
kit.pipe("in", b"b", b"committed")
kit.commit()
kit.pipe("in", b"c", b"not committed")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("kind", "guarantee", "offset", "held"),
    [
        (Managing, "exactly_once_v2", 1, ["a", "b"]),
        (Buffering, "exactly_once_v2", 1, ["a", "b"]),
        (Texts, "exactly_once_v2", None, []),
        (Managing, "at_least_once", 1, ["a", "b"]),
        (Buffering, "at_least_once", 1, ["a", "b"]),
        (Texts, "at_least_once", 1, ["a", "b", "c"]),
    ],
)
def test_a_killed_process_leaves_what_each_store_promises(
    kind: Any, guarantee: str, offset: int | None, held: list[str], tmp_path: Path
) -> None:
    """Only one that neither buffers nor manages offsets has to be rebuilt, under exactly-once."""
    paths = [str(REPOSITORY / "tests" / "support"), str(REPOSITORY / "tests" / "runtime")]
    command = [sys.executable, "-c", KILLED, str(tmp_path), kind.__name__, guarantee, *paths]
    died = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert died.returncode == -9, died.stderr
    config = {"processing.guarantee": guarantee}
    with TaskKit(using(Stores.custom("store", kind)), tmp_path, config, start=False) as kit:
        stores = kit.task.stores
        assert stores.progress.stored_offset("store") == offset
        if offset is None:
            stores.progress.wipe("store")
        engine: Any = stores.progress.engine_of("store")
        assert sorted(engine.store.everything()) == held


# ---------------------------------------------------------------------- engines of one's own


@pytest.fixture(name="sqlite", scope="module")
def sqlite_fixture() -> ModuleType:
    module = load_module(str(REPOSITORY / "examples" / "08_custom_stores" / "sqlite_engine.py"))
    register_engine("sqlite", module.SqliteEngine)
    return module


def on_sqlite() -> Topology:
    supplier = Stores.persistent_key_value_store("store").on_engine("sqlite")
    return using(Stores.key_value_store_builder(supplier, S, S))


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_store_on_an_engine_of_ones_own_is_as_any_other(guarantee: str, sqlite: ModuleType, tmp_path: Path) -> None:
    """It is buffered, logged, restored, and goes on from its offset."""
    config = {"processing_guarantee": guarantee}
    with Cluster(tmp_path / "one", topics={"in": 1, "out": 1}, one_state=True) as kit:
        run(kit, on_sqlite(), [("a", "1"), ("b", "1"), ("c", "1")], **config)
        assert (tmp_path / "one" / "app" / "0_0" / "sqlite" / "rows.sqlite").exists()
        again = run(kit, on_sqlite(), [("d", "1")], **config)
        assert sum(count for _, _, count in again.ended) == 0
        kit.directory = tmp_path / "two"
        moved = run(kit, on_sqlite(), [("e", "1")], **config)
        assert sum(count for _, _, count in moved.ended) == 4
        assert kit.values("out")[-1] == "5"


@pytest.mark.parametrize("caching", [False, True])
def test_every_kind_of_store_works_on_an_engine_of_ones_own(caching: bool, sqlite: ModuleType, tmp_path: Path) -> None:
    def on(supplier: Any) -> Any:
        return supplier.on_engine("sqlite")

    plain = Stores.key_value_store_builder(on(Stores.persistent_key_value_store("plain")), S, S)
    window = Stores.timestamped_window_store_builder(on(Stores.persistent_window_store("window", 100, 10)), S, S)
    session = Stores.session_store_builder(on(Stores.persistent_session_store("session", 100)), S, S)
    versioned = Stores.versioned_key_value_store_builder(
        on(Stores.persistent_versioned_key_value_store("versioned", 1000)), S, S
    )

    class Uses(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.get_state_store("plain").put(record.key, record.value)
            self.context.get_state_store("versioned").put(record.key, record.value, record.timestamp)
            self.context.get_state_store("window").put(record.key, (record.value, record.timestamp), record.timestamp)

    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Uses, "s")
    builders = [builder.with_caching_enabled() if caching else builder for builder in (plain, window, session)]
    for builder in (*builders, versioned):
        topology.add_state_store(builder, "p")
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", S, S)
        for time, value in ((0, "old"), (50, "new"), (140, "newest")):
            source.pipe_input("k", value, timestamp=time)
        assert driver.get_state_store("plain").get("k") == "newest"
        assert driver.get_versioned_key_value_store("versioned").get("k", 60).value == "new"  # type: ignore[union-attr]
        with driver.get_window_store("window").fetch_range("k", 0, 200) as rows:
            assert list(rows) == [(50, "new"), (140, "newest")]
        assert driver.get_state_store("plain").persistent


UNKNOWN = (
    r"storage engine 'unheard' does not exist; existing engines are memory.*rocksdb.*by an entry point of the"
    r" group 'streams.engines'.*store='store'"
)


def test_an_engine_that_is_not_known_is_refused_when_the_application_is_made(tmp_path: Path) -> None:
    topology = using(
        Stores.key_value_store_builder(Stores.persistent_key_value_store("store").on_engine("unheard"), S, S)
    )
    with Cluster(tmp_path, topics={"in": 1}, one_state=True) as kit, pytest.raises(TopologyError, match=UNKNOWN):
        kit.app(topology, start=False)
    with pytest.raises(TopologyError, match=UNKNOWN):
        TopologyTestDriver(topology)
