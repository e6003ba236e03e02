"""Processes that write and take snapshots of a database without end, until they are killed.

    python -m runtime_support.snapshotting_process write DATABASE PLACE
    python -m runtime_support.snapshotting_process take DATABASE PLACE

A line says what is done: the offset of a snapshot that is written, or that was taken.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from state.engine.port import OFFSETS
from state.formats.offsets import read_offset, write_offset
from state.rocksdb.engine import RocksEngine
from streams.snapshots.manifest import Lacking, StoreState, TaskSnapshot
from streams.snapshots.objects import DirectoryObjects
from streams.snapshots.reading import Copied, SnapshotReading
from streams.snapshots.writing import SnapshotWriting

FAMILY, OFFSET = "rows.plain", b"offset"
KEYS, AT_ONCE = 500, 150
NAMES = ("app", "0_0")


def row(offset: int) -> tuple[bytes, bytes]:
    return b"%05d" % (offset * 7919 % KEYS), b"%d" % offset * 20


def rows_at(offset: int) -> dict[bytes, bytes]:
    """Returns the rows of a database that has the changelog up to an offset."""
    return dict(map(row, range(offset + 1)))


def offset_of(engine: RocksEngine) -> int:
    found = engine.family(OFFSETS).get(OFFSET)
    return -1 if found is None else read_offset(found)


def write(database: Path, place: Path) -> None:
    engine = RocksEngine(database, [FAMILY])
    writing = SnapshotWriting(DirectoryObjects(place), *NAMES, lambda: False)
    copy = database.with_name("copy")
    offset = offset_of(engine)
    while True:
        for _ in range(AT_ONCE):
            offset += 1
            batch = engine.batch()
            batch.put(*row(offset), engine.family(FAMILY).handle)
            batch.put(OFFSET, write_offset(offset), engine.family(OFFSETS).handle)
            engine.write(batch)
        shutil.rmtree(copy, ignore_errors=True)
        engine.checkpoint(copy, [FAMILY])()
        store = StoreState(topic="t", topic_id="i", offset=offset, complete_ms=offset, families=[FAMILY])
        made = TaskSnapshot(application_id=NAMES[0], task=NAMES[1], made_ms=offset, stores={"rows": store}, files=[])
        writing.write(made, copy)
        print(offset, flush=True)


def copy_best(place: Path, target: Path) -> Copied | None:
    """Copies the snapshot that has most."""
    lacking = Lacking(topic="t", topic_id="i", beginning=0, end=1 << 40, families=[FAMILY], keeps_deletions_ms=None)
    return SnapshotReading(DirectoryObjects(place), *NAMES).copy({"rows": lacking}, 0, target)


def take(database: Path, place: Path) -> None:
    engine, copy = RocksEngine(database, [FAMILY]), database.with_name("taken")
    while True:
        found = copy_best(place, copy)
        assert found is not None
        engine.take_over(copy)
        print(offset_of(engine), flush=True)
        engine.take_over(None)


if __name__ == "__main__":
    {"write": write, "take": take}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
