"""A partition's log against a plain model: a list of records with what became of each."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.kafka.embedded.messages import Record
from streams.kafka.embedded.partition_log import PartitionLog

KEYS = st.sampled_from([b"a", b"b", b"c"])
OPERATIONS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([None, None, 1, 2]), KEYS, st.booleans(), st.integers(0, 100)),
    st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
    st.tuples(st.just("delete_before"), st.sampled_from([0.2, 0.5, 0.8, 1.0])),
    st.tuples(st.just("delete_older"), st.integers(0, 100)),
    st.tuples(st.just("compact"), st.integers(0, 100)),
)


@dataclass
class Entry:
    offset: int
    record: Record | None
    """``None``: a marker."""
    producer: int | None = None
    aborted: bool = False
    deleted: bool = False


class Model:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.open: set[int] = set()

    @property
    def stable(self) -> int:
        still_open = [e.offset for e in self.entries if e.record and e.producer in self.open and not e.aborted]
        return max(self.start, min(still_open, default=len(self.entries)))

    def kept(self) -> list[Entry]:
        return [e for e in self.entries if e.record is not None and not e.deleted and e.offset >= self.start]

    def visible(self, position: int, committed: bool) -> list[int]:
        limit = self.stable if committed else len(self.entries)
        return [e.offset for e in self.kept() if position <= e.offset < limit and not (committed and e.aborted)]

    def end(self, producer: int, commit: bool) -> None:
        for entry in self.entries:
            if entry.producer == producer:
                entry.producer = None
                entry.aborted = entry.aborted or not commit
        self.open.discard(producer)
        self.entries.append(Entry(len(self.entries), None))

    def delete_older(self, timestamp: int) -> None:
        for entry in self.kept():
            if entry.offset >= self.stable or entry.record.stamp[1] >= timestamp:
                self.start = max(self.start, min(entry.offset, self.stable))
                return
        self.start = max(self.start, self.stable)

    def compact(self, horizon: int) -> None:
        below = [e for e in self.kept() if e.offset < self.stable]
        last = {e.record.key(): e for e in below if not e.aborted}
        for entry in below:
            tombstone = entry.record.value() is None and entry.record.stamp[1] < horizon
            entry.deleted = entry.aborted or last.get(entry.record.key()) is not entry or tombstone


def apply(operation: tuple, log: PartitionLog, model: Model) -> None:
    match operation:
        case ("append", producer, key, tombstone, timestamp):
            record = Record("t", 0, key, None if tombstone else b"v", (1, timestamp), None)
            log.append(record, producer)
            model.entries.append(Entry(len(model.entries), record, producer))
            if producer is not None:
                model.open.add(producer)
        case ("end", producer, commit) if producer in model.open:
            log.end_transaction(producer, committed=commit)
            model.end(producer, commit)
        case ("delete_before", fraction):
            offset = int(fraction * len(model.entries))
            log.delete_before(offset)
            model.start = max(model.start, offset)
        case ("delete_older", timestamp):
            log.delete_older(timestamp)
            model.delete_older(timestamp)
        case ("compact", horizon):
            log.compact(horizon)
            model.compact(horizon)


@settings(max_examples=400)
@given(st.lists(OPERATIONS, max_size=40), st.integers(1, 5), st.floats(0, 1), st.booleans())
def test_reading_gives_what_the_model_has(operations: list, count: int, fraction: float, committed: bool) -> None:
    """From any position, in runs of any size, of either isolation: the model's records, each once, to the limit."""
    log, model = PartitionLog("t", 0), Model()
    for operation in operations:
        apply(operation, log, model)
    assert log.start_offset == model.start
    assert log.end_offset == len(model.entries)
    assert log.last_stable_offset == model.stable
    start = position = log.start_offset + int(fraction * (log.end_offset - log.start_offset))
    offsets: list[int] = []
    while position < log.limit(committed):
        run, following = log.read(position, count, committed)
        assert len(run) <= count
        assert following > position
        assert bool(run) or following == log.limit(committed)
        assert all(position <= record.offset() < following for record in run)
        offsets += [record.offset() for record in run]
        position = following
    assert offsets == model.visible(start, committed)


@given(st.lists(OPERATIONS, max_size=40), st.integers(0, 100), st.booleans())
def test_search_by_time(operations: list, timestamp: int, committed: bool) -> None:
    """The first offset in the log at or after the time, below the limit; aborted records count, as in Kafka."""
    log, model = PartitionLog("t", 0), Model()
    for operation in operations:
        apply(operation, log, model)
    limit = log.limit(committed)
    later = [e.offset for e in model.kept() if e.record.stamp[1] >= timestamp and e.offset < limit]
    assert log.offset_for_time(timestamp, committed) == min(later, default=limit)


def test_offsets_go_on_after_everything_was_deleted() -> None:
    """An offset is never used again."""
    log = PartitionLog("t", 0)
    for _ in range(3):
        log.append(Record("t", 0, b"k", b"v", (1, 5), None))
    log.delete_before(3)
    record = Record("t", 0, b"k", b"v", (1, 5), None)
    log.append(record)
    assert record.offset() == 3
    assert log.read(3, 10, True) == ([record], 4)
