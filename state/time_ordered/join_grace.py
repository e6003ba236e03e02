"""The buffer of a join of a stream with a versioned table, with grace (KIP-923, semantics 65).

Every record is kept, also several of one key and time, until the buffer's stream time has passed its own by the grace
period. Rows stand under ``0x00``, time, key and a sequence number, on the changelog too, and are thus their own index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from processor_api.errors import StateError, StoreError
from processor_api.record import NO_TIMESTAMP, HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.texts import repr_of
from state.engine.port import Batch, Engine
from state.formats.buffer_value import BufferValue, read_buffer_value
from state.formats.keys import read_window_key_by_time, window_key_by_time
from state.row_format.codec import PLAIN, RowCodec
from state.time_ordered.buffer import Buffer, Callback, open_buffer, read_row, row_size, written
from state.time_ordered.index import ENTRIES, FACTS_KEY, BufferIndex, check_facts, invalidate, time_of
from state.write_buffer.buffer import Log
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind
from state.write_buffer.stored_rows import StoredFamily, StoredRow

FAMILY = "join-buffer"
MAX_SEQUENCE = 0x7FFFFFFF
TIME_BYTES = 8


class JoinBuffer(Buffer):
    """The buffer of one join; users see it as a :class:`~state.time_ordered.buffer.BufferView`."""

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening, _logged(opening.log), FAMILY, log_each=opening.log_each)
        self._grace: int = opening.builder.supplier.parameters["grace_ms"]
        if not self.index.counted:
            for key, row in self.rows.family.range(*ENTRIES):
                self.index.count(_size(key, read_row(row, self.name)))
        self.min_timestamp = self.index.min_timestamp()

    def put(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> bool:
        """Buffers a record at its timestamp; ``False``: it is too late for that, and nothing has changed.

        :raises StoreError: if a serde fails, key or value are null or the timestamp negative; nothing has changed.
        """
        self._check_time(timestamp)
        index = self.index
        if timestamp < index.stream_time - self._grace:
            return False
        if value is None:
            raise StoreError(f"store {self.name!r} does not accept null values", store=self.name)
        raw, data = self._write_key(key), self._write_value(value)
        sequence = index.sequence + 1 & MAX_SEQUENCE
        entry = window_key_by_time(raw, timestamp, sequence)
        row = BufferValue(self._context(timestamp, headers), None, None, data, 0)
        self._put(entry, written(row), NO_TIMESTAMP)
        index.sequence = sequence
        index.add(entry, _size(entry, row))
        if timestamp > index.stream_time:
            index.stream_time = timestamp
        if timestamp < self.min_timestamp:
            self.min_timestamp = timestamp
        return True

    @property
    def due_until(self) -> int:
        """The time in ms up to which grace periods have passed."""
        return self.index.stream_time - self._grace

    @property
    def due_from(self) -> int:
        """The stream time at which the first record is sent on."""
        return self.min_timestamp + self._grace

    @property
    def due(self) -> bool:
        """Whether the grace period of the next record has passed."""
        return self.min_timestamp <= self.index.stream_time - self._grace

    def evict_while(self, predicate: Callable[[], bool], callback: Callback, *, early: bool = False) -> None:
        """Takes out the records whose grace period has passed, in order of time, then key, as long as the predicate
        holds. A record is gone when the callback has returned; if it raises, the record stays.

        :param early: also those whose grace period has not passed.
        """
        index = self.index
        while (
            self.min_timestamp <= index.stream_time - self._grace or (early and index.num_records > 0)
        ) and predicate():
            entry = index.first()
            assert entry is not None
            value = self._row(entry)
            assert value.new is not None
            self._hand_out(callback, read_window_key_by_time(entry)[0], value)
            self._put(entry, None, NO_TIMESTAMP)
            index.remove_first(entry, _size(entry, value))
            first = index.first() if index.num_records else None
            self.min_timestamp = index.min_timestamp() if first is None else time_of(first)

    def _value_of(self, row: BufferValue) -> Any:
        assert row.new is not None
        return self._read_value(row.new)


def _size(key: bytes, value: BufferValue) -> int:
    """Returns the bytes that Kafka Streams counts for a row; the time is in the key, and not counted twice."""
    return row_size(key, value) - TIME_BYTES


def _logged(log: Callable[..., None] | None) -> Log | None:
    """Records of the changelog have no time of their own."""
    if log is None:
        return None
    write = log
    return lambda key, row, timestamp: write(key, row, NO_TIMESTAMP)


def _open(opening: Opening) -> OpenStore:
    return open_buffer(opening, JoinBuffer(opening))


def _restoring(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    """Rows as they are, and from all keys the stream time and the last sequence number. They are counted when the
    buffer is opened."""
    name = builder.name
    family = engine.family(f"{name}.{codec.family_suffix}")
    known = BufferIndex(family, writes_entries=False)

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        handle = family.handle
        for key, row in zip(keys, values, strict=True):
            try:
                _, time, sequence = read_window_key_by_time(key)
            except ValueError as error:
                raise _not_ours(name, error) from error
            if key >= FACTS_KEY or key >= ENTRIES[1]:
                raise _not_ours(name, ValueError(f"key {repr_of(key)}"))
            known.stream_time, known.sequence = max(known.stream_time, time), max(known.sequence, sequence)
            if row is None:
                batch.delete(key, handle)
            else:
                batch.put(key, row, handle)
        invalidate(batch, handle, known.sequence, known.stream_time)

    return restore


def _records(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[ChangelogRecord]:
    """Yields the rows as they are. A deletion with the stream time and the last sequence number comes before them: the
    records that had them may have left the buffer, and a restore finds both in the keys."""
    family = engine.family(f"{builder.name}.{codec.family_suffix}")
    known = BufferIndex(family, writes_entries=False)
    if known.stream_time >= 0:
        key = window_key_by_time(b"", known.stream_time, known.sequence)
        yield ChangelogRecord(key, None, NO_TIMESTAMP, None)
    for row in codec.logged(family.range(*ENTRIES)):
        yield ChangelogRecord(*row, None)


def _not_ours(store: str, error: ValueError) -> StateError:
    return StateError(
        f"store {store!r} cannot be restored: its changelog has a key that a join buffer cannot have ({error}); the"
        " topic may have been written by a store of another kind",
        store=store,
    )


def _stored(key: bytes, row: bytes) -> StoredRow | None:
    if key == FACTS_KEY:
        check_facts(row)
        return None
    name, _, sequence = read_window_key_by_time(key)
    found = read_buffer_value(row)
    return StoredRow(name, found.new, found.context.timestamp, found.context.headers, {"sequence": sequence})


KINDS = {
    "join-buffer": StoreKind(
        codec=replace(PLAIN, family_suffix=FAMILY),
        changelog_form=ChangelogForm.CHANGES_BY_TIME,
        time_first=True,
        open=_open,
        restoring=_restoring,
        changelog_records=_records,
        offline={FAMILY: StoredFamily(_stored, ("timestamp", "headers", "sequence"))},
    )
}
