"""Runs a topology over history, stage by stage, in Spark.

Each Kafka partition of a subtopology is one Spark task, which runs the live application's own task over the rows of
that partition, in the order in which live would have read them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from processor_api.clock import Clock, SystemClock
from processor_api.texts import repr_of
from processor_api.topology.nodes import SourceNode
from processor_api.topology.topology import Topology
from state.engine.spilling import ROWS_IN_MEMORY_BYTES
from streams.config import StreamsConfig
from streams.kafka.topics.internal import internal_topic_counts
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.runner.task_runner import kept_stores
from streams.spark.backfill.continuing import Continuation, Reading, continuation
from streams.spark.backfill.cut_check import check_cut, check_cut_by_time, raised
from streams.spark.backfill.engine import Attempt, BackfillEngine, InputRows, noted
from streams.spark.backfill.given_state import (
    GivenTable,
    earlier_highs,
    earlier_latest,
    earlier_state,
    given_rows,
    given_tables,
    write_given_rows,
)
from streams.spark.backfill.global_filling import FillingJob, earlier_global_rows, fill_globals, write_global_rows
from streams.spark.backfill.history import History, order_by_time
from streams.spark.backfill.local_engine import LocalEngine, processes_of
from streams.spark.backfill.result import BackfillResult, StageReport, stage_report
from streams.spark.backfill.stages import BackfillPlan, Stage, StageInput, plan_stages
from streams.spark.backfill.value_check import check_values
from streams.spark.errors import SparkBridgeError, UnknownPartitionCount, UnsupportedForBackfill
from streams.spark.executor.global_tables import GlobalTables
from streams.spark.executor.prepared_history import Preparation
from streams.spark.executor.shipped_topology import ShippedTopology, checked_topology, dead_letter_topic, ship
from streams.spark.executor.stage_job import EarlierState, JobInput, StageJob
from streams.spark.executor.stage_task import run_attempt
from streams.spark.handover.cut import Cut
from streams.spark.notebook import html_table
from streams.spark.position import HistoryBatch, Position, end_of_run, identity
from streams.spark.rows.state_files import StateFiles
from streams.spark.runs.run_directory import VERSION, VERSION_WITHOUT_BASES, RunDirectory, files_of
from streams.spark.sources.ranges import OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("streams.spark")

Order = Literal["auto", "offset", "time"]


@dataclass(frozen=True, repr=False)
class Backfill:
    """Runs a topology over history.

    The topology is the live one, unchanged. Outputs and tables are those that a live application would have written,
    had it read the same records with all its inputs at hand; records of repartition topics are in one of the orders
    that live may have, always the same.

    :param spark: the session; its executors need this library. ``None`` for ``engine="local"``.
    :param topology: ``"module:function"``, or a function that makes a topology and may take the configuration.
    :param inputs: the history of each topic that the topology reads, repartition topics left out.
    :param application_id: the id of the live application: internal topics are named after it.
    :param run_dir: a directory that the driver and all executors can write to; stages that are complete are not run
        again.
    :param partitions: the number of partitions of each topic as Kafka has it, where the history does not know it; also
        of the topics that sinks write to, if the partitions of outputs matter.
    :param config: further settings of the application, such as default serdes.
    :param order: ``"offset"`` is the order of live: by offset within a partition, and the smallest timestamp first
        among several inputs. ``"time"`` is by timestamp alone. ``"auto"`` is by offset where there are offsets.
    :param wall_clock: ``"off"`` stops the wall clock at the time at which the run began, so that nothing is
        done by it; ``"event-time"`` moves it with the timestamps of the records.
    :param initial_state: the result of an earlier backfill of the same stores: tables begin with its tables, and the
        histories have to begin where it stands (:attr:`BackfillResult.position`); records that it has already are not
        processed again. Or tables by store, as ``read_table(..., raw=True)`` returns them, of
        key-value, window and session stores; times of partitions and operators begin with the history then.
    :param outputs: ``"all"`` keeps the records that sinks write, ``"none"`` keeps tables only, which is faster.
    :param on_cycle: ``"single_task"`` runs subtopologies that feed each other in one task, ``"error"`` refuses them.
    :param on_error: ``"fail"`` ends the backfill with the first record that cannot be read or processed,
        ``"dead_letter"`` sets such records aside; a handler in the configuration is not used then.
    :param cut: where live workers will begin, made before the history is read; it is kept with the run, so that
        :func:`streams.spark.bootstrap` takes it. Histories that go beyond it are refused.
    :param gaps: what to do where a history begins behind the offset at which ``initial_state`` stands: ``"refuse"``, or
        ``"allow"`` where no record is missing, since the topic is compacted or has transactions.
    :param engine: ``"spark"``; or ``"local"`` for processes of this machine, as many as it has cores, or
        ``"local[N]"``: histories and results are tables of Arrow then, and a partition whose rows have to be sorted has
        to fit into memory.
    :param overlaps: what to do where a history has records that are in ``initial_state``: ``"refuse"``, or ``"skip"``
        to leave out what comes before its offset, or is in its files: for histories that grow, such as a whole lake.
    :param state_bytes: the bytes of rows that a task's stores have in memory; of more rows all are on disk. With
        ``initial_state``, a task whose rows are on disk writes only those that change.
    :param flush_at_end: whether to send on, after the last record, what waits for later ones: suppressed changes, final
        results of windows that are open, records of joins that wait. For analyses: such a result is not handed over.
    """

    spark: SparkSession | None
    topology: str | Callable[..., Any]
    inputs: Mapping[str, History]
    _: KW_ONLY
    application_id: str
    run_dir: str | os.PathLike[str]
    partitions: Mapping[str, int] = field(default_factory=dict)
    config: StreamsConfig | Mapping[str, Any] = field(default_factory=dict)
    order: Order = "auto"
    wall_clock: Literal["off", "event-time"] = "off"
    initial_state: BackfillResult | Mapping[str, DataFrame] | None = None
    outputs: Literal["all", "none"] = "all"
    on_cycle: Literal["single_task", "error"] = "single_task"
    on_error: Literal["fail", "dead_letter"] = "fail"
    cut: Cut | None = None
    gaps: Literal["refuse", "allow"] = "refuse"
    overlaps: Literal["refuse", "skip"] = "refuse"
    flush_at_end: bool = False
    engine: str = "spark"
    state_bytes: int = ROWS_IN_MEMORY_BYTES

    def __post_init__(self) -> None:
        """Checks the options, and that the topology can be made.

        :raises SparkBridgeError: if an option is wrong, or the topology cannot be made or sent to the executors.
        """
        _check_choice("order", self.order, ("auto", "offset", "time"))
        _check_choice("wall_clock", self.wall_clock, ("off", "event-time"))
        _check_choice("outputs", self.outputs, ("all", "none"))
        _check_choice("on_cycle", self.on_cycle, ("single_task", "error"))
        _check_choice("on_error", self.on_error, ("fail", "dead_letter"))
        _check_choice("gaps", self.gaps, ("refuse", "allow"))
        _check_choice("overlaps", self.overlaps, ("refuse", "skip"))
        self._check_engine()
        if self.flush_at_end and self.cut is not None:
            raise UnsupportedForBackfill(
                "flush_at_end with a cut: a result whose windows were closed early cannot be handed over to live"
                " workers. Leave out one of the two"
            )
        _ = self._directory, self._made

    def _check_engine(self) -> None:
        if processes_of(self.engine) is not None:
            if isinstance(self.initial_state, Mapping):
                raise UnsupportedForBackfill(
                    "initial_state as DataFrames needs Spark: give the result of an earlier backfill, or leave engine"
                    " out"
                )
            return
        if self.engine != "spark":
            raise SparkBridgeError(f"engine={repr_of(self.engine)}: it must be 'spark', 'local' or 'local[N]'")
        if self.spark is None:
            raise SparkBridgeError("there is no session: give one, such as local_session(), or say engine='local'")
        from streams.spark.session import is_connect

        if is_connect(self.spark):
            raise UnsupportedForBackfill(
                "a backfill does not run over Spark Connect: its driver writes the run directory that the executors"
                " share. Run it by spark-submit, or with a session whose master is the cluster's"
            )

    @property
    def _version(self) -> int:
        """The version of the run directory's format: earlier releases would not find rows that are in a base."""
        return VERSION if isinstance(self.initial_state, BackfillResult) else VERSION_WITHOUT_BASES

    @cached_property
    def _directory(self) -> RunDirectory:
        return RunDirectory(self.run_dir)

    @cached_property
    def _engine(self) -> BackfillEngine:
        processes = processes_of(self.engine)
        if processes is not None:
            return LocalEngine(processes)
        from streams.spark.backfill.spark_engine import SparkEngine

        assert self.spark is not None
        return SparkEngine(self.spark)

    @cached_property
    def _shipped(self) -> ShippedTopology:
        return ship(self.topology, self.application_id, self.config, dead_letters=self.on_error == "dead_letter")

    @cached_property
    def _made(self) -> Topology:
        return checked_topology(self._shipped)

    @cached_property
    def _clock(self) -> Clock:
        return SystemClock()

    @cached_property
    def _histories(self) -> dict[str, History]:
        """The histories, those of Kafka with the offsets that this run reads, each time that it continues."""
        kept = self._directory.pins()
        return {topic: self._pinned(topic, one, kept.get(topic)) for topic, one in self.inputs.items()}

    def _pinned(self, topic: str, history: History, kept: OffsetRanges | None) -> History:
        if not history.is_open:
            was = self._begin.topics.get(topic)
            if self.overlaps == "refuse" or was is None or self._has_offsets(topic):
                return history
            return history.without_files({name for one in was.batches for name in one.source.get("files", ())})
        if kept is not None:
            return history.pinned_to(kept)
        fills_global = topic in self._filling
        before = (
            {}
            if fills_global
            else {place.partition: at for place, at in self._begin.offsets().items() if place.topic == topic}
        )
        until = {} if self.cut is None or self.cut.skip_before_ms is not None else self.cut.offsets
        ends = {
            place.partition: max(at, before.get(place.partition, 0))
            for place, at in until.items()
            if place.topic == topic
        }
        return history.pinned_to(start=before, end=ends) if before or ends else history

    @cached_property
    def _filling(self) -> frozenset[str]:
        """The topics that fill global stores."""
        return frozenset(store.topic for store in self._made.global_stores.values())

    @property
    def _begin(self) -> Position:
        """The position of the state that the backfill begins with."""
        given = self.initial_state
        return given.position if isinstance(given, BackfillResult) else Position(self.application_id)

    @cached_property
    def _batches(self) -> dict[str, HistoryBatch]:
        """The records that are read of each topic; this runs a job for each that is not a range of Kafka's offsets."""
        return {topic: self._batch(topic, history) for topic, history in self._histories.items()}

    def _batch(self, topic: str, history: History) -> HistoryBatch:
        source, pinned = identity(history.source()), history.pinned()
        if pinned is not None:
            ranges = [one for one in pinned.ranges if one.start < one.end]
            begins = {one.partition: one.start for one in ranges}
            return HistoryBatch(source, begins, {one.partition: one.end for one in ranges})
        if not self._has_offsets(topic):
            return HistoryBatch(source)
        return HistoryBatch(source, *self._engine.first_and_last(self._given_rows(topic, self._counts().get(topic))))

    @cached_property
    def _continued(self) -> Continuation:
        """The way in which the backfill continues with its initial state."""
        if not isinstance(self.initial_state, BackfillResult):
            return Continuation()
        counts = self._counts()
        readings = {
            topic: Reading(
                batch,
                self._has_offsets(topic),
                counts[topic],
                (pinned.topic_ids if (pinned := self._histories[topic].pinned()) else {}).get(topic),
            )
            for topic, batch in self._batches.items()
        }
        return continuation(self._begin, readings, self._filling, allow_gaps=self.gaps == "allow")

    @cached_property
    def _checked_cut(self) -> str | None:
        """The cut as text, after the histories were compared with it."""
        if self.cut is None:
            return None
        histories = {topic: one for topic, one in self._histories.items() if topic not in self._filling}
        cut = raised(self.cut, self._begin, self._batches) if self._begin.topics else self.cut
        if cut.skip_before_ms is None:
            check_cut(cut, histories, self._batches, self._counts())
        else:
            rows = {topic: self._given_rows(topic, None) for topic in histories}
            check_cut_by_time(cut, rows, self._counts(), self._engine)
        return cut.to_json()

    @property
    def _settings(self) -> StreamsConfig:
        return self._shipped.config

    def _repr_html_(self) -> str:
        rows = [(topic, type(one.df).__name__, one.name or "") for topic, one in self.inputs.items()]
        caption = f"backfill of {self.application_id} in {os.fspath(self.run_dir)}"
        return html_table(caption, ("topic", "history", "name"), rows)

    def cancel(self) -> None:
        """Ends a :meth:`run` in another thread.

        That raises `BackfillCancelled` when no part of it runs. The tasks that were done are kept: another run
        continues.
        """
        self._engine.cancel()

    # ------------------------------------------------------------------ plan

    def _earlier(self, given: BackfillResult, stage: Stage) -> EarlierState:
        return earlier_state(given, stage, self._shipped.fingerprint(self._made))

    def plan(self) -> BackfillPlan:
        """Returns the stages. Reads no data, except the offsets or times of histories that are compared with a cut.

        :raises SparkBridgeError: if the backfill cannot run: one of its subclasses says why.
        """
        counts = self._counts()
        stages = plan_stages(self._made, self._settings.dotted(), self.inputs, counts, on_cycle=self.on_cycle)
        _ = self._checked_histories
        for stage in stages:
            self._check_extractors(stage)
            if isinstance(self.initial_state, BackfillResult):
                self._earlier(self.initial_state, stage)
        self._given(stages)
        _ = self._continued, self._checked_cut
        globals_ = self._global_topics
        orders = {topic: "time" if order_by_time(one, self.order) else "offset" for topic, one in self.inputs.items()}
        notes = tuple(note for topic, one in self.inputs.items() if (note := one.unread(topic)) is not None)
        found = self._continued
        all_notes = (*notes, *found.notes)
        return BackfillPlan(self.application_id, stages, globals_, orders, all_notes, found.is_new)

    @cached_property
    def _checked_histories(self) -> dict[str, History]:
        """The histories, once their columns, their files and the types of their values have been checked."""
        for topic, history in self._histories.items():
            history.check(topic)
            check_values(topic, history, self._made, self._settings)
            if self.order == "offset" and history.offset is None:
                raise UnsupportedForBackfill(
                    f"order='offset' needs offsets, and the history of topic {topic!r} has none: say order='time', or"
                    " give History(offset=...)",
                    topic=topic,
                )
        return self._histories

    @property
    def _global_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(store.topic for store in self._made.global_stores.values()))

    def _given(self, stages: Iterable[Stage]) -> list[GivenTable]:
        """Returns the tables that stores begin with, if they are given as DataFrames."""
        if self.initial_state is None or isinstance(self.initial_state, BackfillResult):
            return []
        return given_tables(self.initial_state, stages, self._made, self._settings)

    def _counts(self) -> dict[str, int]:
        counts = {topic: one.partitions for topic, one in self.inputs.items() if one.partitions is not None}
        for topic, count in self.partitions.items():
            if type(count) is not int or count < 1:
                raise UnknownPartitionCount(
                    f"partitions={{{topic!r}: {repr_of(count)}}}: it must be a number from 1", topic=topic
                )
            if counts.setdefault(topic, count) != count:
                raise UnknownPartitionCount(
                    f"topic {topic!r} has {counts[topic]} partitions by its history and {count} by partitions=:"
                    " give the number that it has in Kafka",
                    topic=topic,
                )
        for store in self._made.global_stores.values():
            counts.setdefault(store.topic, 1)
        return counts

    def _check_extractors(self, stage: Stage) -> None:
        """Refuses extractors where the order of a stage's records depends on the times they give."""
        if len(stage.inputs) < 2 and all(one.stage is not None or self._by_offset(one.topic) for one in stage.inputs):
            return
        for plan in stage.plans:
            for topic, name in plan.topics.items():
                node = plan.topology.nodes[name]
                assert isinstance(node, SourceNode)
                given = node.timestamp_extractor or self._settings.default_timestamp_extractor
                if given is not None and topic not in stage.looped and topic not in plan.repartition_topics:
                    raise UnsupportedForBackfill(
                        f"source {name!r} has a timestamp extractor, and the order of live would follow its times: it"
                        " cannot be known before the records are read. Put the extracted time into the history's"
                        " timestamp column and leave the extractor out",
                        node=name,
                        topic=topic,
                        **plan.topology.origin_of(name),
                    )

    def _by_offset(self, topic: str) -> bool:
        return not order_by_time(self.inputs[topic], self.order)

    # ------------------------------------------------------------------ run

    def run(self, *, resume: bool = True) -> BackfillResult:
        """Runs the stages that are not complete, and returns the result.

        :param resume: whether to keep the stages that an earlier run has completed.
        :raises RunDirConflict: if the run directory holds another backfill.
        :raises SparkBridgeError: if the backfill cannot run, or a task fails; what the tasks raise is raised here.
        """
        plan = self.plan()
        if not resume:
            self._directory.forget()
            return replace(self).run()  # which pins the offsets of histories again
        self._engine.begin()
        started_ms = self._directory.begin(self._wanted(plan), now_ms=self._clock.time_ms(), version=self._version)
        try:
            initial = self._initial_files(plan.stages)
            reports: list[StageReport] = []
            for stage in plan.stages:
                found = self._directory.done(self._directory.stage_path(stage.number))
                if found is not None:
                    reports.append(stage_report(found, resumed=True))
                else:
                    tables = self._global_tables(plan.global_topics, started_ms)
                    reports.append(self._run_stage(stage, reports, tables, initial, started_ms))
            self._finish(plan, reports)
            return BackfillResult(self.spark, self._directory, self._made, self._settings, reports)
        finally:
            self._directory.release()

    def _finish(self, plan: BackfillPlan, reports: Iterable[StageReport]) -> None:
        """Writes where the result stands.

        :raises RunDirConflict: if the files of a history have changed meanwhile.
        """
        run = self._directory.read_run()
        assert run is not None
        now = {topic: history.description() for topic, history in self._histories.items()}
        self._directory.check_unchanged(run, {"inputs": now})
        globals_ = [
            task
            for number, _ in enumerate(plan.global_topics)
            for task in (self._directory.done(self._directory.global_path(number)) or {"tasks": ()})["tasks"]
        ]
        tasks = [task for report in reports for task in report.tasks]
        self._directory.finish(end_of_run(run, [*tasks, *(place for one in globals_ for place in one["places"])]))

    def _wanted(self, plan: BackfillPlan) -> dict[str, Any]:
        """Returns what is run, as data: two runs with the same data give the same result."""
        stores: dict[str, str | None] = dict.fromkeys(self._made.stores)
        for stage in plan.stages:
            for each in stage.plans:
                stores.update({**each.changelogs, **kept_stores(each)})
        return {
            "application_id": self.application_id,
            "topology": self._shipped.fingerprint(self._made),
            "inputs": {topic: history.description() for topic, history in self._histories.items()},
            "begin": self._begin.data() if self._begin.topics else None,
            "applied": list(self._continued.applied),
            "whole": list(self._continued.whole),
            "options": {
                "order": self.order,
                "wall_clock": self.wall_clock,
                "initial_state": self._described_state(plan.stages),
                "overlaps": self.overlaps,
                "outputs": self.outputs,
                "on_error": self.on_error,
                "flush_at_end": self.flush_at_end,
                "cache_bytes": self._settings.statestore_cache_max_bytes,
                "default_serdes": [
                    None if one is None else one.name
                    for one in (self._settings.default_key_serde, self._settings.default_value_serde)
                ],
                "partitions": self._counts(),
                "written": sorted({topic for stage in plan.stages for topic in stage.topics_written}),
                "changelogs": stores,
            },
            "cut": None if self._checked_cut is None else json.loads(self._checked_cut),
            "stages": len(plan.stages),
        }

    def _described_state(self, stages: Iterable[Stage]) -> Any:
        """Returns data that two initial states have in common if they are the same, as far as that can be known."""
        if isinstance(self.initial_state, BackfillResult):
            return self.initial_state.fingerprint
        return {one.topic: dict(one.history.description()) for one in self._given(stages)} or None

    def _initial_files(self, stages: Iterable[Stage]) -> EarlierState | None:
        """Returns the state that stores begin with, if it is given as DataFrames; writes it if it is not there."""
        tables = self._given(stages)
        if not tables:
            return None
        path = self._directory.initial_path()

        def make() -> dict[str, Any]:
            counts = {one.topic: one.partitions for one in tables}
            write = write_given_rows(counts, str(self._directory.attempts_path(path)))
            return {"tasks": self._run(write, "the initial state", max(counts.values()), [given_rows(tables)])}

        files = {task["partition"]: (StateFiles.of(path, task),) for task in self._directory.once(path, make)["tasks"]}
        given = {one.topic: one.topic for one in tables}
        plans = [plan for stage in stages for plan in stage.plans]
        return EarlierState({plan.subtopology: _of_plan(plan, given) for plan in plans}, files, {})

    def _global_files(self, number: int, topic: str) -> tuple[str, ...]:
        """Returns files with the records of a topic that fills a global store; writes them if they are not there."""
        path = self._directory.global_path(number)

        def make() -> dict[str, Any]:
            rows = [self._history_rows(topic, None)]
            attempts = self._directory.attempts_path(path)
            write = write_global_rows(
                topic, str(attempts), has_offsets=self._has_offsets(topic), guesses_unit=self.inputs[topic].guesses_unit
            )
            tasks = self._run(write, f"global topic {topic!r}", 1, rows, in_one_task=True)
            given = self.initial_state
            if isinstance(given, BackfillResult) and topic not in self._continued.whole:
                tasks = [*earlier_global_rows(given.global_files(topic), attempts), *tasks]
            return {"topic": topic, "tasks": tasks}

        return files_of(path, self._directory.once(path, make))

    def _global_tables(self, topics: Sequence[str], started_ms: int) -> GlobalTables | None:
        """Returns the filled global stores as files; fills them if they are not there."""
        if not topics:
            return None
        path = self._directory.global_tables_path()

        def make() -> dict[str, Any]:
            job = FillingJob(
                shipped=self._shipped,
                topics={topic: self._global_files(number, topic) for number, topic in enumerate(topics)},
                attempts=str(self._directory.attempts_path(path)),
                start_ms=0 if self.wall_clock == "event-time" else started_ms,
            )
            return {"id": uuid4().hex, "tasks": self._run(fill_globals(job), "the global tables", 1)}

        return GlobalTables.of(path, self._directory.once(path, make))

    def _run_stage(
        self,
        stage: Stage,
        reports: list[StageReport],
        tables: GlobalTables | None,
        initial: EarlierState | None,
        started_ms: int,
    ) -> StageReport:
        path = self._directory.stage_path(stage.number)
        kept = self._directory.finished(path)
        begin = self._clock.monotonic()
        inputs = [self._input_rows(one, reports) for one in stage.inputs]
        given = self.initial_state
        earlier = self._earlier(given, stage) if isinstance(given, BackfillResult) else initial
        job = replace(self._job(stage, inputs), global_tables=tables, started_ms=started_ms, earlier=earlier)
        attempt = noted(partial(run_attempt, job), job.attempts)
        what, in_one_task = f"stage {stage.number}", bool(stage.looped)
        tasks = self._run(attempt, what, stage.spark_tasks, inputs, in_one_task=in_one_task, kept=kept)
        self._check_read_again(stage, tasks)
        manifest = {
            "stage": stage.number,
            "subtopology": stage.subtopologies[0] if len(stage.subtopologies) == 1 else list(stage.subtopologies),
            "duration_ms": int(1000 * (self._clock.monotonic() - begin)),
            "latest": self._latest(job, tasks),
            "tasks": tasks,
        }
        return stage_report(self._directory.complete(path, manifest), resumed=False)

    def _run(
        self,
        attempt: Attempt,
        what: str,
        tasks: int,
        inputs: Sequence[InputRows] = (),
        *,
        in_one_task: bool = False,
        kept: Mapping[int, list[dict[str, Any]]] | None = None,
    ) -> list[dict[str, Any]]:
        """Runs tasks, and returns their reports by partition.

        :param kept: the reports of tasks that an earlier run has finished.
        """
        kept = kept or {}
        if kept:
            log.info("backfill: %s goes on, %d of %d tasks are done", what, len(kept), tasks)
        found = [report for reports in kept.values() for report in reports]
        found += self._engine.run(attempt, what, tasks, inputs, in_one_task=in_one_task, done=frozenset(kept))
        return sorted(found, key=lambda task: (task["partition"], task.get("subtopology")))

    def _check_read_again(self, stage: Stage, tasks: list[dict[str, Any]]) -> None:
        """Refuses records for topics that the topology reads and that only a function named: no stage reads them."""
        found = {topic for task in tasks for topic in task["counts"]} - stage.topics_written
        for topic in sorted(found.intersection(self.inputs)):
            raise UnsupportedForBackfill(
                f"a sink whose topic is named by a function wrote to {topic!r}, which the topology reads again: such"
                " records would not be read. Name the topic at the sink",
                topic=topic,
            )

    def _input_rows(self, one: StageInput, reports: list[StageReport]) -> InputRows:
        rows = self._rows_of(one, reports)
        given = self.initial_state
        if not isinstance(given, BackfillResult):
            return rows
        return replace(rows, highs=earlier_highs(given, rows, self.application_id))

    def _latest(self, job: StageJob, tasks: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, int, int]]:
        """Returns the largest timestamps of what a stage wrote for later ones, those of earlier runs included."""
        given = self.initial_state
        before = earlier_latest(given, self.application_id) if isinstance(given, BackfillResult) else {}
        found = {place: ts for place, ts in before.items() if place[0] in job.read_again}
        for topic, writer, partition, ts in (one for task in tasks for one in task.get("latest", ())):
            place = topic, writer, partition
            found[place] = max(ts, found.get(place, ts))
        return [(*place, ts) for place, ts in sorted(found.items())]

    def _rows_of(self, one: StageInput, reports: list[StageReport]) -> InputRows:
        if one.stage is None:
            return self._history_rows(one.topic, one.partitions)
        report = reports[one.stage]
        files = [name for task in report.tasks for name in task["files"] if name.startswith("kind=record/")]
        root = self._directory.stage_path(one.stage)
        writers = sum(one.topic in task["counts"] for task in report.tasks)
        return self._engine.written_rows(one.topic, [str(root / name) for name in files], max(1, writers))

    def _history_rows(self, topic: str, partitions: int | None) -> InputRows:
        """Returns the rows of a history that are processed; none if they are in the initial state already."""
        found = self._given_rows(topic, partitions)
        return self._engine.none_of(found) if topic in self._continued.applied else found

    def _given_rows(self, topic: str, partitions: int | None) -> InputRows:
        """Returns the rows of a history as bytes.

        :param partitions: how many the topic has; ``None`` if it does not matter where a record is.
        """
        history = self._histories[topic]
        found = self._engine.history_rows(topic, history, by_offset=self._by_offset(topic))
        was = self._begin.topics.get(topic)
        skips = self.overlaps == "skip" and was is not None and self._has_offsets(topic)
        place = history.partition is None and partitions is not None
        check = history.check_keys and history.partition is not None and partitions is not None
        if not history.encoded or place or check:
            job = Preparation(self._shipped, topic, partitions or 1, not history.encoded, place, check)
            found = self._engine.prepared(found, job)
        if skips and history.pinned() is None:
            assert was is not None
            begins = {number: one.read_to for number, one in was.partitions.items() if one.read_to}
            found = self._engine.behind(found, begins)
        return found

    def _job(self, stage: Stage, inputs: list[InputRows]) -> StageJob:
        counts = self._counts()
        internal = internal_topic_counts(self._made, self._settings.dotted(), counts)
        nodes = list(self._made.nodes)
        order = {topic: nodes.index(source) for plan in stage.plans for topic, source in plan.topics.items()}
        return StageJob(
            shipped=self._shipped,
            stage=stage.number,
            subtopologies=stage.subtopologies,
            looped=tuple(sorted(stage.looped, key=order.__getitem__)),
            inputs=tuple(map(self._job_input, stage.inputs)),
            counts=counts,
            written_counts={**counts, **internal},
            attempts=str(self._directory.attempts_path(self._directory.stage_path(stage.number))),
            read_again=stage.topics_written.intersection(self._read_topics) - stage.looped,
            kept_outputs=None if self.outputs == "all" else self._needed_outputs(),
            wall_clock=self.wall_clock,
            state_bytes=self.state_bytes,
            flush_at_end=self.flush_at_end,
        )

    def _job_input(self, one: StageInput) -> JobInput:
        if one.stage is not None:
            return JobInput(one.topic, one.partitions, False, one.stage)
        return JobInput(
            one.topic, one.partitions, self._has_offsets(one.topic), guesses_unit=self.inputs[one.topic].guesses_unit
        )

    def _has_offsets(self, topic: str) -> bool:
        return self.inputs[topic].offset is not None and self._by_offset(topic)

    @cached_property
    def _read_topics(self) -> frozenset[str]:
        return frozenset(one.topic for stage in self.plan().stages for one in stage.inputs if one.stage is not None)

    def _needed_outputs(self) -> frozenset[str]:
        """Returns the topics that the topology reads again, and that of dead letters."""
        stages = self.plan().stages
        read = {one.topic for stage in stages for one in stage.inputs if one.stage is not None}
        looped = {topic for stage in stages for topic in stage.looped}
        return frozenset({*read, *looped, dead_letter_topic(self.application_id)})


def _of_plan(plan: TaskPlan, topics: Mapping[str, str]) -> dict[str, str]:
    """Returns those of some changelogs that are of the stores of a subtopology."""
    own = {**plan.changelogs, **kept_stores(plan)}.values()
    return {topic: there for topic, there in topics.items() if topic in own}


def _check_choice(name: str, given: Any, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise SparkBridgeError(f"{name}={repr_of(given)}: it must be {' or '.join(map(repr, choices))}")
