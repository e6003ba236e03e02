"""The buffer of a suppression: the last change of each key, at the time of the first (KIP-328, semantics 70 to 72).

The row of a key is that of the changelog, and is logged with the commit, like the last update of a key in other stores;
a row that leaves the buffer is deleted from the changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from processor_api.errors import StateError, StoreError
from processor_api.record import NO_TIMESTAMP, HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from state.engine.port import Batch, Engine
from state.formats.buffer_value import (
    VERSION,
    BufferContext,
    BufferValue,
    ValuePrefixes,
    read_any_version,
    read_buffer_value,
)
from state.formats.values import read_value_with_headers, write_prefix
from state.row_format.codec import PLAIN, RowCodec
from state.time_ordered.buffer import Buffer, Callback, open_buffer, read_row, row_size, written
from state.time_ordered.index import ENTRIES, FACTS_KEY, check_facts, entry_of, invalidate, time_of
from state.write_buffer.buffer import Log
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind, logged_rows
from state.write_buffer.stored_rows import StoredFamily, StoredRow

TIMES = "suppressed-times"
"""Suffix of the index's family."""

_VERSION: HeaderList = [("v", VERSION)]
PRIOR, OLD = "vh.prior", "vh.old"
"""The headers of a changelog record with the headers and the timestamp of its prior and its old value."""
_NOT_KNOWN = write_prefix(NO_TIMESTAMP, None)


class ChangeBuffer(Buffer):
    """The buffer of one suppression; changes are tuples ``(new, old)`` or longer."""

    def __init__(self, opening: Opening) -> None:
        self._keeps_headers = keeps_headers(opening.builder)
        super().__init__(opening, _logged(opening.log, keeps_headers=self._keeps_headers), TIMES, log_each=False)
        if not self.index.counted:
            for key, row in self.rows.family.range():
                value = read_row(row, self.name)
                self.index.add(entry_of(value.time, key), row_size(key, value))
        self.min_timestamp = self.index.min_timestamp()
        self.sends_prior = False
        """Whether the old value of a change that leaves is the last that nodes downstream got, and not that of the
        update before it, which they may never have got."""
        self._leaving: bytes | None = None
        """The key whose change is being handed out."""

    def put(self, time: int, key: Any, change: Any, timestamp: int, headers: HeaderList | None) -> None:
        """Buffers a change instead of the one that is buffered for its key, which keeps its time.

        :param time: when the key may leave, in ms.
        :param timestamp: the record's; what else is kept of its context is that of the current record.
        :raises StoreError: if a serde fails, the key is null or the time negative; nothing has changed.
        """
        self._check_time(time)
        if change is None:
            raise StoreError(f"store {self.name!r} needs changes, got None", store=self.name)
        raw, new = self._write_key(key), self._write_value(change[0])
        index, found = self.index, self._get(raw)
        context = self._context(timestamp, headers)
        before = None if found is None else read_row(found[0], self.name)
        old = self._write_old(change[1], before)
        if before is None:
            prefixes = self._prefixes(old, None) if self._keeps_headers else None
            value = BufferValue(context, old, old, new, time, prefixes)
            self._put(raw, written(value), timestamp)
            index.add(entry_of(time, raw), row_size(raw, value))
            if time < self.min_timestamp:
                self.min_timestamp = time
            return
        prefixes = self._prefixes(old, before) if self._keeps_headers else None
        value = BufferValue(context, before.prior, old, new, before.time, prefixes)
        self._put(raw, written(value), timestamp)
        index.resize(row_size(raw, value) - row_size(raw, before))

    @staticmethod
    def _prefixes(old: bytes | None, before: BufferValue | None) -> ValuePrefixes:
        """Returns headers and timestamps of the prior and the old value of a change: those of the change before it,
        which brought the old value. Nothing is known of a value that was not buffered."""
        if before is None or before.new is None:
            prefix = _NOT_KNOWN
        else:
            prefix = write_prefix(before.context.timestamp, before.context.headers)
        old_prefix = None if old is None else prefix
        return ValuePrefixes(old_prefix if before is None else _kept_prefixes(before).prior, old_prefix)

    def waits_from(self, key: Any) -> int | None:
        """Returns the time at which a change of the key is buffered; ``None`` if none is.

        :raises StoreError: if the key cannot be written.
        """
        found = self._get(self._write_key(key))
        return None if found is None else read_row(found[0], self.name).time

    def evict_while(self, predicate: Callable[[], bool], callback: Callback) -> None:
        """Removes changes in order of time, then key, as long as the predicate holds.

        A change is gone when the callback has returned; if it raises, the change stays. Meanwhile it does not count as
        buffered (semantics 153).
        """
        index = self.index
        while index.num_records and predicate():
            entry = index.first()
            assert entry is not None
            # Behind a zero byte and eight of the time.
            raw = entry[9:]
            value = self._row(raw)
            self._leaving = raw
            try:
                self._hand_out(callback, raw, value)
            finally:
                self._leaving = None
            self._put(raw, None, NO_TIMESTAMP)
            index.remove_first(entry, row_size(raw, value))
            first = index.first() if index.num_records else None
            self.min_timestamp = index.min_timestamp() if first is None else time_of(first)

    def _value_of(self, row: BufferValue) -> Any:
        new = None if row.new is None else self._read_value(row.new)
        prefixes = row.prefixes or ValuePrefixes(None, None)
        old, prefix = (row.prior, prefixes.prior) if self.sends_prior else (row.old, prefixes.old)
        return new, None if old is None else self._read_old(old, prefix)

    def _write_old(self, old: Any, before: BufferValue | None) -> bytes | None:
        """Writes the old value of a change, with the headers of the change before it where values keep theirs: none if
        that was not buffered."""
        cursor = self._cursor
        if not self._keeps_headers or not cursor.hands_headers:
            return self._write_value(old)
        saved = cursor.headers
        cursor.headers = None if before is None or before.new is None else before.context.headers
        try:
            return self._write_value(old)
        finally:
            cursor.headers = saved

    def _read_old(self, old: bytes, prefix: bytes | None) -> Any:
        """Reads the old value of a change, with its own headers if they are kept and a serde takes them."""
        cursor = self._cursor
        if prefix is None or not cursor.hands_headers:
            return self._read_value(old)
        saved = cursor.headers
        cursor.headers = read_value_with_headers(prefix)[2]
        try:
            return self._read_value(old)
        finally:
            cursor.headers = saved

    def prior_value_for_buffered(self, key: Any) -> tuple[bool, Any]:
        """Returns whether a change of the key is buffered, and the key's value before it, which is the last that nodes
        downstream got."""
        raw = self._write_key(key)
        found = None if raw == self._leaving else self._get(raw)
        if found is None:
            return False, None
        prior = read_row(found[0], self.name).prior
        return True, None if prior is None else self._read_value(prior)


def keeps_headers(builder: StoreBuilder[Any, Any]) -> bool:
    """Whether the old values of a buffer keep headers and timestamps of their own (``dsl.store.format``)."""
    return bool(builder.supplier.parameters.get("headers"))


def _logged(log: Callable[..., None] | None, *, keeps_headers: bool) -> Log | None:
    """Logs rows as they stand on the changelog: without a time of their own, and with the version of their format."""
    if log is None:
        return None
    write = log

    def logged(key: bytes, row: bytes | None, timestamp: int) -> None:
        write(key, row, NO_TIMESTAMP, None if row is None else _VERSION)

    def logged_with_headers(key: bytes, row: bytes | None, timestamp: int) -> None:
        if row is None:
            write(key, None, NO_TIMESTAMP, None)
        else:
            data, headers = _with_own_headers(read_buffer_value(row))
            write(key, data, NO_TIMESTAMP, headers)

    return logged_with_headers if keeps_headers else logged


def _with_own_headers(value: BufferValue) -> tuple[bytes, HeaderList]:
    """Returns a row that keeps headers as its record on the changelog has it: the value and the headers."""
    return written(value._replace(prefixes=None)), _headers_of(value)


def _headers_of(value: BufferValue) -> HeaderList:
    """Returns the headers of a row on the changelog."""
    prior, old = _kept_prefixes(value)
    headers = list(_VERSION)
    if prior is not None and not value.is_old_prior:
        headers.append((PRIOR, prior))
    if old is not None:
        headers.append((OLD, old))
    return headers


def _kept_prefixes(value: BufferValue) -> ValuePrefixes:
    """Returns the prefixes of a row; of one that was written without them, that there were no headers, and the
    timestamp of its record."""
    return _restored_prefixes(value, []) if value.prefixes is None else value.prefixes


def _restored_prefixes(value: BufferValue, headers: HeaderList) -> ValuePrefixes:
    """Returns the prefixes that the headers of a changelog record hold."""
    given, without = dict(headers), write_prefix(value.context.timestamp, None)
    old = None if value.old is None else given.get(OLD) or without
    if value.prior is None:
        return ValuePrefixes(None, old)
    shared = old if value.prior == value.old else None
    return ValuePrefixes(given.get(PRIOR) or shared or without, old)


def _open(opening: Opening) -> OpenStore:
    return open_buffer(opening, ChangeBuffer(opening))


def _restoring(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    """Returns how the buffer is restored: rows of this version as they are, rows of older versions converted.

    Rows of version 0 lack topic, partition and offset of their records' context; these stay unknown. The index is built
    again when the buffer is opened.
    """
    name, with_headers = builder.name, keeps_headers(builder)
    family, times = engine.family(f"{name}.{codec.family_suffix}"), engine.family(f"{name}.{TIMES}")

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        batch.delete_range(*ENTRIES, times.handle)
        invalidate(batch, times.handle, 0, NO_TIMESTAMP)
        seen: dict[bytes, bytes | None] = {}
        handle = family.handle
        for key, value, timestamp, given in zip(keys, values, timestamps, headers, strict=True):
            row = None
            if value is not None:
                # The engine does not have this batch yet; only a row of an older version asks at all.
                known = partial(seen.get, key) if key in seen else partial(family.get, key)
                row = _current(name, value, timestamp, given or [], known)
                if with_headers:
                    change = read_row(row, name)
                    row = written(change._replace(prefixes=_restored_prefixes(change, given or [])))
                batch.put(key, row, handle)
            else:
                batch.delete(key, handle)
            seen[key] = row

    return restore


def _records(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[ChangelogRecord]:
    """Yields the rows as the buffer logs them; a restore makes the index of them."""
    with_headers = keeps_headers(builder)
    for key, row, timestamp in logged_rows(builder, engine, codec):
        data, headers = _with_own_headers(read_row(row, builder.name)) if with_headers else (row, list(_VERSION))
        yield ChangelogRecord(key, data, timestamp, headers)


def _current(store: str, data: bytes, timestamp: int, headers: HeaderList, known: Callable[[], bytes | None]) -> bytes:
    """Returns a row from a changelog record of any version."""
    version = next((value for name, value in reversed(headers) if name == "v"), None)
    try:
        if version == VERSION:
            read_buffer_value(data)
            return data
        before = known()
        previous = None if before is None else read_buffer_value(before).prior
        record = BufferContext(timestamp, -1, "", -1, headers)
        value = read_any_version(version, data, record, previous, is_buffered=before is not None)
    except ValueError as error:
        raise StateError(
            f"store {store!r} cannot be restored: its changelog has a record that a suppression cannot have ({error});"
            " the topic may have been written by a store of another kind",
            store=store,
        ) from error
    return written(value)


def _stored(key: bytes, row: bytes) -> StoredRow:
    found = read_buffer_value(row)
    return StoredRow(key, found.new, found.context.timestamp, found.context.headers, {"leaves_at": found.time})


def _stored_times(key: bytes, row: bytes) -> None:
    if key == FACTS_KEY:
        check_facts(row)
    elif len(key) < 9 or row:
        raise ValueError(f"a row of the index must have at least 9 bytes and no value, got {len(key)}")


KINDS = {
    "change-buffer": StoreKind(
        codec=replace(PLAIN, family_suffix="suppressed"),
        changelog_form=ChangelogForm.CHANGES,
        open=_open,
        restoring=_restoring,
        changelog_records=_records,
        families=(TIMES,),
        offline={
            "suppressed": StoredFamily(_stored, ("timestamp", "headers", "leaves_at")),
            TIMES: StoredFamily(_stored_times),
        },
    ),
}
