"""Reads ranges of offsets, for the data sources of Spark: a task for each range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from streams.spark.sources.ranges import OffsetRange


class RangesPlan(Protocol):
    """The plan of what is read; sent to the executors."""

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """One for each task."""
        ...

    def batches(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one range."""
        ...


class RangePartition(InputPartition):
    """One range of offsets, which one task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.wanted = wanted


class RangesReader(DataSourceReader):
    """Reads a plan's ranges of offsets. It pushes no filters down: Spark 4.3 gives wrong rows with that."""

    def __init__(self, plan: RangesPlan) -> None:
        self._plan = plan

    def partitions(self) -> list[InputPartition]:
        return [RangePartition(each) for each in self._plan.ranges]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # stands for none at all
            return iter(())
        return self._plan.batches(partition.wanted)
