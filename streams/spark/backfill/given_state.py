"""The state that a backfill begins with: tables that are given as DataFrames, or the end of another backfill.

Tables are written as the rows of changelogs first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from processor_api.topology.topology import Topology
from state.write_buffer.changelog_form import ChangelogForm
from streams.config import StreamsConfig
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.runner.task_runner import kept_stores, saved_families
from streams.spark import errors
from streams.spark.backfill.engine import Attempt, InputRows
from streams.spark.backfill.history import HEADERS, History
from streams.spark.backfill.result import BackfillResult
from streams.spark.backfill.stages import Stage
from streams.spark.executor.rows import RowWriter
from streams.spark.executor.stage_job import EarlierState, TaskTimes
from streams.spark.executor.task_errors import Batches
from streams.spark.rows.state_files import COLUMNS
from streams.spark.rows.store_layouts import table_layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_TIMES = {
    ChangelogForm.WINDOWS: ("window_start",),
    ChangelogForm.SESSIONS: ("window_start", "window_end"),
}
"""The columns of times that the table of a store of windows or sessions has to have."""


class GivenTable:
    """The table of one store, checked: a DataFrame as ``read_table(..., raw=True)`` returns it.

    :raises SparkBridgeError: if it cannot be the beginning of the store; one of its subclasses says why.
    """

    def __init__(self, store: str, topic: str, partitions: int, form: ChangelogForm, df: DataFrame) -> None:
        self.topic = topic
        self.partitions = partitions
        self._form = form
        columns = dict(df.dtypes)
        self.history = History(df, offset=None, headers="headers" if columns.get("headers") == HEADERS else None)
        try:
            self.history.check(topic)
        except errors.HistorySchemaError as error:
            raise errors.HistorySchemaError(
                f"initial_state of store {store!r} has other columns than its table: {error.message}. Give what"
                " read_table(..., raw=True) or BackfillResult.table(..., raw=True) returns",
                store=store,
            ) from error
        for name in _TIMES.get(form, ()):
            if columns.get(name) != "timestamp":
                raise errors.HistorySchemaError(
                    f"initial_state of store {store!r} has no column {name!r} of the type timestamp, which the table of"
                    f" a {form.of_stores} store has: give what read_table(..., raw=True) returns",
                    store=store,
                )

    def rows(self) -> DataFrame:
        """Returns the rows of the changelog: ``topic``, ``pid``, ``key``, ``value``, ``ts``, ``headers``."""
        from pyspark.sql import functions

        history = self.history
        df: DataFrame = history.df
        return df.select(
            functions.lit(self.topic).alias("topic"),
            history.column("partition", "int").cast("int").alias("pid"),
            functions.expr(self._key()).alias("key"),
            history.column("value", "binary").alias("value"),
            history.time_column().alias("ts"),
            history.column("headers", HEADERS).alias("headers"),
            functions.lit(0).alias("upstream"),
            functions.lit(0).cast("bigint").alias("seq"),
        )

    def _key(self) -> str:
        """Returns the expression of the changelog's key (formats 9); times in keys are never negative."""
        if self._form is ChangelogForm.KEYS:
            return "key"
        if self._form is ChangelogForm.SESSIONS:
            return f"concat(key, {_packed('unix_millis(window_end)', 8)}, {_packed('unix_millis(window_start)', 8)})"
        number = "sequence" if "sequence" in self.history.df.columns else "0"
        return f"concat(key, {_packed('unix_millis(window_start)', 8)}, {_packed(number, 4)})"


def _packed(number: str, size: int) -> str:
    return f"unhex(lpad(hex({number}), {2 * size}, '0'))"


def given_tables(
    given: Mapping[str, DataFrame], stages: Iterable[Stage], topology: Topology, config: StreamsConfig
) -> list[GivenTable]:
    """Returns the tables with which stores begin.

    :raises UnsupportedForBackfill: if the rows of a store cannot be made of a table.
    :raises HistorySchemaError: if a DataFrame lacks columns.
    :raises SparkBridgeError: if there is no such store.
    """
    own = {
        store: (topic, plan.tasks)
        for stage in stages
        for plan in stage.plans
        for store, topic in {**plan.changelogs, **kept_stores(plan)}.items()
    }
    found = []
    for store, df in given.items():
        if store not in own:
            near = get_close_matches(store, sorted(own), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(sorted(own)) or 'none'}"
            raise errors.SparkBridgeError(
                f"initial_state has no store {store!r} with a changelog of its own to fill{hint}"
            )
        form = table_layout(config, topology, store, raw=True).form
        if form not in (ChangelogForm.KEYS, ChangelogForm.WINDOWS, ChangelogForm.SESSIONS):
            raise errors.UnsupportedForBackfill(
                f"the store {store!r} cannot begin with a DataFrame, since its table is not all that its changelog has:"
                " give the result of an earlier backfill as initial_state",
                store=store,
            )
        found.append(GivenTable(store, *own[store], form, df))
    return found


def given_rows(tables: list[GivenTable]) -> InputRows:
    """Returns the rows of all tables."""
    together = reduce(lambda first, second: first.unionByName(second), [one.rows() for one in tables])
    return InputRows("the initial state", together, 1, True, True)


def write_given_rows(tables: Mapping[str, int], attempts: str) -> Attempt:
    """Returns the function of the tasks that write the rows of changelogs.

    :param tables: the number of partitions of each changelog.
    :param attempts: the directory in which each attempt makes its own.
    """

    def write(partition: int, attempt: int, batches: Batches) -> list[dict[str, Any]]:
        name = f"p{partition}-a{attempt}"
        counts = dict.fromkeys(tables, 0)
        with closing(RowWriter(Path(attempts) / name)) as writer:
            for batch in batches:
                for topic in pc.unique(batch.column("topic")).to_pylist():
                    own = batch.filter(pc.equal(batch.column("topic"), topic))
                    _check(own, topic, partition, tables[topic])
                    own = own.filter(pc.is_valid(own.column("value")))
                    writer.write("state", _state_rows(own, partition, counts[topic]))
                    counts[topic] += own.num_rows
            files = [f"{name}/{kind}.parquet" for kind in writer.finish()]
        return [{"partition": partition, "attempt": attempt, "files": files, "counts": counts}]

    return write


def _check(rows: pa.RecordBatch, topic: str, partition: int, count: int) -> None:
    numbers = rows.column("pid")
    if numbers.null_count or pc.min_max(numbers).as_py() != {"min": partition, "max": partition} or partition >= count:
        wrong = next((one for one in numbers.to_pylist() if one is None or one != partition), partition)
        raise errors.PartitionMismatchError(
            f"a row of initial_state is in partition {wrong}, and {topic} has {count}: give the table of an application"
            " with the same partitions",
            topic=topic,
        )
    if rows.column("key").null_count:
        raise errors.HistorySchemaError("a row of initial_state has no key, or no time of its window", topic=topic)
    if rows.column("ts").null_count:
        raise errors.NullTimestampError("a row of initial_state has no timestamp", topic=topic, partition=partition)


def _state_rows(rows: pa.RecordBatch, partition: int, first: int) -> pa.RecordBatch:
    count = rows.num_rows
    columns = {
        "topic": rows.column("topic"),
        "partition": rows.column("pid"),
        "seq": pa.array(range(first, first + count), pa.int64()),
        "key": rows.column("key"),
        "value": rows.column("value"),
        "ts": rows.column("ts"),
        "headers": rows.column("headers"),
        "upstream": pa.array([partition] * count, pa.int32()),
    }
    arrays = [columns[field.name].cast(field.type) for field in COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def earlier_state(result: BackfillResult, stage: Stage, topology: str) -> EarlierState:
    """Returns the state with which the tasks of a stage begin.

    :param topology: the fingerprint of the topology that is run.
    :raises CopartitionError: if the earlier backfill had another number of partitions.
    :raises UnsupportedForBackfill: if that sent on what waited at its end, or does not keep the rows of a store.
    :raises SparkBridgeError: if it lacks a store.
    """
    if result.options.get("flush_at_end"):
        raise errors.UnsupportedForBackfill(
            "initial_state is a result of flush_at_end, whose windows were closed early: run that backfill without it"
        )
    changelogs = {
        plan.subtopology: {_kept_name(plan, store): result.changelog(store) for store in plan.stores}
        for plan in stage.plans
    }
    times, reports = {}, {}
    for plan in stage.plans:
        tasks = [task for one in result.stages for task in one.tasks if task["subtopology"] == plan.subtopology]
        if not tasks:
            raise errors.SparkBridgeError(
                f"initial_state has no subtopology {plan.subtopology}: give the result of a backfill of this topology"
            )
        if len(tasks) != plan.tasks:
            raise errors.CopartitionError(
                f"initial_state has {len(tasks)} partitions of subtopology {plan.subtopology}, this backfill has"
                f" {plan.tasks}: keys would be in other partitions. Give the same partitions"
            )
        for task in tasks:
            place = plan.subtopology, task["partition"]
            times[place] = _times(task, plan, result.application_id)
            if not stage.looped and topology == result.topology_fingerprint and _has_rows_of(plan, task):
                reports[place] = result.earlier_task(*place)
    return EarlierState(changelogs, result.files_by_task(), times, reports)


def _has_rows_of(plan: TaskPlan, task: Mapping[str, Any]) -> bool:
    """Whether a task can continue with the files of an earlier one: its topics have the same names, and its stores the
    same rows."""
    own = set(plan.changelogs.values()) - {plan.changelogs[store] for store in plan.source_changelogs}
    families = saved_families(plan)
    return own <= task["checksums"].keys() and bool(task.get("families", families) == families)


Latest = Mapping[tuple[str, int, int], int]
"""The largest timestamps in ms of topics that are read again, by topic, writer and partition."""


def earlier_latest(result: BackfillResult, application_id: str) -> dict[tuple[str, int, int], int]:
    """Returns the largest timestamps of an earlier run.

    :param application_id: that of this run: topics of the application are called after it.
    """
    front = f"{result.application_id}-"
    return {
        (f"{application_id}-{topic.removeprefix(front)}" if topic.startswith(front) else topic, writer, partition): ts
        for stage in result.stages
        for topic, writer, partition, ts in stage.latest
    }


def earlier_highs(result: BackfillResult, rows: InputRows, application_id: str) -> dict[tuple[int, int], int]:
    """Returns the largest timestamp of each partition and writer of a topic in an earlier run."""
    latest = earlier_latest(result, application_id)
    found = {(partition, writer): ts for (topic, writer, partition), ts in latest.items() if topic == rows.topic}
    times = {
        (task["partition"], 0): task["partition_times"].get(rows.topic, -1)
        for stage in result.stages
        for task in stage.tasks
    }
    return found or {place: ts for place, ts in times.items() if ts >= 0}


def _kept_name(plan: TaskPlan, store: str) -> str:
    """Returns the topic under which a task has the rows of a store."""
    return kept_stores(plan).get(store) or plan.changelogs[store]


def _times(task: Mapping[str, Any], plan: TaskPlan, application_id: str) -> TaskTimes:
    """Returns the times of a task; its repartition topics may have been those of another application id."""
    there = {application_id + topic.removeprefix(plan.prefix): topic for topic in plan.repartition_topics}
    partitions = {there.get(topic, topic): time for topic, time in task["partition_times"].items()}
    punctuations = {node: [tuple(one) for one in own] for node, own in task.get("punctuations", {}).items()}
    return TaskTimes(partitions, task["processor_times"], punctuations)
