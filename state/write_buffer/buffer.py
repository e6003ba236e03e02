"""The rows of one store between a processor and the engine.

One structure is the cache (what to forward, and when), the source of the changelog and the isolation of what is not
committed (docs/design.md#decisions). A row is in up to three places, looked up in this order:

* `dirty`: put since the last drain, not logged yet, and with caching not forwarded either. In order of last update.
  Empty where each put is logged at once.
* `clean`: every other row known, be it drained and not yet in the engine or equal to the engine. Bounded; it is the
  read cache as well. Rows that are drained stay in it until they are applied.
* the engine.

`drained` holds the bytes of rows that were logged and wait for the commit. Nothing reaches the engine before
:meth:`Rows.apply`. The dictionaries are cleared, never replaced, since the functions made for the hot path hold them.

An entry is a tuple that starts with (value, timestamp); a dirty one of a cache goes on with (headers, source, offset)
of the record that put it, and has its message in place of the offset where error handlers may ask for it. A value is
kept decoded if its serde says that it comes back exactly, else as bytes, so that a failing serde fails at the put and
that a value changed in place by its owner does not change the store.

Without caching a row is forwarded when it is put; it is logged at once as well, or like a cached one when it is drained
(docs/decisions/0007-changelog-updates.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from operator import itemgetter
from typing import Any

from sortedcontainers import SortedDict

from processor_api.record import HeaderList
from processor_api.serde import Serde, Serdes
from state.engine.port import Batch, Engine
from state.write_buffer.checked_serdes import reader
from state.write_buffer.engine_read import make_miss
from state.write_buffer.memory_budget import Budget
from state.write_buffer.overlay import merged
from state.write_buffer.record_context import Cursor
from state.write_buffer.row_codec import RowCodec

__all__ = ["Entry", "FlushCallback", "Log", "LogMany", "Rows", "RowsSettings"]

Entry = tuple[Any, ...]
Log = Callable[[bytes, bytes | None, int], None]
"""``(key, value or None, timestamp_ms)`` to the changelog."""
LogMany = Callable[[Iterator[tuple[bytes, bytes | None, int]]], None]
"""Logs rows one after the other; what it leaves in the iterator, behind the one at which it failed, was not logged."""
FlushCallback = Callable[[Any, Any, Any, int, HeaderList | None], None]
"""``(key, new_value, old_value, timestamp_ms, headers)`` of a cached change; the old value only if asked for."""

ENTRY_OVERHEAD_BYTES = 45
"""Fixed part of what Kafka Streams' cache counts for an entry: links, dirty flag, and context without the topic."""

LEAST_GROWTH_BYTES = 64 << 10
"""By how much a cache that is full of uncommitted rows grows at least between two tries to evict."""

WATCHED_COMMITS = 100
"""For so many commits keys are noted after somebody read a range."""

DROPPED_AT_ONCE = 4
"""A full cache drops its clean rows by the sixteenth: two to this power."""

_HEADERS = itemgetter(2)

FIXED_ENTRY_BYTES = ENTRY_OVERHEAD_BYTES + 8
"""An entry without its key, for values of fixed size."""


def _sized_cost(key: Any, value: Any) -> int:
    return len(key) + (8 if value is None else len(value)) + ENTRY_OVERHEAD_BYTES


def _fixed_cost(key: Any, value: Any) -> int:
    return len(key) + FIXED_ENTRY_BYTES


def _one_by_one(log: Log) -> LogMany:
    def log_many(rows: Iterator[tuple[bytes, bytes | None, int]]) -> None:
        for key, data, timestamp in rows:
            log(key, data, timestamp)

    return log_many


@dataclass(frozen=True, kw_only=True)
class RowsSettings:
    """Holds what the rows of one store are made with."""

    name: str
    engine: Engine
    codec: RowCodec
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    cursor: Cursor
    budget: Budget
    log: Log | None
    log_many: LogMany | None = None
    caching: bool
    log_each: bool
    """Whether each put of a store without a cache is logged when it happens, not the last of each key at the drain."""
    logs_headers: bool = False
    """Whether a put that is logged when it happens is logged with its headers."""


class Rows:
    """See the module's text. `get` and `put` are functions made by :mod:`state.write_buffer.fast_path`."""

    when_logged: Callable[[], None] | None = None
    """Called by each drain, when everything is logged and nothing of it is forwarded."""

    def __init__(self, settings: RowsSettings) -> None:
        name, engine, codec = settings.name, settings.engine, settings.codec
        key_serde, value_serde = settings.key_serde, settings.value_serde
        budget, log = settings.budget, settings.log
        self.name = name
        self.engine = engine
        self.codec = codec
        self.family = engine.family(f"{name}.{codec.family_suffix}")
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.read_key = reader(key_serde, "key", name)
        self.read_value = reader(value_serde, "value", name)
        self.plain_keys = key_serde is Serdes.STRING or key_serde is Serdes.BYTES
        self.encoded = value_serde.exact is None
        """Whether values are kept as bytes."""
        self.write_key: Callable[[Any], bytes] = self._trusted(key_serde) if self.plain_keys else bytes
        """A row key's bytes."""
        self.write_value: Callable[[Any], bytes] = bytes if self.encoded else self._trusted(value_serde)
        """A kept value's bytes."""
        self.sized_values = self.encoded or value_serde is Serdes.STRING or value_serde is Serdes.BYTES
        self.cost = _sized_cost if self.sized_values else _fixed_cost
        """``(key, value)`` to bytes."""
        self.cursor = settings.cursor
        self.budget = budget
        self.log = log
        self._log_many = settings.log_many or (log and _one_by_one(log))
        self.cached = settings.caching and budget.cache_limit > 0
        self.log_each = settings.log_each and not self.cached
        self.logs_headers = settings.logs_headers
        self.dirty: dict[Any, Entry] = {}
        self.clean: dict[Any, Entry] = {}
        self.drained: dict[Any, tuple[bytes, bytes | None, int]] = {}
        self.draining: dict[Any, Entry] = {}
        """What a drain is moving from `dirty` to `drained`, for readers in other threads: a row is always found in one
        of `dirty`, `draining`, `drained` and the engine by who looks in this order (state/read_views/key_value.py)."""
        self.read_engine = make_miss(self)  # made for this store
        self._callback: FlushCallback | None = None
        self.wants_old = False
        """Whether the old value of each change is asked for."""
        self.index: SortedDict[bytes, Any] | None = None
        """Keys of what is not in the engine, in order of their bytes: while somebody reads ranges."""
        self.fresh: list[Any] | None = None
        """Keys put since the last commit, while ranges are read (:meth:`watch`); another list with each commit."""
        self._indexed = self._watched_for = 0
        """How many of these the index has; and for how many commits there is a list."""
        self._watch_lock = threading.Lock()
        self._pending_bytes = self._evict_from = 0
        self._deleted: list[Any] = []
        self.message_bytes = 0
        """Of the messages that dirty rows keep."""

    @staticmethod
    def _trusted(serde: Serde[Any]) -> Callable[[Any], bytes]:
        """Writes values that were checked when they were put."""
        return serde.write_exact or serde.serialize

    # ------------------------------------------------------------------ for operators

    def on_flush(self, callback: FlushCallback, *, old_values: bool) -> None:
        """Sets who is told of cached changes when they are drained."""
        self._callback = callback
        self.wants_old = old_values

    def around_get(self, get: Callable[[Any], Entry | None]) -> Callable[[Any], Entry | None]:
        """What operators get of `get`: rows with rules of their own put them around it."""
        return get

    def around_put(self, put: Callable[..., None]) -> Callable[..., None]:
        """As :meth:`around_get`, of `put`."""
        return put

    # ------------------------------------------------------------------ slow paths of get and put

    def key_bytes(self, key: Any) -> bytes:
        """The row key's bytes; a row key is a key as it is where its serde is exact, else its bytes."""
        return self.key_serde.serialize(key) if self.plain_keys else key

    def key_of(self, row_key: Any) -> Any:
        return row_key if self.plain_keys else self.read_key(row_key)

    def miss(self, key: Any) -> Entry | None:
        """Reads a row of the engine that is not in memory, and keeps it if there is a cache."""
        return self.read_engine(key)

    @property
    def quick_miss(self) -> Callable[[Any], Entry | None]:
        """What :meth:`miss` does, for those who keep a function."""
        return self.read_engine if type(self).miss is Rows.miss else self.miss

    def stored(self, data: bytes) -> Any:
        """A value as it is kept in memory, from its bytes."""
        return data if self.encoded else self.read_value(data)

    def value_of(self, value: Any) -> Any:
        """A kept value as its user knows it."""
        return self.read_value(value) if self.encoded and value is not None else value

    def note_dirty(self, cost: int) -> None:
        """Dirty rows take ``cost`` bytes more: in a cache, or else waiting for the commit."""
        budget = self.budget
        if not self.cached:
            budget.uncommitted += cost
            return
        budget.dirty += cost
        if cost > 0 and budget.dirty + budget.clean > budget.cache_limit:
            self.evict()

    def note_logged(self, key: Any, value: Any, known: Entry | None) -> None:
        """A row was put, in place of ``known``, and logged at once; not yet in `drained`."""
        budget, cost = self.budget, self.cost(key, value)
        if value is None:
            self._deleted.append(key)
        if key not in self.drained:
            self._pending_bytes += cost
            budget.uncommitted += cost
        budget.clean += cost - (0 if known is None else self.cost(key, known[0]))
        if budget.clean + budget.dirty > budget.cache_limit:
            self.evict(keep=key)

    def note_key(self, key: Any) -> None:
        """A row was put into `dirty` or `drained` that may not have been there. Call it after that: who starts to watch
        in between finds the row."""
        fresh = self.fresh
        if fresh is not None:
            fresh.append(key)

    def watch(self) -> list[Any]:
        """Notes the keys that are put, in the list returned, until the next commit; then in another, for some commits.
        Any thread may ask. Keys of rows that are there already are not in it."""
        with self._watch_lock:
            self._watched_for = WATCHED_COMMITS
            if self.fresh is None:
                self.fresh = []
            return self.fresh

    def _end_watch(self) -> None:
        """Nothing waits for the commit any more, or only what was put in the middle of it."""
        self.index = None
        self._indexed = 0
        with self._watch_lock:
            self._watched_for = max(0, self._watched_for - 1)
            self.fresh = [] if self._watched_for else None

    def note_message(self, size: int) -> None:
        """Dirty rows keep ``size`` bytes of messages more."""
        self.message_bytes += size
        self.budget.dirty += size

    def _forget_messages(self) -> None:
        self.budget.dirty -= self.message_bytes
        self.message_bytes = 0

    def evict(self, keep: Any = None) -> None:
        """Brings the cache under its limit: drops clean rows, oldest first, then drains the dirty ones if need be.

        Rows that wait for the commit cannot go. Where they alone are too many, it is tried again only when the cache
        has grown by a part of its size: each try passes all of them.
        """
        budget = self.budget
        if budget.cached < self._evict_from:
            return
        self._drop_clean(keep)
        if self.cached and budget.cached > budget.cache_limit and self.drain():
            self._drop_clean(keep)
        if budget.cached > budget.cache_limit and self.drained:
            self._evict_from = budget.cached + (budget.cached >> 3) + LEAST_GROWTH_BYTES

    def _drop_clean(self, keep: Any) -> None:
        budget, clean, drained = self.budget, self.clean, self.drained
        excess = budget.cached - budget.cache_limit
        if excess > 0:  # some more, since a dictionary that lost its first keys is slow to give the next
            excess += budget.cache_limit >> DROPPED_AT_ONCE
        victims, freed, cost = [], 0, self.cost
        for key, entry in clean.items():
            if freed >= excess:
                break
            if key not in drained and key != keep:
                victims.append(key)
                freed += cost(key, entry[0])
        for key in victims:
            del clean[key]
        budget.clean -= freed

    # ------------------------------------------------------------------ drain, apply, drop

    def drain(self) -> bool:
        """Logs what is dirty, in order of last update, and forwards what a cache held back; tells whether there was
        anything."""
        dirty = self.dirty
        if not dirty:
            return False
        # No list of pairs: a hundred thousand tuples are work for the garbage collector.
        rows = self.draining = dirty.copy()
        dirty.clear()
        if self.message_bytes:
            self._forget_messages()
        held = self._size(rows)
        self.note_dirty(-held)
        try:
            olds = self._log_one(rows, held) if len(rows) == 1 else self._log_all(rows, held)
        except BaseException:
            self.dirty.update(self.draining)
            self.note_dirty(self._size(self.draining))
            raise
        finally:
            self.draining = {}
        if self.when_logged is not None:
            self.when_logged()
        if self._callback is not None:
            cursor = self.cursor
            saved = cursor.message, cursor.source, cursor.timestamp, cursor.headers
            try:
                self._forward_all(rows, olds)
            finally:
                cursor.message, cursor.source, cursor.timestamp, cursor.headers = saved
        return True

    def _size(self, rows: dict[Any, Entry]) -> int:
        keys = sum(map(len, rows))
        if not self.sized_values:
            return keys + len(rows) * FIXED_ENTRY_BYTES
        values = [8 if (value := entry[0]) is None else len(value) for entry in rows.values()]
        return keys + sum(values) + len(rows) * ENTRY_OVERHEAD_BYTES

    def _old_values(self, rows: dict[Any, Entry], deleted: list[Any]) -> Iterable[Any]:
        """The old value of each row. Takes out the rows that nobody knows of: put and deleted again since the last
        drain (semantics 73)."""
        for key in deleted:
            if self._below(key) is None:
                del rows[key]
        return [self._below(key) for key in rows] if self.wants_old else repeat(None)

    def _log_all(self, rows: dict[Any, Entry], size: int) -> Iterable[Any]:
        """Moves rows that take ``size`` bytes from dirty to drained; returns the old values. All of them, before any is
        forwarded: whoever gets one change finds the others in the store, and what it puts comes after them. After an
        error `draining` has those that were not moved."""
        deleted = [key for key, entry in rows.items() if entry[0] is None]
        olds: Iterable[Any] = ()
        if self._callback is not None:
            olds = self._old_values(rows, deleted)
            size = self._size(rows) if deleted else size
        write_key, write_value = self.write_key, self.write_value
        logged = [
            (write_key(key), None if entry[0] is None else write_value(entry[0]), entry[1])
            for key, entry in rows.items()
        ]
        left = iter(logged)
        try:
            if self._log_many is not None:
                self._log_many(left)
        except BaseException:
            count = len(logged) - sum(1 for _ in left) - 1
            moved = dict(islice(rows.items(), count))
            self._note_moved(moved, self._size(moved), deleted, logged)
            self.draining = dict(islice(rows.items(), count, None))
            raise
        self._note_moved(rows, size, deleted, logged)
        return olds

    def _log_one(self, rows: dict[Any, Entry], size: int) -> Iterable[Any]:
        """As `_log_all`, of one row that takes ``size`` bytes: where each record is committed, as a test driver does,
        the steps of many rows take twice as long."""
        [(key, entry)] = rows.items()
        value, timestamp = entry[:2]
        if value is None:
            return self._log_all(rows, size)
        clean, budget = self.clean, self.budget
        old = self._below(key) if self.wants_old and self._callback is not None else None
        row = self.write_key(key), self.write_value(value), timestamp
        if self.log is not None:
            self.log(*row)
        if key not in self.drained:
            self._pending_bytes += size
            budget.uncommitted += size
        known = clean.pop(key, None)
        budget.clean += size if known is None else size - self.cost(key, known[0])
        clean[key] = (value, timestamp)
        self.drained[key] = row
        return (old,)

    def _note_moved(
        self, rows: dict[Any, Entry], size: int, deleted: list[Any], logged: list[tuple[bytes, bytes | None, int]]
    ) -> None:
        """``rows``, which take ``size`` bytes, are drained; they are the first of those in ``logged``."""
        clean, drained, budget = self.clean, self.drained, self.budget
        pending = grown = size
        if drained:
            pending -= self._size({key: rows[key] for key in rows if key in drained})
        if drained or deleted or self.wants_old or not self.cached:  # else no clean row lies under a dirty one
            known = [*map(clean.pop, rows, repeat(None))]
            if not self.sized_values and all(known):
                grown = 0
            elif any(known):
                cost = self.cost
                grown -= sum([cost(key, entry[0]) for key, entry in zip(rows, known, strict=True) if entry])
        self._deleted += filter(rows.__contains__, deleted)
        if self.cached and (self.cursor.keeps_messages or any(map(_HEADERS, rows.values()))):
            rows = {key: entry[:2] for key, entry in rows.items()}  # else what is left of an entry is small
        clean.update(rows)
        drained.update(zip(rows, logged, strict=False))
        self._pending_bytes += pending
        budget.uncommitted += pending
        budget.clean += grown

    def _forward_all(self, rows: dict[Any, Entry], olds: Iterable[Any]) -> None:
        callback, cursor = self._callback, self.cursor
        key_of, value_of = (None if self.plain_keys else self.key_of), (self.value_of if self.encoded else None)
        assert callback is not None
        message = cursor.message = cursor.late_message()
        for (key, (value, timestamp, headers, source, offset)), old in zip(rows.items(), olds, strict=False):
            message.origin = offset
            cursor.message, cursor.source = message, source
            cursor.timestamp, cursor.headers = timestamp, headers
            if value_of is not None:
                value, old = value_of(value), value_of(old)
            callback(key if key_of is None else key_of(key), value, old, timestamp, headers)

    def _below(self, key: Any) -> Any:
        entry = self.clean.get(key) or self.miss(key)
        return None if entry is None else entry[0]

    def apply(self, batch: Batch) -> None:
        """Puts what was drained into a batch of the engine; call :meth:`applied` once it is written."""
        self.codec.fill(batch, self.family.handle, self.drained.values())

    def applied(self) -> None:
        """The engine holds what was drained."""
        clean, budget = self.clean, self.budget
        for key in self._deleted:
            entry = clean.get(key)
            if entry is not None and entry[0] is None:
                budget.clean -= self.cost(key, clean.pop(key)[0])
        self._deleted.clear()
        self.drained.clear()
        budget.uncommitted -= self._pending_bytes
        self._pending_bytes = 0
        self._evict_from = 0
        self._end_watch()
        if budget.cached > budget.cache_limit:
            self._drop_clean(None)

    def forget_below(self, key: bytes) -> None:
        """Forgets clean rows whose keys, which are bytes, are smaller: the engine does not hold them any more."""
        clean, drained = self.clean, self.drained
        for gone in [known for known in clean if known < key and known not in drained]:
            self.budget.clean -= self.cost(gone, clean.pop(gone)[0])

    def close(self) -> None:
        """Forgets everything that is not in the engine."""
        self.budget.clean -= self._size(self.clean)
        self.note_dirty(-self._size(self.dirty))
        self._forget_messages()
        self.budget.uncommitted -= self._pending_bytes
        self._pending_bytes = self._evict_from = 0
        self._deleted.clear()
        for rows in (self.dirty, self.clean, self.drained):
            rows.clear()
        self._watched_for = 0
        self._end_watch()

    # ------------------------------------------------------------------ ranges

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Live rows with ``low <= key < high`` in order, as they are now; values as they are kept."""
        overlay = self._overlay(low, high, reverse)
        below = self.family.range(low, high, reverse=reverse)
        read, stored = self.codec.read, self.stored

        def decode(row: bytes) -> Entry:
            data, timestamp = read(row)
            return stored(data), timestamp

        return merged(overlay, below, decode, reverse)

    def _overlay(self, low: bytes | None, high: bytes | None, reverse: bool) -> list[tuple[bytes, Entry]]:
        if not self.dirty and not self.drained:
            return []
        if low is not None and high is not None and low >= high:
            return []
        index = self.index
        key_bytes, dirty, clean = self.key_bytes, self.dirty, self.clean
        fresh = self.watch() if index is None or self.fresh is None else self.fresh
        if index is None:
            index = self.index = SortedDict({key_bytes(key): key for keys in (dirty, self.drained) for key in keys})
        elif self._indexed < len(fresh):
            index.update({key_bytes(key): key for key in islice(fresh, self._indexed, None)})
        self._indexed = len(fresh)
        keys = index.irange(low, high, inclusive=(True, False), reverse=reverse)
        found = ((raw, dirty.get(index[raw]) or clean.get(index[raw])) for raw in keys)
        return [(raw, entry) for raw, entry in found if entry is not None]
