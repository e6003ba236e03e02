"""The rows of changelogs in the files of a run directory, and the one reader of them.

A task has the rows of a changelog in one of two forms. Either they are all in its files of rows. Or its *base* has the
rows of an earlier run, and files of *changes* have what each run since has changed: new rows, each with the number
(``seq``) of the row that it replaces, and for a row that was deleted one with its number and without a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from processor_api.record import HeaderList
from streams.spark.rows.shipping import packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, BASE, CHANGES, REPLACES = "state", "base", "changes-", "replaces"
"""The kinds of files with rows of changelogs, and the column of changes with the number of a former row."""

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

COLUMNS = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("seq", pa.int64()),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("ts", pa.int64()),
    ("headers", HEADERS),
    ("upstream", pa.int32()),
])  # fmt: skip
"""The columns of a run directory's files."""

SPARK_COLUMNS = (
    "topic string, partition int, seq bigint, key binary, value binary, ts bigint,"
    " headers array<struct<key:string,value:binary>>, upstream int"
)
"""The same columns, as Spark writes a schema."""

BATCH_ROWS = 1 << 16
_PATTERN = str.maketrans({one: f"\\{one}" for one in "[]{}*?\\"})


@dataclass(frozen=True)
class StateFiles:
    """The files with the rows of the changelogs of one task, or of tasks that ran together. Sent to executors."""

    rows: tuple[str, ...]
    base: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Files of changes, the first ones first."""
    based: frozenset[str] = frozenset()
    """The changelogs whose rows are in the base and its changes."""

    @staticmethod
    def of(directory: Path, task: Mapping[str, Any]) -> StateFiles:
        """Returns the files of a task.

        :param directory: of its stage.
        :param task: its report in the list of what the stage wrote.
        """
        found: dict[str, list[str]] = {ROWS: [], BASE: [], CHANGES: []}
        for name in task["files"]:
            kind = name.partition("/")[0].removeprefix("kind=")
            kind = CHANGES if kind.startswith(CHANGES) else kind
            if kind in found:
                found[kind].append(str(directory / name))
        rows, base, changes = map(tuple, found.values())
        return StateFiles(rows, base, tuple(sorted(changes)), frozenset(task.get("based", ())))

    @property
    def names(self) -> tuple[str, ...]:
        """The files of rows, of which one is there in any case if the task has rows."""
        return (*self.rows, *self.base, *self.changes)

    def batches(self, topic: str, partition: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a changelog as they are after the last change, in the order in which they were written.

        :param partition: only rows of this partition.
        """
        if topic not in self.based:
            yield from topic_batches(self.rows, topic, partition)
            return
        gone = self._replaced(topic)
        for batch in topic_batches((*self.base, *self.changes), topic, partition):
            yield batch.filter(pa.array(~_is_in(batch.column("seq").to_numpy(), gone)))

    def _replaced(self, topic: str) -> np.ndarray:
        """Returns the numbers of the rows that are no longer there, sorted."""
        found = topic_batches(self.changes, topic, columns=("topic", REPLACES))
        numbers = [batch.column(REPLACES).drop_null().to_numpy() for batch in found]
        return np.sort(np.concatenate([np.empty(0, np.int64), *numbers]))


def header_lists(column: pa.Array) -> list[HeaderList | None]:
    """Returns the headers of each row, by the columns of their parts: this costs a third of ``to_pylist``."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count == len(column):
        return [None] * len(column)
    parts = column.flatten()
    pairs = list(zip(parts.field(0).to_pylist(), parts.field(1).to_pylist(), strict=True))
    found: list[HeaderList | None] = []
    place = 0
    for length in pc.list_value_length(column).to_pylist():
        found.append(pairs[place : place + length] if length else None)
        place += length or 0
    return found


def _is_in(numbers: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Returns which numbers are in a sorted array."""
    if not len(among):
        return np.zeros(len(numbers), bool)
    places = np.searchsorted(among, numbers)
    found: np.ndarray = among[np.minimum(places, len(among) - 1)] == numbers
    return found


def topic_batches(
    files: Iterable[str],
    topic: str | None = None,
    partition: int | None = None,
    columns: Sequence[str] = COLUMNS.names,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some files.

    :param topic: only rows of this topic. Row groups without any are passed over by the file's statistics.
    :param partition: only rows of this partition.
    """
    for path in files:
        try:
            yield from _batches_of(path, topic, partition, columns)
        except pa.ArrowInvalid as error:  # which does not name the file
            raise pa.ArrowInvalid(f"{path}: {error}") from error


def _batches_of(
    path: str, topic: str | None, partition: int | None, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        groups = [number for number in range(file.num_row_groups) if _may_have(file.metadata.row_group(number), topic)]
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(columns)):
            if topic is not None:
                batch = batch.filter(pc.equal(batch.column("topic"), topic))
            if partition is not None:
                batch = batch.filter(pc.equal(batch.column("partition"), partition))
            if batch.num_rows:
                yield batch


def _may_have(group: Any, topic: str | None) -> bool:
    for number in range(0 if topic is None else group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "topic":
            found = column.statistics
            return found is None or not found.has_min_max or bool(found.min <= topic <= found.max)
    return True


def state_files(directory: Path, tasks: Iterable[Mapping[str, Any]]) -> list[StateFiles]:
    """Returns the files of the tasks of a stage that have files.

    :param directory: of the stage.
    """
    found = (StateFiles.of(directory, task) for task in tasks)
    return [one for one in found if one.names]


def read_rows(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Returns the rows of some files as a DataFrame.

    Spark takes paths for patterns, in which brackets, braces, stars and question marks have a meaning.
    """
    if not files:
        return spark.createDataFrame([], SPARK_COLUMNS)
    return spark.read.schema(SPARK_COLUMNS).parquet(*(f"file://{path.translate(_PATTERN)}" for path in files))


def state_rows_of(spark: SparkSession, tasks: Sequence[StateFiles], topic: str) -> DataFrame:
    """Returns the rows of a changelog as a DataFrame."""
    whole = [path for one in tasks if topic not in one.based for path in one.rows]
    rows = read_rows(spark, whole)
    rows = rows.where(rows["topic"] == topic)
    based = [one for one in tasks if topic in one.based]
    if not based:
        return rows
    text = packed((based, topic))
    numbers = spark.range(0, len(based), 1, len(based))
    found = numbers.mapInArrow(lambda batches: _read_tasks(text, batches), SPARK_COLUMNS)
    return found.unionByName(rows) if whole else found


def _read_tasks(text: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on the executors."""
    tasks, topic = unpacked(text)
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from tasks[number].batches(topic)
