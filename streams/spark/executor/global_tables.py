"""The rows of filled global stores, as files of a run, and the engines that tasks open with them.

Small tables go into memory, once in each worker process. A database takes table files over as they are. Other engines
are written row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from processor_api.stores.suppliers import MEMORY
from state.directory.own_files import link_or_copy
from state.engine.memory import MemoryEngine
from state.engine.port import Engine, Ingesting
from streams.platform import OpenEngine

LOAD_ROWS = 10_000
ARRIVED = "arrived"
"""The directory, beside a database, of table files that it is about to take over."""


class _KeptEngine(MemoryEngine):
    """An engine that other tasks of this process read too.

    :param persistent: whether it stands for an engine on disk, which has the rows of some stores in another order.
    """

    def __init__(self, *, persistent: bool) -> None:
        super().__init__()
        self.persistent = persistent

    def close(self) -> None:
        """Does nothing: the rows stay until those of another run are loaded."""


_kept: tuple[str, dict[str, _KeptEngine]] = ("", {})
"""The filled tables whose rows this process has in memory, and their engines; Spark gives a process one task at a
time."""


@dataclass(frozen=True)
class EngineFiles:
    """Names the files with the rows of all global stores on one engine."""

    in_memory: bool
    """Whether tasks hold the rows in memory, whatever the engine is."""
    rows: tuple[str, ...]
    """Files of rows, whose column ``topic`` has the family."""
    tables: Mapping[str, str]
    """RocksDB's table files, by family."""


@dataclass(frozen=True)
class GlobalTables:
    """Holds the global stores of a run as files. Sent to each task of each stage."""

    id: str
    """Another one for each time that tables were filled."""
    engines: Mapping[str, EngineFiles]
    """The files by the names of engines."""

    @staticmethod
    def of(directory: Path, manifest: Mapping[str, Any]) -> GlobalTables:
        """Returns the tables that are listed in a run directory.

        :param manifest: as :func:`streams.spark.backfill.global_filling.fill_globals` reports it.
        """
        (task,) = manifest["tasks"]
        paths = {Path(name).parent.name.removeprefix("kind="): str(directory / name) for name in task["files"]}
        engines = {
            name: EngineFiles(
                one["in_memory"],
                tuple(paths[kind] for kind in one["rows"]),
                {family: paths[kind] for family, kind in one["tables"].items()},
            )
            for name, one in task["engines"].items()
        }
        return GlobalTables(manifest["id"], engines)

    def opening(self, open_engine: OpenEngine) -> OpenEngine:
        """Returns a function that opens engines with these rows, to be read by the task of this process.

        :param open_engine: opens an empty engine.
        """

        def opened(name: str, directory: Path, families: Sequence[str]) -> Engine:
            found = self.engines[name]
            if found.in_memory:
                return self._in_memory(name, found)
            engine = open_engine(name, directory, families)
            try:
                if found.tables:
                    _take_over(engine, found.tables, directory / ARRIVED)
                _load(engine, found.rows)
            except BaseException:
                engine.close()
                raise
            return engine

        return opened

    def _in_memory(self, name: str, found: EngineFiles) -> Engine:
        global _kept
        if _kept[0] != self.id:
            _kept = self.id, {}
        engine: Any = _kept[1].get(name)
        if engine is None:
            engine = _KeptEngine(persistent=name != MEMORY)
            _load(engine, found.rows)
            _kept[1][name] = engine
        return cast(Engine, engine)


def _take_over(engine: Engine, tables: Mapping[str, str], directory: Path) -> None:
    """Gives table files to a database, which moves them: as further names of the files, or as copies."""
    assert isinstance(engine, Ingesting)
    directory.mkdir(parents=True)
    files: dict[str, Path] = {}
    for number, (family, path) in enumerate(tables.items()):
        files[family] = target = directory / f"{number}.sst"
        link_or_copy(path, target)
    engine.ingest(files)


def _load(engine: Engine, files: Iterable[str]) -> None:
    for path in files:
        with pq.ParquetFile(path) as file:
            for some in file.iter_batches(LOAD_ROWS, columns=["topic", "key", "value"]):
                families, keys, values = (column.to_pylist() for column in some.columns)
                handles = {name: engine.family(name).handle for name in set(families)}
                batch = engine.batch()
                for family, key, value in zip(families, keys, values, strict=True):
                    batch.put(key, value, handles[family])
                engine.load(batch)
    engine.flush()
