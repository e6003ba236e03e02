"""The result of a backfill: outputs, tables and dead letters as DataFrames, and a report of each stage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from processor_api.topology.function import TopologyLike
from processor_api.topology.topology import Topology
from processor_api.user_code.given_serdes import SerdeLike
from state.write_buffer.changelog_form import ChangelogForm
from streams.config import StreamsConfig
from streams.spark.backfill.result_frames import LETTERS, OUTPUT, ArrowFrames, columns_of_output, frames_of
from streams.spark.errors import RunDirConflict, SparkBridgeError
from streams.spark.executor.earlier_task import EarlierTask
from streams.spark.executor.shipped_topology import backfill_config
from streams.spark.handover.cut import Cut
from streams.spark.notebook import html_table
from streams.spark.position import Position, end_of_run
from streams.spark.rows.state_files import StateFiles, state_files
from streams.spark.rows.store_layouts import load_topology, table_layout
from streams.spark.runs.run_directory import RunDirectory, files_of
from streams.spark.sources.lake_tables import write_delta, write_iceberg
from streams.spark.sources.offsets import ClusterConfig, cluster_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from streams.spark.corrections.publish import CorrectionsReport


@dataclass(frozen=True)
class StageReport:
    """Reports one stage: its tasks, and what they read and wrote."""

    stage: int
    subtopologies: tuple[int, ...]
    tasks: tuple[Mapping[str, Any], ...]
    """One entry for each task, with its files and counts (`streams/spark/executor/stage_task.py`)."""
    duration_ms: int
    resumed: bool
    """Whether an earlier run had completed it."""
    latest: tuple[tuple[str, int, int, int], ...] = ()
    """The largest timestamp of each topic that a later stage reads: topic, writer, partition, and ms."""

    @property
    def rows(self) -> int:
        """The number of records read."""
        return sum(task["rows"] for task in self.tasks)

    @property
    def dropped(self) -> int:
        """The number of records that were dropped, such as late ones and those with null keys."""
        return sum(task["dropped"] for task in self.tasks)

    @property
    def gaps(self) -> int:
        """The number of holes between offsets; compaction and transactions leave such holes too."""
        return sum(task["gaps"] for task in self.tasks)

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of records written to each topic; of changelogs, the number of rows in the end."""
        found: dict[str, int] = {}
        for task in self.tasks:
            for topic, count in task["counts"].items():
                found[topic] = found.get(topic, 0) + count
        return found

    def __str__(self) -> str:
        written = ", ".join(f"{topic} {count:,}" for topic, count in sorted(self.counts.items())) or "nothing"
        how = "kept from an earlier run" if self.resumed else f"{self.duration_ms / 1000:.1f} s"
        dropped = f", {self.dropped:,} dropped" if self.dropped else ""
        gaps = f", {self.gaps:,} holes between offsets" if self.gaps else ""
        return f"stage {self.stage}: {self.rows:,} records{dropped}{gaps}; wrote {written} ({how})"


class BackfillResult:
    """Gives what a backfill wrote: as DataFrames, of which nothing is read before an action of Spark; without a session
    as tables of Arrow with the same columns."""

    def __init__(
        self,
        spark: SparkSession | None,
        directory: RunDirectory,
        topology: Topology,
        config: StreamsConfig,
        stages: Iterable[StageReport],
    ) -> None:
        self._frames = frames_of(spark)
        self._config = config
        self._directory = directory
        self._topology = topology
        self.stages = tuple(stages)
        run = directory.read_run()
        assert run is not None
        self.application_id: str = run["application_id"]
        self.options: Mapping[str, Any] = run["options"]
        self.cut: Cut | None = Cut.from_json(json.dumps(run["cut"])) if run.get("cut") else None

    @property
    def run_dir(self) -> str:
        """The path of the run directory."""
        return str(self._directory.path)

    @property
    def position(self) -> Position:
        """The position of the result in its inputs: which records of each topic are in it. A backfill that continues
        with it begins there."""
        found = self._directory.position()
        if found is None:  # of a release that wrote none
            run = self._directory.read_run()
            assert run is not None
            found = end_of_run(run, [task for stage in self.stages for task in stage.tasks])
        return found

    @property
    def topology(self) -> Topology:
        """The topology that was run."""
        return self._topology

    @property
    def metrics(self) -> Mapping[str, float]:
        """Totals over all stages."""
        return {
            "rows": sum(stage.rows for stage in self.stages),
            "dropped-records-total": sum(stage.dropped for stage in self.stages),
            "offset-gaps-total": sum(stage.gaps for stage in self.stages),
            "duration_ms": sum(stage.duration_ms for stage in self.stages),
        }

    @staticmethod
    def load(
        spark: SparkSession | None,
        run_dir: str | os.PathLike[str],
        topology: TopologyLike | str,
        config: StreamsConfig | Mapping[str, Any] | None = None,
    ) -> BackfillResult:
        """Returns the result of a backfill that has ended before.

        :param spark: the session; without one, tables and outputs are tables of Arrow.
        :param topology: the topology that was run, a function that makes it, or ``"module:function"``.
        :param config: the settings it was run with; tables need the default serdes.
        :raises RunDirConflict: if the directory has no complete backfill, is damaged, or of a newer version.
        """
        directory = RunDirectory(run_dir)
        run = directory.read_run()
        if run is None:
            raise RunDirConflict(f"{str(directory.path)!r} holds no backfill: give the run_dir of one")
        stages = []
        for number in range(run["stages"]):
            found = directory.done(directory.stage_path(number))
            if found is None:
                raise RunDirConflict(
                    f"the backfill in {str(directory.path)!r} is not complete, stage {number} is missing: run it again,"
                    " and it continues where it stopped"
                )
            stages.append(stage_report(found, resumed=True))
        settings = backfill_config(config, run["application_id"])
        return BackfillResult(spark, directory, load_topology(topology, settings), settings, stages)

    # ------------------------------------------------------------------ frames

    def output(
        self,
        topic: str,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        structs: bool = False,
    ) -> Any:
        """Returns the records that the topology wrote to a topic: columns ``partition``, ``upstream``, ``seq``,
        ``key``, ``value``, ``timestamp``, ``headers``.

        Within a partition of the topic the records of one task (``upstream``) are in the order of ``seq``. The
        partition is null if the number of the topic's partitions is not known. Without serdes keys and values are
        bytes. :func:`streams.spark.write_topic` takes the frame as it is.

        :param key: reads the keys, as in :func:`streams.spark.read_topic`.
        :param value: the same for the values.
        :param structs: objects as structs, as in `read_topic`.
        :raises SparkBridgeError: if the topology writes no such topic, outputs were not kept, or objects cannot be
            structs.
        :raises DeserializationError: in the task, if a serde cannot read a record.
        """
        self._check_output(topic)
        files = self.files("record", lambda task: topic in task["counts"])
        found = self._frames.rows(files, OUTPUT, topic)
        if key is None and value is None:
            return found
        return self._frames.decoded(found, topic, columns_of_output(topic, key, value, structs=structs))

    def _check_output(self, topic: str) -> None:
        known = {name for stage in self.stages for task in stage.tasks for name in task["counts"]}
        if self.options["outputs"] == "none":
            raise SparkBridgeError("the backfill ran with outputs='none', so it has tables only", topic=topic)
        if topic not in known and topic not in self.options["written"]:
            raise SparkBridgeError(
                f"the backfill wrote nothing to topic {topic!r}{_nearest(topic, self.options['written'])}", topic=topic
            )

    def table(
        self, store: str, *, raw: bool = False, structs: bool = False, expired_windows: bool | None = None
    ) -> Any:
        """Returns the table of a store at the end of the history, with the columns of :func:`streams.spark.read_table`
        except ``changelog_offset``.

        Tables of windows and sessions have those of the whole history, also those that a live store has dropped since.

        :param raw: keys and values as bytes.
        :param structs: keys and values as structs, as in `read_topic`.
        :param expired_windows: ``False`` leaves out windows and sessions whose retention is over, as a live store and
            ``read_table`` do; ``True`` also gives keys whose time to live is over.
        :raises SparkBridgeError: if there is no such store, its rows are not kept, they are not columns, or not
            structs.
        """
        self.changelog(store)
        layout = table_layout(self._config, self._topology, store, raw=raw, structs=structs)
        expired = bool(layout.form.tail_bytes) if expired_windows is None else expired_windows
        return self._frames.table(self.changelog_rows(store), layout, expired=expired)

    def write_delta(self, store: str, path: str | os.PathLike[str]) -> int:
        """Replaces the rows of a Delta table with the table of a store; returns the new version, whose metadata has the
        position of the result as ``streams.position``. The table goes through the memory of this process. Needs the
        extra ``delta``.

        :param path: the directory of the Delta table, which is made if it is not there.
        :raises SparkBridgeError: if there is no such store, or the library is not installed.
        """
        return write_delta(self._frames.arrow(self.table(store)), path, self.position.to_json())

    def write_iceberg(self, store: str, table: Any) -> int:
        """Replaces the rows of an Iceberg table with the table of a store; returns the id of the new snapshot, whose
        properties have the position of the result as ``streams.position``. The table goes through the memory of this
        process. Needs the extra ``iceberg``.

        :param table: a table of pyiceberg with the columns of :meth:`table`.
        :raises SparkBridgeError: if there is no such store.
        """
        return write_iceberg(self._frames.arrow(self.table(store)), table, self.position.to_json())

    def diff(
        self, store: str, live: DataFrame, *, expired_windows: bool = False, positions: str = "check"
    ) -> DataFrame:
        """Compares the table of a store with that of the live application (:func:`streams.spark.read_table`).

        Of a versioned store the latest versions are compared, or all of them if the live table was read with
        ``versions="all"``.

        :param live: the live table; it is of the records of the history if the application has processed these and no
            others (:func:`streams.spark.position_of`).
        :param expired_windows: whether to compare all windows and sessions; read the live table with the same. Those
            that its changelog no longer has are ``only_backfill`` then. Without it both tables have those that
            a live store shows, the last ones.
        :param positions: ``"check"`` refuses tables of other records, where the positions of both are known;
            ``"ignore"`` compares them.
        :returns: a row for each key that differs: ``difference`` (``only_backfill``, ``only_live`` or ``different``),
            and both rows in the columns ``backfill`` and ``live``.
        :raises PositionError: if the two are not of the same records; the message says by how much.
        :raises SparkBridgeError: if the tables have other columns; read both with the same serdes, or both raw.
        """
        if positions not in ("check", "ignore"):
            raise SparkBridgeError(f"positions is 'check' or 'ignore', not {positions!r}", store=store)
        if isinstance(self._frames, ArrowFrames):
            raise SparkBridgeError(
                "tables are compared by Spark: load this result with BackfillResult.load(spark, run_dir, topology)"
            )
        from streams.spark.tables.diff import check_positions, diff_tables, has_structs
        from streams.spark.tables.known import known_of

        if positions == "check":
            check_positions(self.position, live)
        raw = dict(live.dtypes).get("key") == "binary" and dict(live.dtypes).get("value") == "binary"
        layout = table_layout(self._config, self._topology, store, raw=raw)
        own = self.table(store, raw=raw, structs=has_structs(live, layout), expired_windows=expired_windows)
        names = ("backfill", "live")
        if layout.form is ChangelogForm.VERSIONS and known_of(live).versions != "all":
            own, live = (df.where(df["valid_to"].isNull()) for df in (own, live))
            return diff_tables(own, live, keys=("partition", "key"), values=("value", "valid_from"), names=names)
        values = [name for name in ("value", "timestamp", "valid_to") if name in own.columns]
        keys = ("partition", *layout.key_columns)
        return diff_tables(own, live, keys=keys, values=values, names=names)

    def publish_corrections(
        self,
        store: str,
        rows: DataFrame | pa.Table | None,
        config: ClusterConfig,
        *,
        topic: str | None = None,
        dry_run: bool = True,
        positions: str = "check",
    ) -> CorrectionsReport:
        """Writes the corrected values of a live table to its topic, each record once; only a dry run by default.

        The rows of :meth:`diff`, all of them or some, become records as the sink of the table writes them: with its
        serdes and partitioner, keys in windows among them. A record has the time of the corrected row. A key that only
        the live table has gets a null value, and the time of the live row.

        Rows with the columns ``key`` and ``value`` are records as the topic has them, a null value deletes the key.
        They may have a ``timestamp`` (without one, the time of the call) and ``headers``. Give them where the topology
        converts the table's rows before the sink. Without Spark they are a table of Arrow.

        The records are kept in the run directory and sent in transactions. A call that was killed is continued by the
        next call with the same rows, or with ``None``; a repeated call after success writes nothing.

        :param store: the table that is corrected.
        :param rows: the rows to publish; ``None`` continues with those that an earlier call did not complete.
        :param config: the configuration of the live application, or the address of its brokers; its application id is
            that of the backfill unless it has another one.
        :param topic: the topic to write to; by default the only one that the table is written to directly.
        :param dry_run: whether to write nothing, and to return what would be written.
        :param positions: ``"check"`` rejects corrections if the application has processed other records than the
            result; ``"ignore"`` publishes them, so that they may replace later values.
        :returns: how many records there are, how many are tombstones, and how many this call wrote.
        :raises PositionError: if the application has processed other records than the result.
        :raises UnknownPartitionCount: if the topic does not exist.
        :raises RunDirConflict: if another call publishes corrections of this result, or has begun with other rows.
        :raises SparkBridgeError: if no topic or several could be meant, or the topic has other rows than the table.
        """
        from streams.spark.corrections.publish import CorrectedTable, publish_corrections

        table = CorrectedTable(store, self._directory, self._topology, self._config)
        settings = cluster_settings(config, self.application_id)
        return publish_corrections(table, rows, settings, topic=topic, dry_run=dry_run, positions=positions)

    def changelog_rows(self, store: str) -> Any:
        """Returns the last record of each key of a store's changelog, as bytes: columns ``partition``, ``seq``,
        ``key``, ``value``, ``ts`` in ms, ``headers``. Versioned stores have each version.

        :raises SparkBridgeError: if there is no such store, or its rows are not kept.
        """
        changelog = self.changelog(store)
        return self._frames.state(
            [
                one
                for stage in self.stages
                if any(changelog in task["checksums"] for task in stage.tasks)
                for one in state_files(self._directory.stage_path(stage.stage), stage.tasks)
            ],
            changelog,
        )

    def changelog(self, store: str) -> str:
        """Returns the name of the changelog of a store; of a store without one, the name that it would have.

        :raises SparkBridgeError: if there is no such store, or its rows are not kept.
        """
        stores: Mapping[str, str | None] = self.options["changelogs"]
        if store not in stores:
            raise SparkBridgeError(f"the topology has no store {store!r}{_nearest(store, stores)}", store=store)
        changelog = stores[store]
        if changelog is None or not any(changelog in task["checksums"] for one in self.stages for task in one.tasks):
            raise SparkBridgeError(
                f"store {store!r} has no changelog, and its rows cannot be read from the store, so a backfill does not"
                " keep them: read the topic that fills it, or turn its logging on",
                store=store,
            )
        return changelog

    def dead_letters(self) -> Any:
        """Returns the records that could not be read or processed: columns ``partition`` (of the task), ``key``,
        ``value``, ``timestamp``, ``headers``, which name the error and the place."""
        return self._frames.renamed(self._frames.rows(self.files("error"), LETTERS), "upstream", "partition")

    @property
    def fingerprint(self) -> str:
        """A text that two results have in common if their tables are the same."""
        checksums = [[task["checksums"] for task in stage.tasks] for stage in self.stages]
        return sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()

    def files(self, kind: str, wanted: Callable[[Mapping[str, Any]], bool] = lambda task: True) -> tuple[str, ...]:
        """Returns the files of a kind, ``"record"`` or ``"error"``.

        :param wanted: asked with the tasks of a stage; a stage none of whose tasks is wanted is left out.
        """
        return tuple(
            str(self._directory.stage_path(stage.stage) / name)
            for stage in self.stages
            if any(map(wanted, stage.tasks))
            for task in stage.tasks
            for name in task["files"]
            if name.startswith(f"kind={kind}/")
        )

    def files_by_task(self) -> dict[int, tuple[StateFiles, ...]]:
        """Returns the files with rows of changelogs by the number of the task of Spark that wrote them."""
        found: dict[int, tuple[StateFiles, ...]] = {}
        for stage in self.stages:
            for task in stage.tasks:
                own = state_files(self._directory.stage_path(stage.stage), [task])
                found[task["partition"]] = (*found.get(task["partition"], ()), *own)
        return found

    def earlier_task(self, subtopology: int, partition: int) -> EarlierTask:
        """Returns what a task of the next run can continue with."""
        ((directory, task),) = (
            (self._directory.stage_path(stage.stage), task)
            for stage in self.stages
            for task in stage.tasks
            if (task["subtopology"], task["partition"]) == (subtopology, partition)
        )
        return EarlierTask.of(directory, task)

    @property
    def topology_fingerprint(self) -> str:
        """A text that two results have in common if their topologies have the same nodes, stores and topics."""
        run = self._directory.read_run()
        assert run is not None
        return str(run["topology"])

    def global_files(self, topic: str) -> tuple[str, ...]:
        """Returns the files with the records of a topic that fills a global store."""
        topics = list(dict.fromkeys(store.topic for store in self._topology.global_stores.values()))
        if topic not in topics:
            return ()
        directory = self._directory.global_path(topics.index(topic))
        found = self._directory.done(directory)
        return () if found is None else files_of(directory, found)

    def _repr_html_(self) -> str:
        columns = ("stage", "records", "dropped", "holes", "written", "seconds")
        rows = [
            (one.stage, one.rows, one.dropped, one.gaps, sum(one.counts.values()), f"{one.duration_ms / 1000:.1f}")
            for one in self.stages
        ]
        return html_table(f"backfill of {self.application_id} in {self.run_dir}", columns, rows)

    def __repr__(self) -> str:
        return f"<BackfillResult of {self.application_id!r} in {self.run_dir}: {len(self.stages)} stages>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))


def stage_report(manifest: Mapping[str, Any], *, resumed: bool) -> StageReport:
    """Returns the report of a stage from the list of what it wrote."""
    subtopology = manifest["subtopology"]
    numbers = tuple(subtopology) if isinstance(subtopology, list) else (subtopology,)
    latest = tuple(tuple(one) for one in manifest.get("latest", ()))
    return StageReport(manifest["stage"], numbers, tuple(manifest["tasks"]), manifest["duration_ms"], resumed, latest)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(name, names)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; there are {', '.join(map(repr, names))}" if names else ""
