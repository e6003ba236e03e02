"""Histories that are in order where they are: tasks read them by themselves, with the results that a sort gives."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_kit import SETTINGS, results_of
from processor_api.serde import Serdes
from streams import JoinWindows, Produced, StreamJoined, StreamsBuilder
from streams.spark import Backfill, History, OffsetGapError
from streams.spark.sources import ordered_files
from streams.spark.sources.arrow_rows import OffsetSpan, Only
from streams.spark.sources.ordered_files import Orders
from streams.spark.sources.task_rows import InputPart, TaskRows

TEXT, PARTITIONS = Serdes.STRING, 3


def table_of(count: int, *, first: int = 0, step: int = 1, late: int = 40) -> pa.Table:
    """Returns records of several partitions, each in the order of its offsets, with late times and keys of its own."""
    rng = np.random.default_rng(count + first)
    numbers, places = np.arange(count), np.repeat(np.arange(PARTITIONS), -(-count // PARTITIONS))[:count]
    return pa.table({
        "partition": pa.array(places, pa.int32()),
        "offset": pa.array(first + step * (numbers % -(-count // PARTITIONS))),
        "timestamp": pa.array(1_000 + 10 * (numbers % -(-count // PARTITIONS)) - rng.integers(0, late, count)),
        "key": pa.array([b"k%d-%d" % (place, at % 7) for place, at in zip(places, numbers, strict=True)], pa.binary()),
        "value": pa.array([b"v%d" % number for number in numbers], pa.binary()),
    })  # fmt: skip


def of_partition(rows: pa.Table, partition: int) -> pa.Table:
    return rows.filter(pc.equal(rows.column("partition"), partition))


def write_files(path: Path, rows: pa.Table, *, group: int = 20) -> str:
    """Writes a file for each partition, in groups of rows."""
    path.mkdir(parents=True, exist_ok=True)
    for partition in range(PARTITIONS):
        pq.write_table(of_partition(rows, partition), path / f"p{partition}.parquet", row_group_size=group)
    return str(path)


def order_of(path: str | Path, **columns: Any) -> Any:
    return Orders().of("in", History.parquet(None, str(path), **columns), by_offset=True)


def rows_read(sources: Any) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for source in sources:
        for batch in source.batches():
            for partition, offset in zip(batch["pid"].to_pylist(), batch["seq"].to_pylist(), strict=True):
                found.setdefault(partition, []).append(offset)
    return found


EXPECTED = {partition: list(range(50)) for partition in range(PARTITIONS)}


# ---------------------------------------------------------------------- which files are in order


def test_files_of_one_partition_are_in_order(tmp_path: Path) -> None:
    sources = order_of(write_files(tmp_path, table_of(150)))
    assert [one.place for one in sources] == [OffsetSpan(partition, 0, 49) for partition in range(PARTITIONS)]
    assert rows_read(sources) == EXPECTED


def test_partitions_that_directories_name_are_in_order(tmp_path: Path) -> None:
    for partition in range(PARTITIONS):
        (tmp_path / f"partition={partition}").mkdir()
        rows = of_partition(table_of(150), partition).drop_columns(["partition"])
        for number, part in enumerate((rows.slice(0, 30), rows.slice(30))):
            pq.write_table(part, tmp_path / f"partition={partition}" / f"{9 - number}.parquet")
    assert rows_read(order_of(tmp_path)) == EXPECTED


def test_row_groups_of_several_partitions_in_one_file_are_in_order(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "all.parquet", table_of(150).schema) as writer:
        for begin in (30, 0):
            for partition in range(PARTITIONS):
                writer.write_table(of_partition(table_of(150), partition).slice(begin, 30 if begin == 0 else 20))
    assert rows_read(order_of(tmp_path)) == EXPECTED


def test_a_small_row_group_in_no_order_is_sorted_where_it_is_read(tmp_path: Path) -> None:
    rows = of_partition(table_of(150), 0).take(pa.array(np.random.default_rng(3).permutation(50)))
    pq.write_table(rows, tmp_path / "one.parquet")
    assert rows_read(order_of(tmp_path)) == {0: EXPECTED[0]}


def test_a_large_row_group_in_no_order_is_left_to_the_engine(tmp_path: Path) -> None:
    count = ordered_files.SORTED_BYTES // 1_000
    offsets = np.arange(count)
    columns = {"partition": np.zeros(count, np.int32), "timestamp": offsets, "key": [None] * count}
    values = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(1_100), count, [None, pa.py_buffer(np.random.default_rng(1).bytes(1_100 * count))]
    ).cast(pa.binary())
    for name, numbers in (("rising", offsets), ("falling", offsets[::-1])):
        table = pa.table({**columns, "offset": numbers, "value": values})
        pq.write_table(
            table, tmp_path / f"{name}.parquet", row_group_size=count, compression="none", use_dictionary=False
        )
    assert len(order_of(tmp_path / "rising.parquet", key=None)) == 1
    assert "is not in the order of its offsets" in order_of(tmp_path / "falling.parquet", key=None)


def mixed(path: Path) -> None:
    pq.write_table(table_of(150), path / "one.parquet")


def between(path: Path) -> None:
    rows = of_partition(table_of(150), 0)
    pq.write_table(rows.filter(pc.is_in(rows.column("offset"), pa.array(range(0, 50, 2)))), path / "even.parquet")
    pq.write_table(rows.filter(pc.is_in(rows.column("offset"), pa.array(range(1, 50, 2)))), path / "odd.parquet")


def twice(path: Path) -> None:
    for name in ("one", "two"):
        pq.write_table(of_partition(table_of(150), 0).slice(0, 1), path / f"{name}.parquet")


def with_nulls(path: Path) -> None:
    rows = of_partition(table_of(150), 0)
    pq.write_table(
        pa.concat_tables([rows, rows.slice(0, 1).set_column(1, "offset", pa.nulls(1, pa.int64()))]), path / "a"
    )


def without_statistics(path: Path) -> None:
    pq.write_table(of_partition(table_of(150), 0), path / "one.parquet", write_statistics=False)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (mixed, "has rows of several partitions"),
        (between, "offsets of partition 0 in one file are between those in another"),
        (twice, "offsets of partition 0 in one file are between those in another"),
        (with_nulls, "or has nulls in it"),
        (without_statistics, "does not say which values column 'partition' has"),
    ],
)
def test_files_in_no_order_are_left_to_the_engine(tmp_path: Path, write: Any, reason: str) -> None:
    write(tmp_path)
    assert reason in order_of(tmp_path)


@pytest.mark.parametrize("name", ["offset", "partition"])
def test_a_history_without_offsets_or_partitions_is_in_no_order(tmp_path: Path, name: str) -> None:
    assert order_of(write_files(tmp_path, table_of(150)), **{name: None}) == f"the history has no {name}s"
    rows = History(ds.dataset(tmp_path, format="parquet"))
    assert Orders().of("in", rows, by_offset=False) == "they are processed by their timestamps"
    assert Orders().of("in", History(table_of(9)), by_offset=True) == "the history is not read from files"


# ---------------------------------------------------------------------- the merge of inputs


class Listed:
    """Rows of one input, in batches of a size, with or without a place."""

    def __init__(self, rows: Sequence[tuple[int, int, int, int | None]], size: int, place: OffsetSpan | None) -> None:
        self._rows, self._size, self.place = rows, size, place

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(self._rows), self._size):
            pids, writers, offsets, times = zip(*self._rows[begin : begin + self._size], strict=True)
            yield pa.RecordBatch.from_pydict({
                "pid": pa.array(pids, pa.int32()), "upstream": pa.array(writers, pa.int32()),
                "seq": pa.array(offsets, pa.int64()), "ts": pa.array(times, pa.int64()),
                "key": pa.array([b"k%d" % (offset % 3) for offset in offsets], pa.binary()),
                "value": pa.array([None if offset % 2 else b"v" for offset in offsets], pa.binary()),
            })  # fmt: skip


Drawn = list[tuple[int, int, int, list[int | None], bool]]
"""Parts: input, partition, writer, times, and whether the part says that it is in order."""
PARTS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 1), st.integers(0, 1),
        st.lists(st.one_of(st.none(), st.integers(-3, 9)), min_size=1, max_size=8), st.booleans(),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


def expected_order(rows: list[tuple[int, int, int, int, int | None]], ordered: Sequence[bool], highs: Any) -> Any:
    """Returns rows sorted as the definition says: by the largest timestamp so far, input, partition, writer, offset."""
    found, least = [], -(1 << 63)
    for row in rows:
        number, partition, writer, offset, time = row
        if ordered[number]:
            before = [one[4] for one in rows if one[:3] == row[:3] and one[3] <= offset and one[4] is not None]
            high = max([highs[number].get((partition, writer), least), *before])
            found.append((high, number, partition, writer, offset, row))
        else:
            high = least if time is None else time
            found.append((high, number, partition, writer, offset, row))
    return [one[-1] for one in sorted(found, key=lambda one: one[:5])]


@given(PARTS, st.tuples(*[st.booleans()] * 3), st.integers(1, 4), st.integers(-3, 9))
def test_rows_come_in_the_order_of_live(parts: Drawn, ordered: tuple[bool, ...], size: int, high: int) -> None:
    """Whatever the parts say of their order, and however large their batches are."""
    ends: dict[tuple[int, int, int], int] = {}
    given_parts, rows = [], []
    for number, partition, writer, times, says in parts:
        first = ends.get((number, partition, writer), 0)
        ends[number, partition, writer] = first + len(times)
        own = [(partition, writer, first + at, time) for at, time in enumerate(times)]
        rows += [(number, *row) for row in own]
        place = OffsetSpan(partition, first, first + len(times) - 1) if says else None
        shown = own if says else own[::-1]
        given_parts.append(InputPart(number, Listed(shown, size, place), place, writer))
    highs = tuple({(0, 0): high} for _ in ordered)
    task = TaskRows(tuple(given_parts[::-1]), ordered, False, highs)
    found = [
        tuple(row[name] for name in ("q", "pid", "upstream", "seq", "ts"))
        for batch in task.batches()
        for row in batch.to_pylist()
    ]
    assert found == expected_order(rows, ordered, highs)
    inputs = {number for number, *_ in parts}
    assert task.is_sorted == (all(says for *_, says in parts) and all(ordered[number] for number in inputs))


# ---------------------------------------------------------------------- in Spark


def joined() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
    left, right = builder.stream("left"), builder.stream("right")
    serdes = StreamJoined(key_serde=TEXT, value_serde=TEXT, other_value_serde=TEXT)
    windows = JoinWindows.of_time_difference_with_no_grace(25)
    pairs = left.left_join(right, lambda one, other: f"{one}+{other}", windows=windows, joined=serdes)
    pairs.to("out", Produced(key_serde=TEXT, value_serde=TEXT))
    left.merge(right).group_by_key().count(materialized="counts")
    return builder


def run(spark: Any, path: Path, lakes: Sequence[str], **options: Any) -> Any:
    inputs = {topic: History.parquet(spark, lake) for topic, lake in zip(("left", "right"), lakes, strict=True)}
    given: dict[str, Any] = {"config": SETTINGS, "partitions": dict.fromkeys((*inputs, "out"), PARTITIONS), **options}
    engine = "local[1]" if spark is None else "spark"
    return Backfill(spark, joined, inputs, application_id="app", run_dir=path, engine=engine, **given).run()


READ, SORTED = "read their rows by themselves", "Spark sorts the rows"


def test_tasks_that_read_by_themselves_have_the_results_of_a_sort(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two inputs with late rows, in two days; the second day also has the rows of the first."""
    caplog.set_level(logging.INFO, "streams.spark")
    found, messages = [], []
    for form in ("ordered", "mixed", "local"):
        day: Any = None
        for number, count in enumerate((150, 240)):
            lakes = []
            for topic, late in (("left", 40), ("right", 90)):
                lake, rows = tmp_path / form / str(number) / topic, table_of(240, late=late)
                rows = rows.filter(pc.less(rows.column("offset"), count // PARTITIONS))
                write_files(lake, rows)
                if form == "mixed":
                    [file.unlink() for file in lake.iterdir()]
                    order = pa.array(np.random.default_rng(5).permutation(rows.num_rows))
                    pq.write_table(rows.take(order), lake / "all.parquet")
                lakes.append(str(lake))
            caplog.clear()
            session = None if form == "local" else spark
            day = run(session, tmp_path / form / f"run{number}", lakes, initial_state=day, overlaps="skip")
            messages.append([text for text in caplog.messages if READ in text or SORTED in text])
            found.append(
                (results_of(day, ["out"], ["counts"]), day.stages[0].rows, day.position.data()["topics"].keys())
            )
    assert found[0] == found[2] == found[4]
    assert found[1] == found[3] == found[5]
    assert [one[1] for one in found[:2]] == [300, 180]
    assert found[0][0].outputs["out"]
    for texts, expected in zip(messages[:4], (READ, READ, SORTED, SORTED), strict=True):
        assert len(texts) == 1
        assert expected in texts[0]


def test_frames_that_are_more_than_files_are_sorted(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A filter must not get lost, nor that a path is read twice."""
    caplog.set_level(logging.INFO, "streams.spark")
    lake = write_files(tmp_path / "lake", table_of(150))
    rows = spark.read.parquet(lake)
    given: dict[str, Any] = {
        "config": SETTINGS,
        "application_id": "app",
        "partitions": {"left": 3, "right": 3, "out": 3},
    }
    histories = {"left": History(rows.where("offset < 10")), "right": History(rows)}
    result = Backfill(spark, joined, histories, run_dir=tmp_path / "run", **given).run()
    assert result.stages[0].rows == 30 + 150
    assert any(
        "of topic 'left' the DataFrame is not just the Parquet files below one path" in one for one in caplog.messages
    )
    again = {"left": History(spark.read.parquet(lake, lake)), "right": History(rows)}
    with pytest.raises(OffsetGapError, match="the same offset"):
        Backfill(spark, joined, again, run_dir=tmp_path / "again", **given).run()


def test_a_lake_that_spark_brought_into_order_once_is_in_order(spark: Any, tmp_path: Path) -> None:
    """As the page on backfills says."""
    write_files(tmp_path / "lake", table_of(150))
    rows = spark.read.parquet(str(tmp_path / "lake")).orderBy("value").repartitionById(PARTITIONS, "partition")
    rows.sortWithinPartitions("partition", "offset").write.parquet(str(tmp_path / "in order"))
    frame = History(spark.read.parquet(str(tmp_path / "in order")))
    assert rows_read(Orders().of("in", frame, by_offset=True)) == EXPECTED
