"""Runs of records that a task takes together, by their keys, where no record of them needs a decision.

A run is taken whole or not at all: what is not taken is processed record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from state.row_format.record_context import Cursor
from streams.runtime.processing.environment import Environment
from streams.runtime.processing.inputs import BoundSource, InputQueue


@dataclass(frozen=True, kw_only=True)
class RunColumns:
    """Records of one input partition in order, by their keys. None has headers, or no key, value or timestamp.

    The first four columns have an entry for each key, in the order of the last records of the keys.
    """

    keys: Sequence[bytes]
    counts: Sequence[int]
    """The numbers of records."""
    timestamps: Sequence[int]
    """The largest timestamps, in ms."""
    messages: Sequence[Any]
    """The last records (:class:`streams.kafka.ports.Message`)."""
    records: int
    earliest_ms: int
    latest_ms: int
    values: Callable[[], Iterable[bytes]]
    """Returns the values of all records; it is called only if they have to be read."""


class _KeyedRun:
    """A run as an operator sees it (:class:`processor_api.context.RecordRun`)."""

    def __init__(self, keys: Sequence[Any], columns: RunColumns, source: BoundSource, cursor: Cursor) -> None:
        self.keys = keys
        self.begun = False
        """Whether an operator has begun to process the records."""
        self._columns = columns
        self._source = source
        self._cursor = cursor

    def __iter__(self) -> Iterator[tuple[Any, int, int]]:
        source, columns, cursor = self._source, self._columns, self._cursor
        # Only now: an operator that does not take the run has them read one by one.
        if source.checks_values and any(value is None for value in map(source.read_value, columns.values())):
            raise ValueError("a value is read as None")
        self.begun = True
        rows = zip(self.keys, columns.counts, columns.timestamps, columns.messages, strict=True)
        for key, count, timestamp, message in rows:
            cursor.message, cursor.timestamp = message, timestamp
            yield key, count, timestamp


def take_run(columns: RunColumns, queue: InputQueue, environment: Environment, next_punctuation_ms: int) -> bool:
    """Processes a run of records; returns whether it did.

    :param queue: the only one of its task.
    :param next_punctuation_ms: the stream time at which something else is due.
    """
    reader, operators, cursor = queue.reader, environment.operators, environment.cursor
    source, latest = reader.source, max(cursor.stream_time, columns.latest_ms)
    take = source.take_run
    if (
        take is None
        or len(queue)
        or not source.reads_alone
        or columns.earliest_ms <= 0  # sinks and changelogs have rules of their own for the time 0
        or latest > reader.time_limit.latest
        or latest >= next_punctuation_ms
        or operators.remainders
        or operators.held
        or environment.metrics.nodes.is_due
    ):
        return False
    try:
        keys = list(map(source.read_key, columns.keys))
        if any(key is None for key in keys):
            return False
    except Exception:
        return False  # the record fails again when it comes alone, with its place
    before, cursor.source, cursor.stream_time = cursor.stream_time, queue.partition, latest
    run = _KeyedRun(keys, columns, source, cursor)
    try:
        is_taken = take(run)
    except Exception:
        if run.begun:
            raise
        is_taken = False
    if not is_taken:
        cursor.stream_time = before
        return False
    reader.consumed.records += columns.records
    queue.partition_time = max(queue.partition_time, columns.latest_ms)
    queue.position = columns.messages[-1].offset() + 1
    return True
