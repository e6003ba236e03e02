"""The records of corrections in the run directory, from before the first is sent until all are in the topic.

::

    corrections/5f3c.../record.parquet      the records, in the order in which they are sent
    corrections/5f3c.../records.json        their topic and numbers; the directory is complete when it has its name
    corrections/5f3c.../state.json          how far the publishing is: begun, or published
    corrections/_new/                       the same, while it is written

The name of a directory is made from the topic and the records. So a call with the same corrections finds those that an
earlier call began to publish, and the records are the same ones, however the live table has changed since.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams.spark.corrections.encoding import NOW_MS
from streams.spark.executor.rows import RowWriter, output_rows
from streams.spark.handover.finished_run import RunRow, rows_in
from streams.spark.handover.rows import Sum
from streams.spark.runs.run_directory import RunDirectory, read_json, write_file

BEGUN, PUBLISHED = "begun", "published"
_NEW, _FILE, _RECORDS, _STATE = "_new", "record", "records.json", "state.json"
_CHUNK = 10_000
_SHOWN = 5


@dataclass
class Counted:
    """Counts the records of corrections as they pass."""

    sum: Sum = field(default_factory=Sum)
    tombstones: int = 0
    partitions: Counter[int] = field(default_factory=Counter)
    first: list[RunRow] = field(default_factory=list)
    """The first few records."""

    def passing(self, rows: Iterable[RunRow]) -> Iterator[RunRow]:
        """Yields records, and counts them."""
        for row in rows:
            self.sum.add(row.key, row.value, row.timestamp_ms, row.headers)
            self.tombstones += row.value is None
            self.partitions[row.partition] += 1
            if len(self.first) < _SHOWN:
                self.first.append(row)
            yield row

    def id_for(self, topic: str, topic_id: str) -> str:
        """Returns the identity of these records in a topic, in any order."""
        parts = json.dumps([topic, topic_id, self.sum.rows, self.sum.total, sorted(self.partitions.items())])
        return sha256(parts.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class CorrectionRecords:
    """The records of one publishing."""

    path: Path
    store: str
    topic: str
    topic_id: str
    rows: int
    tombstones: int
    partitions: dict[str, int]
    """The number of records by partition, which is text in JSON."""

    @property
    def id(self) -> str:
        """The identity of the records, which names their directory."""
        return self.path.name

    @property
    def state(self) -> str | None:
        """`BEGUN` or `PUBLISHED`; ``None`` if no record has been sent."""
        found = _json(self.path / _STATE)
        return None if found is None else str(found["state"])

    def note(self, state: str) -> None:
        """Notes how far the publishing is, so that it lasts through a power loss."""
        _write(self.path / _STATE, {"state": state})

    def records(self) -> Iterator[tuple[str, RunRow]]:
        """Yields the topic and each record, always in the same order."""
        for row in rows_in(self.path / f"{_FILE}.parquet", self.topic, None):
            yield self.topic, row


class KeptCorrections:
    """The corrections in a run directory."""

    def __init__(self, run: RunDirectory) -> None:
        self.path = run.corrections_path()

    def all(self) -> list[CorrectionRecords]:
        """Returns all that are complete.

        :raises RunDirConflict: if a file cannot be read.
        """
        found = ((path, _json(path / _RECORDS)) for path in sorted(self.path.glob("[0-9a-f]*")))
        return [CorrectionRecords(path, **one) for path, one in found if one is not None]

    def unfinished(self, store: str, topic: str | None) -> list[CorrectionRecords]:
        """Returns those of a store that a call began to publish and did not complete.

        :param topic: ``None`` for those of all topics.
        """
        return [one for one in self.all() if one.state == BEGUN and one.store == store and topic in (None, one.topic)]

    def keep(self, store: str, topic: str, topic_id: str, rows: Iterable[RunRow], now_ms: int) -> CorrectionRecords:
        """Writes records, unless the same ones are kept.

        :param now_ms: the timestamp of records without one.
        """
        new, counted = self.path / _NEW, Counted()
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        writer, done, passing = RowWriter(new), 0, counted.passing(rows)
        while chunk := list(islice(passing, _CHUNK)):
            writer.write(_FILE, _batch(topic, chunk, done, now_ms))
            done += len(chunk)
        writer.finish()
        id_ = counted.id_for(topic, topic_id)
        kept = CorrectionRecords(
            self.path / id_, store, topic, topic_id, counted.sum.rows, counted.tombstones,
            {str(number): count for number, count in sorted(counted.partitions.items())},
        )  # fmt: skip
        if kept.path.exists():
            shutil.rmtree(new)
            return kept
        data = asdict(kept)
        del data["path"]
        _write(new / _RECORDS, data)
        new.rename(kept.path)
        return kept


def _batch(topic: str, rows: list[RunRow], first: int, now_ms: int) -> pa.RecordBatch:
    outputs = [
        (topic, key, value, now_ms if time == NOW_MS else time, headers, partition)
        for partition, key, value, time, headers in rows
    ]
    places = pa.array([row.partition for row in rows], pa.int32())
    return output_rows(outputs, places, first, [0] * len(rows))


def _json(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path, "It says what was published: restore it")
    except NotADirectoryError:
        return None


def _write(path: Path, content: dict[str, Any]) -> None:
    write_file(path, json.dumps(content), "publish the corrections again: what was published is known")
