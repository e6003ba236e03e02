"""Global stores are filled once in a backfill; tasks open what was filled, byte for byte."""

import hashlib
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from backfill_kit import SETTINGS, Row, results_of, run_driver, write_history
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from state.engine.registry import register_engine
from state.rocksdb.engine import RocksEngine
from state_contract.kinds import KINDS, Kind
from streams import Consumed, Processor, Produced, Record, Repartitioned, StreamsBuilder, Topology
from streams.runtime.global_stores.readers import global_families
from streams.runtime.runner.options import HistoryRow, RunnerOptions
from streams.runtime.runner.resources import RunnerResources
from streams.spark.backfill.global_filling import FillingJob, run_filling
from streams.spark.executor.global_tables import GlobalTables
from streams.spark.executor.rows import RowWriter, state_rows
from streams.spark.executor.shipped_topology import ship
from streams.spark.runs.run_directory import RunDirectory

TEXT = Serdes.STRING
KEPT = {kind.name: kind for kind in KINDS if not kind.operator and "lru" not in kind.name and "-by-" not in kind.name}
"""The kinds that can be global."""
IN_FILES = 0
IN_MEMORY = 1 << 20


class Fills(Processor[Any, Any, Any, Any]):
    """Puts records into the store as its kind does, and counts how often it is opened."""

    opened = 0

    def __init__(self, kind: Kind, name: str) -> None:
        self._kind, self._name = kind, name

    def init(self, context: Any) -> None:
        Fills.opened += 1
        self._store = context.get_state_store(self._name)

    def process(self, record: Record[Any, Any]) -> None:
        self._kind.put(self._store, record.key, record.value, record.timestamp)


def topology_of(*stores: tuple[Kind, StoreBuilder[Any, Any]]) -> Callable[[], Topology]:
    """Returns what makes a topology with these global stores, the first of them filled from topic ``names-0``."""

    def topology() -> Topology:
        made = Topology().add_source("source", "events", key_serde=TEXT, value_serde=TEXT)
        made.add_processor("reads", lambda: Fills(KEPT["key-value"], "s"), "source")
        for number, (kind, builder) in enumerate(stores):
            made.add_global_store(
                builder, f"source-{number}", f"names-{number}", f"fills-{number}",
                lambda kind=kind, name=builder.name: Fills(kind, name), key_serde=TEXT, value_serde=TEXT,
            )  # fmt: skip
        return made

    return topology


def records() -> list[Row]:
    """Keys that come again, that are deleted, and that come back; with headers."""
    rows = []
    for number in range(300):
        key, value = b"%c" % (97 + number % 26), None if number % 7 == 3 else b"v%d" % number
        rows.append(Row(key, value, 10 * number, [("h", b"%d" % number)], 0, number))
    return rows


def history() -> list[HistoryRow]:
    return [(row.key, row.value, row.ts, row.headers, number) for number, row in enumerate(records())]


def topic_file(directory: Path, topic: str) -> str:
    """Writes the records of a topic as a run has them; returns the path."""
    writer = RowWriter(directory)
    writer.write("record", state_rows(topic, 0, rows := [row[:4] for row in history()], range(len(rows))))
    (kind,) = writer.finish()
    return str(directory / f"{kind}.parquet")


class Filled:
    """A run directory with the tables of a topology."""

    def __init__(self, tmp_path: Path, topology: Callable[[], Topology], memory_bytes: int, **settings: Any) -> None:
        self.shipped = ship(topology, "app", {**SETTINGS, **settings}, dead_letters=False)
        self.directory = RunDirectory(tmp_path / "run")
        path = self.directory.global_tables_path()
        topics = [spec.topic for spec in topology().global_stores.values()]
        files = {topic: (topic_file(tmp_path / topic, topic),) for topic in topics}
        job = FillingJob(
            shipped=self.shipped, topics=files, attempts=str(self.directory.attempts_path(path)), start_ms=5,
            memory_bytes=memory_bytes,
        )  # fmt: skip
        path.mkdir(parents=True)
        self.directory.complete(path, {"id": uuid4().hex, "tasks": [run_filling(job, 3)]})
        found = self.directory.done(path)
        assert found is not None
        self.tables = GlobalTables.of(path, found)

    def resources(self, **options: Any) -> RunnerResources:
        """Returns the resources of a task."""
        given = RunnerOptions(**{"filled_globals": self.tables.opening, **options})
        return RunnerResources(self.shipped.load(), self.shipped.config, given)


def content(kind: Kind, resources: RunnerResources, store: str = "s") -> dict[str, Any]:
    """Returns what a node reads from a store by each of the calls of its kind."""
    found = resources.global_store(store, "node")
    assert found is not None
    lists = {**kind.lists, **{f"backward {name}": call for name, call in kind.backward.items()}}
    read: dict[str, Any] = {}
    for name, call in lists.items():
        with call(found.facade, None, None) as rows:
            read[name] = list(rows)
    return {**read, "get": [kind.get(found.facade, key, 2950) for key in "abcxyz"]}


def rows_of(resources: RunnerResources, topology: Callable[[], Topology]) -> dict[str, list[tuple[bytes, bytes]]]:
    """Returns the rows in the engines of stores that were filled here, by family."""
    families = global_families(topology())
    engines = resources.global_engines
    return {family: list(engines[name].family(family).range()) for name in engines for family in families[name]}


@pytest.mark.parametrize("memory_bytes", [IN_MEMORY, IN_FILES])
@pytest.mark.parametrize("engine", [ROCKSDB, MEMORY])
@pytest.mark.parametrize("name", KEPT)
def test_each_kind_of_store_has_the_rows_that_a_task_would_have_filled_it_with(
    name: str, engine: str, memory_bytes: int, tmp_path: Path
) -> None:
    kind = KEPT[name]
    topology = topology_of((kind, kind.build(engine, TEXT, TEXT).with_logging_disabled()))
    filled = Filled(tmp_path, topology, memory_bytes)
    opened = Fills.opened
    task = filled.resources()
    assert Fills.opened == opened, "the processors of global stores have run in the filling"
    own = filled.resources(
        filled_globals=None, start_ms=5, store_bytes=memory_bytes, global_rows={"names-0": history()}
    )
    try:
        found = content(kind, task)
        assert found == content(kind, own)
        assert any(found.values())
        (open_engine,) = filled.tables.engines
        loaded = filled.tables.opening(task.engines.open)(
            open_engine, tmp_path / "again", global_families(topology())[open_engine]
        )
        wanted = rows_of(own, topology)
        assert {family: list(loaded.family(family).range()) for family in wanted} == wanted
        assert sum(map(len, wanted.values())) > 20
        loaded.close()
    finally:
        task.close()
        own.close()


def two_tables() -> tuple[Kind, Callable[[], Topology]]:
    kind = KEPT["key-value"]
    names = "s", "t"
    builders = [Stores.key_value_store_builder(Stores.persistent_key_value_store(name), TEXT, TEXT) for name in names]
    return kind, topology_of(*((kind, builder.with_logging_disabled()) for builder in builders))


def sums(tables: GlobalTables) -> dict[str, str]:
    """Returns the sums of all files."""
    paths = [path for one in tables.engines.values() for path in (*one.rows, *one.tables.values())]
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def test_large_tables_are_files_that_every_task_shares_and_none_changes(tmp_path: Path) -> None:
    """Two tasks at a time, as the processes of one machine have them."""
    kind, topology = two_tables()
    filled = Filled(tmp_path, topology, IN_FILES)
    before = sums(filled.tables)
    assert len(before) == 2
    assert all(path.endswith(".sst") for path in before)
    scratch = tmp_path / "scratch"
    tasks = [filled.resources(directory=scratch) for _ in range(2)]
    for task in tasks:
        assert content(kind, task) == content(kind, task, "t")
        assert len(content(kind, task)["range"]) > 20
    assert {os.stat(path).st_nlink for path in before} == {3}
    for task in tasks:
        task.close()
    assert sums(filled.tables) == before
    assert {os.stat(path).st_nlink for path in before} == {1}
    assert not list(scratch.iterdir())


def test_table_files_on_another_file_system_are_copied(tmp_path: Path) -> None:
    kind, topology = two_tables()
    filled = Filled(tmp_path, topology, IN_FILES)
    before = sums(filled.tables)
    with other_file_system(tmp_path) as directory:
        task = filled.resources(directory=directory)
        assert len(content(kind, task)["range"]) > 20
        task.close()
    assert sums(filled.tables) == before


@contextmanager
def other_file_system(path: Path) -> Iterator[Path]:
    for root in map(Path, ("/dev/shm", "/tmp", "/var/tmp", "/run")):
        if root.is_dir() and os.access(root, os.W_OK) and root.stat().st_dev != path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=root) as found:
                yield Path(found)
            return
    pytest.skip("this machine has one file system for all")


def test_a_table_in_memory_is_read_once_in_a_process(tmp_path: Path) -> None:
    """Until another run's are: the next task needs its files no more."""
    kind, topology = two_tables()
    filled = Filled(tmp_path / "one", topology, IN_MEMORY)
    other = Filled(tmp_path / "two", topology, IN_MEMORY)
    (path,) = sums(filled.tables)
    first = filled.resources()
    wanted = content(kind, first)
    first.close()
    Path(path).unlink()
    second = filled.resources()
    assert content(kind, second) == wanted
    second.close()
    for tables, there in ((other, True), (filled, False)):
        task = tables.resources()
        if there:
            assert content(kind, task) == wanted
        else:
            with pytest.raises(FileNotFoundError):
                content(kind, task)
        task.close()


def test_a_topology_that_reads_no_global_store_loads_none(tmp_path: Path) -> None:
    _, topology = two_tables()
    filled = Filled(tmp_path, topology, IN_MEMORY)
    for path in sums(filled.tables):
        Path(path).unlink()
    task = filled.resources()
    assert task.global_store("elsewhere", "node") is None
    task.close()


COUNTED: list[str] = []


def count_options(store: str, options: Any) -> None:
    """Stands for a user's function."""
    COUNTED.append(store)
    options.set_target_file_size_base(1 << 20)


def test_options_of_a_user_hold_for_large_tables_too(tmp_path: Path) -> None:
    kind, topology = two_tables()
    filled = Filled(tmp_path, topology, IN_FILES, **{"rocksdb.config.setter": count_options})
    COUNTED.clear()
    task = filled.resources()
    assert len(content(kind, task)["range"]) > 20
    assert set(COUNTED) == {"s", "t"}
    task.close()


def test_an_engine_of_ones_own_is_written_row_by_row(tmp_path: Path) -> None:
    register_engine("own", lambda path, families, config: RocksEngine(path, families))
    kind = KEPT["timestamped"]
    supplier = Stores.persistent_key_value_store("s").on_engine("own")
    builder = Stores.timestamped_key_value_store_builder(supplier, TEXT, TEXT).with_logging_disabled()
    filled = Filled(tmp_path, topology_of((kind, builder)), IN_MEMORY)
    assert {name: one.in_memory for name, one in filled.tables.engines.items()} == {"own": False}
    own = filled.resources(filled_globals=None, global_rows={"names-0": history()})
    task = filled.resources(directory=tmp_path / "scratch")
    assert content(kind, task) == content(kind, own)
    assert list((tmp_path / "scratch").rglob("own"))
    task.close()
    own.close()


# ---------------------------------------------------------------------- in Spark


class Named(Processor[Any, Any, Any, Any]):
    """Puts the name of a value before it."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._names = context.get_state_store("names")

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(f"{self._names.get(record.value)}/{record.value}"))


class Keeps(Processor[Any, Any, Any, Any]):
    """Fills the names in upper case, and notes each record in a file; the first attempt dies in the middle."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def init(self, context: Any) -> None:
        self._store = context.get_state_store("names")

    def process(self, record: Record[Any, Any]) -> None:
        from pyspark import TaskContext

        with self._notes.open("a") as file:
            file.write(f"{record.key}\n")
        self._store.put(record.key, None if record.value is None else record.value.upper())
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and record.key == "v4":
            os.kill(os.getpid(), signal.SIGKILL)


def named_twice(notes: Path) -> StreamsBuilder:
    """Reads the names before and behind a repartition topic."""
    builder = StreamsBuilder()
    texts = Consumed(key_serde=TEXT, value_serde=TEXT)
    names = Stores.key_value_store_builder(Stores.persistent_key_value_store("names"), TEXT, TEXT)
    builder.add_global_store(names.with_logging_disabled(), "names", texts, lambda: Keeps(notes))
    named = builder.stream("events", texts).process(Named)
    moved = named.select_key(lambda key, value: value).repartition(Repartitioned(key_serde=TEXT, value_serde=TEXT))
    moved.map_values(lambda value: value.rpartition("/")[2]).process(Named).to(
        "out", Produced(key_serde=TEXT, value_serde=TEXT)
    )
    return builder


def test_global_stores_are_filled_once_whatever_happens_to_tasks_and_driver(spark: Any, tmp_path: Path) -> None:
    from streams.spark import Backfill, History

    notes = tmp_path / "notes"
    names = [Row(b"v%d" % number, b"name %d" % number, number, None, number % 2) for number in range(8)]
    names += [Row(b"v2", None, 20, None, 0), Row(b"v3", b"last", 20, None, 1)]
    events = [Row(b"k%d" % number, b"v%d" % (number % 9), 100 + number, None, number % 2) for number in range(200)]
    rows = {"names": names, "events": events}
    inputs = {topic: History.parquet(spark, write_history(tmp_path / topic, some)) for topic, some in rows.items()}
    options = {"config": SETTINGS, "partitions": {"events": 2, "out": 1}}

    def run() -> list[Any]:
        made = Backfill(
            spark, partial(named_twice, notes), inputs, application_id="app", run_dir=tmp_path / "run", **options
        )
        return results_of(made.run(), ["out"], []).outputs["out"]

    wanted = run_driver(partial(named_twice, tmp_path / "driver"), {"events": events}, first={"names": names}).outputs
    found = run()
    assert sorted(found) == sorted(wanted["out"])
    assert {value for _, value, _, _ in found} >= {b"None/v2", b"LAST/v3", b"NAME 1/v1", b"None/v8"}
    filled = Counter(notes.read_text().split())
    assert 0 < filled["v1"] <= 2, "once by the attempt that died, and once by the one that counts"
    assert sum(filled.values()) <= 2 * len(names)
    (tmp_path / "run" / "stage=1" / "_DONE.json").unlink()
    assert run() == found
    assert Counter(notes.read_text().split()) == filled, "a run that goes on takes the tables that are there"
