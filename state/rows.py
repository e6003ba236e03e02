"""The rows of one store between a processor and the engine.

One structure is the cache (what to forward, and when), the source of the changelog and the isolation of what is not
committed (docs/design.md, decision 1). A row is in up to three places, looked up in this order:

* `dirty`: put since the last drain, not logged nor forwarded yet; only with caching. In order of last update.
* `clean`: every other row known, be it drained and not yet in the engine or equal to the engine. Bounded; it is the
  read cache as well. Rows that are drained stay in it until they are applied.
* the engine.

`drained` holds the bytes of rows that were logged and wait for the commit. Nothing reaches the engine before
:meth:`Rows.apply`. The dictionaries are cleared, never replaced, since the functions made for the hot path hold them.

An entry is a tuple that starts with (value, timestamp); a dirty one goes on with (headers, source, offset) of the
record that put it, and has its message in place of the offset where error handlers may ask for it. A value is kept
decoded if its serde says that it comes back exactly, else as bytes, so that a failing serde fails at the put and that a
value changed in place by its owner does not change the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sortedcontainers import SortedDict

from processor_api.record import HeaderList
from processor_api.serde import Serde, Serdes
from state.budget import Budget
from state.checked import reader
from state.codec import RowCodec
from state.cursor import Cursor
from state.engine import Batch, Engine
from state.merge import merged

__all__ = ["Entry", "FlushCallback", "Log", "Rows"]

Entry = tuple[Any, ...]
Log = Callable[[bytes, bytes | None, int], None]
"""``(key, value or None, timestamp_ms)`` to the changelog."""
FlushCallback = Callable[[Any, Any, Any, int, HeaderList | None], None]
"""``(key, new_value, old_value, timestamp_ms, headers)`` of a cached change; the old value only if asked for."""

ENTRY_OVERHEAD_BYTES = 45
"""Fixed part of what Kafka Streams' cache counts for an entry: links, dirty flag, and context without the topic."""

_UNKNOWN = object()
"""In place of the old value of a row that was put and deleted again between two drains."""

LEAST_GROWTH_BYTES = 64 << 10
"""By how much a cache that is full of uncommitted rows grows at least between two tries to evict."""

FIXED_ENTRY_BYTES = ENTRY_OVERHEAD_BYTES + 8
"""An entry without its key, for values of fixed size."""


class Rows:
    """See the module's text. `get` and `put` are functions made by :func:`state.row_functions.hot_functions`."""

    def __init__(
        self,
        *,
        name: str,
        engine: Engine,
        codec: RowCodec,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        cursor: Cursor,
        budget: Budget,
        log: Log | None,
        caching: bool,
    ) -> None:
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
        self.sized_values = value_serde.exact is None or value_serde is Serdes.STRING or value_serde is Serdes.BYTES
        self.cursor = cursor
        self.budget = budget
        self.log = log
        self.cached = caching and budget.cache_limit > 0
        self.dirty: dict[Any, Entry] = {}
        self.clean: dict[Any, Entry] = {}
        self.drained: dict[Any, tuple[bytes, bytes | None, int]] = {}
        self._callback: FlushCallback | None = None
        self._wants_old = False
        self._index: SortedDict[bytes, Any] | None = None
        self._fresh: list[Any] = []
        self._pending_bytes = 0
        self._evict_from = 0
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
        self._wants_old = old_values

    # ------------------------------------------------------------------ slow paths of get and put

    def key_bytes(self, key: Any) -> bytes:
        """The row key's bytes; a row key is a key as it is where its serde is exact, else its bytes."""
        return self.key_serde.serialize(key) if self.plain_keys else key

    def key_of(self, row_key: Any) -> Any:
        return row_key if self.plain_keys else self.read_key(row_key)

    def miss(self, key: Any) -> Entry | None:
        """Reads a row of the engine that is not in memory, and keeps it."""
        row = self.family.get(self.key_bytes(key))
        if row is None:
            return None
        data, timestamp = self.codec.read(row)
        entry = self.clean[key] = (self.stored(data), timestamp)
        self.budget.cached += self.cost(key, entry[0])
        if self.budget.cached > self.budget.cache_limit:
            self.evict(keep=key)
        return entry

    def stored(self, data: bytes) -> Any:
        """A value as it is kept in memory, from its bytes."""
        return data if self.value_serde.exact is None else self.read_value(data)

    def value_bytes(self, value: Any) -> bytes:
        """A kept value's bytes."""
        return value if self.value_serde.exact is None else self.value_serde.serialize(value)

    def value_of(self, value: Any) -> Any:
        """A kept value as its user knows it."""
        if value is None or self.value_serde.exact is not None:
            return value
        return self.read_value(value)

    def put_dirty(self, key: Any, entry: Entry) -> None:
        """A cached put of a row that was not dirty."""
        self.dirty[key] = entry
        cost = self.cost(key, entry[0]) if self.sized_values else len(key) + FIXED_ENTRY_BYTES
        budget = self.budget
        budget.cached = cached = budget.cached + cost
        if key not in self.drained:
            self._pending_bytes += cost
            budget.uncommitted += cost
            if self._index is not None:
                self._fresh.append(key)
        if cached > budget.cache_limit:
            self.evict(keep=key)

    def resized(self, key: Any, before: Any, after: Any) -> None:
        """A dirty row's value was replaced by one of perhaps another size."""
        grown = self.cost(key, after) - self.cost(key, before)
        self.budget.cached += grown
        if grown > 0 and self.budget.cached > self.budget.cache_limit:
            self.evict(keep=key)

    def note_message(self, size: int) -> None:
        """Dirty rows keep ``size`` bytes of messages more."""
        self.message_bytes += size
        self.budget.cached += size

    def _forget_messages(self) -> None:
        self.budget.cached -= self.message_bytes
        self.message_bytes = 0

    def note_drained(self, key: Any, cost: int) -> None:
        """A row was logged at its put and waits for the commit: counts it and notes it for range reads."""
        self._pending_bytes += cost
        self.budget.uncommitted += cost
        if self._index is not None:
            self._fresh.append(key)

    def note_clean(self, key: Any, grown: int) -> None:
        """Rows known in memory take ``grown`` bytes more."""
        budget = self.budget
        budget.cached += grown
        if budget.cached > budget.cache_limit:
            self.evict(keep=key)

    def cost(self, key: Any, value: Any) -> int:
        size = 8 if value is None or not self.sized_values else len(value)
        return len(key) + size + ENTRY_OVERHEAD_BYTES

    def evict(self, keep: Any = None) -> None:
        """Brings the cache under its limit: drops clean rows, oldest first, then drains the dirty ones if need be.

        Rows that wait for the commit cannot go. Where they alone are too many, it is tried again only when the cache
        has grown by a part of its size: each try passes all of them.
        """
        budget = self.budget
        if budget.cached < self._evict_from:
            return
        self._drop_clean(keep)
        if budget.cached > budget.cache_limit and self.drain():
            self._drop_clean(keep)
        if budget.cached > budget.cache_limit and self.drained:
            self._evict_from = budget.cached + (budget.cached >> 3) + LEAST_GROWTH_BYTES

    def _drop_clean(self, keep: Any) -> None:
        budget, clean, drained = self.budget, self.clean, self.drained
        excess = budget.cached - budget.cache_limit
        victims = []
        for key, entry in clean.items():
            if excess <= 0:
                break
            if key not in drained and key != keep:
                victims.append(key)
                excess -= self.cost(key, entry[0])
        for key in victims:
            budget.cached -= self.cost(key, clean.pop(key)[0])

    # ------------------------------------------------------------------ drain, apply, drop

    def drain(self) -> bool:
        """Logs and forwards what is dirty, in order of last update; tells whether there was anything."""
        if not self.dirty:
            return False
        rows = self.dirty.copy()  # no list of pairs: a hundred thousand tuples are work for the garbage collector
        self.dirty.clear()
        self._forget_messages()
        olds = self._log_all(rows)
        if olds:
            cursor = self.cursor
            saved = cursor.message, cursor.source, cursor.timestamp, cursor.headers
            try:
                self._forward_all(rows, olds)
            finally:
                cursor.message, cursor.source, cursor.timestamp, cursor.headers = saved
        return True

    def _log_all(self, rows: dict[Any, Entry]) -> list[Any]:
        """Moves rows from dirty to drained; returns the old value of each, if there is a callback. All of them, before
        any is forwarded: whoever gets one change finds the others in the store, and what it puts comes after them."""
        write_key, write_value = self.write_key, self.write_value
        clean, drained, log, cost_of, clean_pop = self.clean, self.drained, self.log, self.cost, self.clean.pop
        heard, wants_old = self._callback is not None, self._wants_old
        olds: list[Any] = []
        freed = 0
        remaining = iter(rows.items())
        try:
            for key, entry in remaining:
                value, timestamp = entry[0], entry[1]
                old = None
                if heard and (value is None or wants_old):
                    old = self._below(key)
                    if value is None and old is None:
                        freed += cost_of(key, None)
                        olds.append(_UNKNOWN)
                        continue  # never flushed and deleted again: nobody knows it (conformance 73)
                data = None if value is None else write_value(value)
                raw_key = write_key(key)
                if log is not None:
                    log(raw_key, data, timestamp)
                known = clean_pop(key, None)
                if known is not None:
                    freed += cost_of(key, known[0])
                clean[key] = (value, timestamp)
                drained[key] = (raw_key, data, timestamp)
                if heard:
                    olds.append(old)
        except BaseException:
            self.dirty.update([(key, entry), *remaining])
            raise
        finally:
            self.budget.cached -= freed
        return olds

    def _forward_all(self, rows: dict[Any, Entry], olds: list[Any]) -> None:
        callback, wants_old, cursor = self._callback, self._wants_old, self.cursor
        key_of, value_of = (None if self.plain_keys else self.key_of), (self.value_of if self.encoded else None)
        assert callback is not None
        message = cursor.message = cursor.late_message()
        for (key, (value, timestamp, headers, source, offset)), old in zip(rows.items(), olds, strict=True):
            if old is _UNKNOWN:
                continue
            message.origin = offset
            cursor.message, cursor.source = message, source
            cursor.timestamp, cursor.headers = timestamp, headers
            if value_of is not None:
                value, old = value_of(value), value_of(old)
            callback(key if key_of is None else key_of(key), value, old if wants_old else None, timestamp, headers)

    def _below(self, key: Any) -> Any:
        entry = self.clean.get(key) or self.miss(key)
        return None if entry is None else entry[0]

    def apply(self, batch: Batch) -> None:
        """Puts what was drained into a batch of the engine; call :meth:`applied` once it is written."""
        self.codec.fill(batch, self.family.handle, self.drained.values())

    def applied(self) -> None:
        """The engine holds what was drained."""
        clean, budget = self.clean, self.budget
        for key in [key for key, (_, data, _) in self.drained.items() if data is None]:
            entry = clean.get(key)
            if entry is not None and entry[0] is None:
                budget.cached -= self.cost(key, clean.pop(key)[0])
        self.drained.clear()
        budget.uncommitted -= self._pending_bytes
        self._pending_bytes = 0
        self._evict_from = 0
        self._index = None
        self._fresh.clear()
        if budget.cached > budget.cache_limit:
            self._drop_clean(None)

    def forget_below(self, key: bytes) -> None:
        """Forgets clean rows whose keys, which are bytes, are smaller: the engine does not hold them any more."""
        clean, drained = self.clean, self.drained
        for gone in [known for known in clean if known < key and known not in drained]:
            self.budget.cached -= self.cost(gone, clean.pop(gone)[0])

    def close(self) -> None:
        """Forgets everything that is not in the engine."""
        for key, entry in (*self.clean.items(), *self.dirty.items()):
            self.budget.cached -= self.cost(key, entry[0])
        self._forget_messages()
        self.budget.uncommitted -= self._pending_bytes
        self._pending_bytes = self._evict_from = 0
        for rows in (self.dirty, self.clean, self.drained):
            rows.clear()
        self._index = None
        self._fresh.clear()

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
        index = self._index
        key_bytes, dirty, clean = self.key_bytes, self.dirty, self.clean
        if index is None:
            index = self._index = SortedDict({key_bytes(key): key for keys in (dirty, self.drained) for key in keys})
        elif self._fresh:
            index.update({key_bytes(key): key for key in self._fresh})
        self._fresh.clear()
        keys = index.irange(low, high, inclusive=(True, False), reverse=reverse)
        found = ((raw, dirty.get(index[raw]) or clean.get(index[raw])) for raw in keys)
        return [(raw, entry) for raw, entry in found if entry is not None]
