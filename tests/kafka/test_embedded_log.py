"""A partition's log against a plain model: a list of records with what became of each."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.testing.broker.messages import LogRecord
from streams.testing.broker.partition_log import PartitionLog
from streams.testing.broker.segments import LogSegments

KEYS = st.sampled_from([b"a", b"b", b"c"])
OPERATIONS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([None, None, 1, 2]), KEYS, st.booleans(), st.integers(0, 100)),
    st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
    st.tuples(st.just("delete_before"), st.sampled_from([0.2, 0.5, 0.8, 1.0])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("expire"), st.none() | st.integers(0, 100), st.none() | st.integers(0, 600)),
    st.tuples(st.just("compact"), st.integers(0, 100), st.integers(0, 50), st.none() | st.integers(0, 100)),
)
SEGMENT_BYTES, SEGMENT_MS = 220, 40


@dataclass
class Entry:
    offset: int
    record: LogRecord | None
    """``None``: a marker."""
    producer: int | None = None
    aborted: bool = False
    deleted: bool = False
    goes_ms: int | None = None


@dataclass
class Part:
    """A segment."""

    base: int
    size: int = 0
    first: int = -1
    largest: int = -1


def size_of(record: LogRecord) -> int:
    """61 of its batch, 9 of its own, and what is in it."""
    return 70 + len(record.key() or b"") + len(record.value() or b"")


class Model:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.open: set[int] = set()
        self.parts = [Part(0)]

    def append(self, record: LogRecord, producer: int | None) -> None:
        offset, time, size = len(self.entries), record.stamp[1], size_of(record)
        part = self.parts[-1]
        if part.size and (part.size + size > SEGMENT_BYTES or time - part.first > SEGMENT_MS):
            self.roll()
            part = self.parts[-1]
        if not part.size:
            part.first = time
        part.size += size
        part.largest = max(part.largest, time)
        self.entries.append(Entry(offset, record, producer))
        if producer is not None:
            self.open.add(producer)

    def roll(self) -> None:
        if self.parts[-1].size:
            self.parts.append(Part(len(self.entries)))

    def delete_before(self, offset: int) -> None:
        if offset > self.start:
            self.start = offset
            ends = [part.base for part in self.parts[1:]] + [1 << 60]
            self.parts = [part for part, end in zip(self.parts, ends, strict=True) if end > offset]

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

    def expire(self, oldest: int | None, most: int | None) -> None:
        """The oldest segment goes as long as it is too old, or the rest is not less than allowed."""
        left = list(self.parts)
        while left and left[0].size:
            rest = sum(part.size for part in left[1:])
            if not ((oldest is not None and left[0].largest < oldest) or (most is not None and rest >= most)):
                break
            left.pop(0)
        start = left[0].base if left else len(self.entries)
        if not left and start <= self.stable:
            self.parts = [Part(start)]
        self.delete_before(min(start, self.stable))

    def compact(self, now: int, retention: int, youngest: int | None) -> None:
        limit = min(self.parts[-1].base, self.stable)
        for part in self.parts[:-1]:
            if youngest is not None and part.largest > youngest:
                limit = min(limit, part.base)
        below = [e for e in self.kept() if e.offset < limit]
        last = {e.record.key(): e for e in below if not e.aborted}
        for entry in below:
            entry.deleted = entry.aborted or last.get(entry.record.key()) is not entry
            if not entry.deleted and entry.record.value() is None:
                if entry.goes_ms is None:
                    entry.goes_ms = now + retention
                else:
                    entry.deleted = entry.goes_ms <= now
        ends = [part.base for part in self.parts[1:]]
        for part, end in zip(self.parts[:-1], ends, strict=True):
            part.size = sum(size_of(e.record) for e in self.kept() if part.base <= e.offset < end)
        self.parts = [part for part in self.parts[:-1] if part.size] + self.parts[-1:]


def new_log() -> PartitionLog:
    return PartitionLog("t", 0, LogSegments(SEGMENT_BYTES, SEGMENT_MS))


def apply(operation: tuple, log: PartitionLog, model: Model) -> None:
    match operation:
        case ("append", producer, key, tombstone, timestamp):
            record = LogRecord("t", 0, key, None if tombstone else b"v", (1, timestamp), None)
            log.append([record], producer)
            model.append(record, producer)
        case ("end", producer, commit) if producer in model.open:
            log.end_transaction(producer, committed=commit)
            model.end(producer, commit)
        case ("delete_before", fraction):
            offset = int(fraction * len(model.entries))
            log.delete_before(offset)
            model.delete_before(offset)
        case ("roll",):
            log.segments.roll(log.end_offset)
            model.roll()
        case ("expire", oldest, most):
            log.delete_expired(oldest, most)
            model.expire(oldest, most)
        case ("compact", now, retention, youngest):
            log.compact(now, delete_retention_ms=retention, youngest_ms=youngest)
            model.compact(now, retention, youngest)


@settings(max_examples=400)
@given(st.lists(OPERATIONS, max_size=40), st.integers(1, 5), st.floats(0, 1), st.booleans())
def test_reading_gives_what_the_model_has(operations: list, count: int, fraction: float, committed: bool) -> None:
    """From any position, in runs of any size, of either isolation: the model's records, each once, to the limit."""
    log, model = new_log(), Model()
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
    log, model = new_log(), Model()
    for operation in operations:
        apply(operation, log, model)
    limit = log.limit(committed)
    later = [e.offset for e in model.kept() if e.record.stamp[1] >= timestamp and e.offset < limit]
    assert log.offset_for_time(timestamp, committed) == min(later, default=limit)


def test_offsets_go_on_after_everything_was_deleted() -> None:
    """An offset is never used again."""
    log = PartitionLog("t", 0)
    for _ in range(3):
        log.append([LogRecord("t", 0, b"k", b"v", (1, 5), None)])
    log.delete_before(3)
    record = LogRecord("t", 0, b"k", b"v", (1, 5), None)
    log.append([record])
    assert record.offset() == 3
    assert log.read(3, 10, True) == ([record], 4)


def written(log: PartitionLog, count: int, producer_id: int | None = None) -> list[int | None]:
    """Appends records; returns the epochs of their leaders."""
    batch = [LogRecord("t", 0, b"k", b"v", (1, 5), None) for _ in range(count)]
    log.append(batch, producer_id)
    return [record.leader_epoch() for record in batch]


def test_a_leader_without_the_end_of_the_log_gives_offsets_again() -> None:
    log = PartitionLog("t", 0)
    assert written(log, 4) == [0] * 4
    log.elect()
    assert written(log, 2) == [1] * 2
    assert [log.epoch_end(epoch) for epoch in (0, 1, 2)] == [(0, 4), (1, 6), (-1, -1)]
    log.lose_from(3)
    assert (log.end_offset, log.last_stable_offset, log.leader_epoch) == (3, 3, 2)
    assert written(log, 5) == [2] * 5
    assert [log.epoch_end(epoch) for epoch in (0, 1, 2)] == [(0, 3), (0, 3), (2, 8)]
    records, position = log.read(0, 100, True)
    assert ([record.leader_epoch() for record in records], position) == ([0] * 3 + [2] * 5, 8)


def test_a_leader_that_lost_nothing_changes_no_record() -> None:
    log = PartitionLog("t", 0)
    written(log, 2)
    log.lose_from(2)
    log.elect()
    assert written(log, 1) == [2]
    assert [log.epoch_end(epoch) for epoch in (0, 1, 2)] == [(0, 2), (0, 2), (2, 3)]


def test_no_transaction_is_left_without_its_marker() -> None:
    """Nothing would ever end it, so that no reader of committed records came past it."""
    log = PartitionLog("t", 0)
    written(log, 1)
    written(log, 2, producer_id=1)
    log.end_transaction(1, committed=True)
    written(log, 2, producer_id=2)
    log.lose_from(3)
    assert (log.end_offset, log.last_stable_offset) == (1, 1)
    log.end_transaction(2, committed=True)
    written(log, 1)
    assert log.last_stable_offset == log.end_offset == 3
    assert [record.offset() for record in log.read(0, 10, True)[0]] == [0, 2]


def test_a_transaction_whose_first_records_were_deleted_is_lost_up_to_there() -> None:
    log = PartitionLog("t", 0)
    written(log, 3, producer_id=1)
    log.end_transaction(1, committed=True)
    log.delete_before(2)
    log.lose_from(3)
    assert (log.start_offset, log.end_offset) == (2, 2)
