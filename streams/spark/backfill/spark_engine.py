"""A backfill's tasks in Spark: each Kafka partition in one task, in the order of live.

Tasks read histories that are in order by themselves (`streams.spark.sources.ordered_files`). Spark brings all others
into order: a live task takes the record with the smallest timestamp among the heads of its inputs. Over inputs that are
there as a whole this is one sort: by the largest timestamp so far in the row's input, then by the input, then by the
row's place in it. The sort is a total order, so that a task which Spark runs again sees the same rows in the same
order.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from processor_api.clock import SystemClock
from streams.spark.backfill.engine import Attempt, InputRows, reading, task_rows
from streams.spark.backfill.history import History
from streams.spark.backfill.progress import group_of, progress_of
from streams.spark.errors import BackfillCancelled, OffsetGapError, PartitionMismatchError
from streams.spark.executor.prepared_history import Preparation, prepared
from streams.spark.executor.task_errors import Batches, error_of, reporting
from streams.spark.rows.state_files import read_rows
from streams.spark.session import check_version, check_workers
from streams.spark.sources.arrow_rows import Behind, Prepared
from streams.spark.sources.ordered_files import Orders
from streams.spark.sources.task_rows import InputPart, TaskRows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


log = logging.getLogger("streams.spark")

ENDED_S, PAUSE_S = 60.0, 0.1
"""How long tasks may take to end when their job is cancelled, and how often that is looked at."""


class SparkEngine:
    """Runs tasks on the executors of a session (:class:`streams.spark.backfill.engine.BackfillEngine`)."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._orders = Orders()
        self._running: str | None = None
        self._cancelled = False

    def begin(self) -> None:
        self._cancelled, self._orders = False, Orders()
        check_version(self._spark)
        check_workers(self._spark)

    def history_rows(self, topic: str, history: History, *, by_offset: bool) -> InputRows:
        rows = history_rows(topic, history, by_offset=by_offset)
        return replace(rows, sources=self._orders.of(topic, history, by_offset=by_offset))

    def prepared(self, rows: InputRows, job: Preparation) -> InputRows:
        columns = [f"`{name}` {kind}" for name, kind in rows.rows.dtypes if name not in ("key", "value")]
        schema = ", ".join([*columns, "key binary", "value binary"])
        found = rows.sources if isinstance(rows.sources, str) else tuple(Prepared(one, job) for one in rows.sources)
        if not isinstance(found, str) and job.place:
            found = "their partitions are computed from the keys"
        return replace(rows, rows=rows.rows.mapInArrow(prepared(job), schema), sources=found)

    def none_of(self, rows: InputRows) -> InputRows:
        return replace(rows, rows=rows.rows.limit(0), sources=())

    def behind(self, rows: InputRows, offsets: Mapping[int, int]) -> InputRows:
        from pyspark.sql import functions

        least = self._spark.createDataFrame(list(offsets.items()), "pid int, least bigint")
        joined = rows.rows.join(functions.broadcast(least), "pid", "left")
        left = joined.where(functions.col("least").isNull() | (functions.col("seq") >= functions.col("least")))
        found = rows.sources if isinstance(rows.sources, str) else tuple(Behind(one, offsets) for one in rows.sources)
        return replace(rows, rows=left.drop("least"), sources=found)

    def written_rows(self, topic: str, files: Sequence[str], writers: int) -> InputRows:
        from pyspark.sql import functions

        rows = read_rows(self._spark, files).where(functions.col("topic") == topic)
        renamed = rows.withColumnRenamed("partition", "pid").drop("topic")
        return InputRows(topic, renamed, writers, True, True, sources="several tasks wrote them, for many partitions")

    def first_and_last(self, rows: InputRows) -> tuple[dict[int, int], dict[int, int]]:
        return first_and_last(rows.rows, rows.topic)

    def latest_time(self, rows: InputRows) -> int | None:
        from pyspark.sql import functions

        found: int | None = rows.rows.agg(functions.max("ts")).collect()[0][0]
        return found

    def run(
        self,
        attempt: Attempt,
        what: str,
        tasks: int,
        inputs: Sequence[InputRows] = (),
        *,
        in_one_task: bool = False,
        done: Collection[int] = (),
    ) -> list[dict[str, Any]]:
        found: list[tuple[int, list[dict[str, Any]]]] = []
        own = _rows_of_tasks(inputs, tasks, what, in_one_task=in_one_task)
        if own is not None:
            attempt = reading(attempt, own)
        else:
            left = inputs if in_one_task else [_without(one, done) for one in inputs]
            rows = placed_rows(left, tasks, in_one_task=in_one_task)
            found = self._reports(rows, reporting(attempt, done), what, tasks)
            # Of an input that Spark knows to be empty it makes no tasks at all.
            done = {*done, *(number for number, _ in found)}
        if len(done) < tasks:
            rows = self._spark.range(0, tasks, 1, tasks)
            found += self._reports(rows, _without_rows(reporting(attempt, done)), what, tasks)
        return [report for _, reports in found for report in reports]

    def _reports(
        self, rows: DataFrame, run: Callable[[Batches], Iterator[pa.RecordBatch]], what: str, tasks: int
    ) -> list[tuple[int, list[dict[str, Any]]]]:
        """Runs a function over rows in Spark; returns the reports of each task with its number."""
        self._running = what
        try:
            if self._cancelled:
                raise BackfillCancelled.of(what)
            with progress_of(self._spark, what, tasks):
                found = rows.mapInArrow(run, "task int, reports string").collect()
        except BackfillCancelled:
            raise
        except KeyboardInterrupt:
            self.cancel()
            self._wait()
            raise
        except Exception as error:
            if self._cancelled:
                self._wait()
                raise BackfillCancelled.of(what) from error
            raise error_of(error, f"{what} of the backfill") from error
        finally:
            self._running = None
        return [(row[0], json.loads(row[1])) for row in found]

    def cancel(self) -> None:
        self._cancelled = True
        if self._running is not None:
            self._spark.sparkContext.cancelJobGroup(group_of(self._running))

    def _wait(self) -> None:
        """Waits until no cancelled job runs, because its tasks write to the run directory."""
        clock, tracker = SystemClock(), self._spark.sparkContext.statusTracker()
        until = clock.monotonic() + ENDED_S
        while self._running is not None and clock.monotonic() < until:
            jobs = set(tracker.getJobIdsForGroup(group_of(self._running)))
            if not jobs.intersection(tracker.getActiveJobsIds()):
                return
            clock.wait(PAUSE_S)


def _rows_of_tasks(inputs: Sequence[InputRows], tasks: int, what: str, *, in_one_task: bool) -> list[TaskRows] | None:
    """Returns the rows that each task reads by itself; ``None`` if Spark has to bring some into order."""
    parts: list[list[InputPart]] = [[] for _ in range(tasks)]
    for number, one in enumerate(inputs):
        if isinstance(one.sources, str):
            log.info("backfill: Spark sorts the rows of %s, since of topic %r %s", what, one.topic, one.sources)
            return None
        for source in one.sources:
            assert source.place is not None
            task = 0 if in_one_task else source.place.partition
            if not 0 <= task < tasks:  # the task to which Spark brings them refuses them
                return None
            parts[task].append(InputPart(number, source, source.place))
    found = [task_rows(own, inputs) for own in parts]
    if not all(one.is_sorted for one in found):
        log.info("backfill: Spark sorts the rows of %s, since one task would read too many partitions at a time", what)
        return None
    log.info("backfill: the tasks of %s read their rows by themselves, which are in order", what)
    return found


def _without_rows(
    run: Callable[[Batches], Iterator[pa.RecordBatch]],
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Returns a function that is run on any rows, and reads none of them."""

    def run_on_none(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield from run(())

    return run_on_none


def _without(one: InputRows, done: Collection[int]) -> InputRows:
    from pyspark.sql import functions

    if not done:
        return one
    number = functions.col("pid")
    return replace(one, rows=one.rows.where(number.isNull() | ~number.isin(*done)))


def history_rows(topic: str, history: History, *, by_offset: bool) -> InputRows:
    """Returns the rows of a history."""
    from pyspark.sql import functions

    headers = [history.column("headers", "array<struct<key:string,value:binary>>").alias("headers")]
    rows = history.df.select(
        history.column("partition", "int").cast("int").alias("pid"),
        functions.lit(0).alias("upstream"),
        history.column("offset", "bigint").cast("bigint").alias("seq"),
        history.time_column().alias("ts"),
        history.column("key", "binary").alias("key"),
        history.column("value", "binary").alias("value"),
        *(headers if history.headers else ()),
    )
    return InputRows(topic, rows, 1, by_offset, history.headers is not None)


def first_and_last(rows: DataFrame, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the first offset of each partition of a history, and the one behind the last; runs a Spark job.

    :param rows: of the history, as :class:`InputRows` has them.
    :raises OffsetGapError: if a row has no offset.
    :raises PartitionMismatchError: if a row has no partition.
    """
    from pyspark.sql import functions

    seq = functions.col("seq")
    found = rows.groupBy("pid").agg(
        functions.min(seq).alias("first"),
        functions.max(seq).alias("last"),
        functions.sum(seq.isNull().cast("int")).alias("empty"),
    )
    begins, ends = {}, {}
    for row in found.collect():
        if row["pid"] is None:
            raise PartitionMismatchError(f"a row of the history of topic {topic!r} has no partition", topic=topic)
        if row["empty"]:
            raise OffsetGapError(f"a row of the history of topic {topic!r} has no offset", topic=topic)
        begins[row["pid"]], ends[row["pid"]] = row["first"], row["last"] + 1
    return begins, ends


def placed_rows(inputs: Sequence[InputRows], partitions: int, *, in_one_task: bool = False) -> DataFrame:
    """Returns the rows of some inputs, each partition in the task of its number, in the order of live.

    The column ``q`` has the number of the input.

    :param in_one_task: puts all partitions into one task, in the same order.
    """
    from pyspark.sql import functions

    with_headers = any(one.has_headers for one in inputs)
    frames = [_numbered(number, one, with_headers) for number, one in enumerate(inputs)]
    together = reduce(lambda first, second: first.unionByName(second), frames)
    if in_one_task:
        spread = together.repartitionById(1, functions.lit(0))
    else:
        spread = together.repartitionById(partitions, functions.col("pid"))
        if len(inputs) == 1 and inputs[0].writers == 1 and inputs[0].in_order:
            return spread.sortWithinPartitions("pid", "seq")  # pid also groups rows that are here by mistake
    ordered = _with_high_times(spread, inputs)
    order = ["high", "q", "pid", "upstream", "seq"]
    if not all(one.in_order for one in inputs):
        order += ["key", "value", *(("headers",) if with_headers else ())]
    return ordered.sortWithinPartitions(*order).drop("high")


def _numbered(number: int, one: InputRows, with_headers: bool) -> DataFrame:
    from pyspark.sql import functions

    rows: DataFrame = one.rows.withColumn("q", functions.lit(number))
    if with_headers and not one.has_headers:
        rows = rows.withColumn("headers", functions.lit(None).cast("array<struct<key:string,value:binary>>"))
    return rows


def _with_high_times(rows: DataFrame, inputs: Sequence[InputRows]) -> DataFrame:
    """Adds the largest timestamp so far of each row's input; where rows are in the order of time it is their own."""
    from pyspark.sql import Window, functions

    high: Column = functions.col("ts")
    ordered = [number for number, one in enumerate(inputs) if one.in_order]
    if ordered:
        so_far = (
            Window.partitionBy("pid", "q", "upstream")
            .orderBy("seq")
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        latest = functions.max("ts").over(so_far)
        rows, before = _with_times_before(rows, inputs)
        if before is not None:
            latest = functions.greatest(latest, before)
        high = functions.when(functions.col("q").isin(ordered), latest).otherwise(functions.col("ts"))
    return rows.withColumn("high", high).drop("before")


def _with_times_before(rows: DataFrame, inputs: Sequence[InputRows]) -> tuple[DataFrame, Column | None]:
    """Adds the largest timestamp of each row's input in an earlier run, if there was one."""
    from pyspark.sql import functions

    found = [(q, *place, ts) for q, one in enumerate(inputs) for place, ts in one.highs.items()]
    if not found:
        return rows, None
    times = rows.sparkSession.createDataFrame(found, "q int, pid int, upstream int, before bigint")
    return rows.join(functions.broadcast(times), ["q", "pid", "upstream"], "left"), functions.col("before")
