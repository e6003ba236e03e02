"""The rows of one store between a processor and the engine.

One structure is the cache (what to forward, and when), the source of the changelog and the isolation of what is not
committed (docs/design.md#decisions). A row is in up to three places, looked up in this order:

* `dirty`: put since the last drain, not logged yet, and with caching not forwarded either. In order of last update.
  Empty where each put is logged at once.
* `clean`: every other row known, be it drained and not yet in the engine or equal to the engine. Bounded; it is the
  read cache as well. Rows that are drained stay in it until they are applied.
* the engine.

`drained` holds the bytes of rows that were logged and wait for the commit. Nothing reaches the engine before
:meth:`Rows.apply`. What other threads read of this, and the rules for that, is in
:mod:`state.write_buffer.shared_rows`.

A dirty entry of a cache continues after value and timestamp with (headers, source, offset) of the record that put it,
and has its message instead of the offset where error handlers may ask for it.

Without caching a row is forwarded when it is put; it is logged at once as well, or like a cached one when it is drained
(docs/decisions/changelogs-and-restore.md, "Changelogs log the last update of a key per commit").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import filterfalse, islice, repeat
from operator import itemgetter
from typing import Any

from processor_api.record import HeaderList
from state.engine.port import Batch
from state.row_format.row_format import Entry, fixed_size
from state.write_buffer.memory_budget import Budget
from state.write_buffer.read_counts import checked_read
from state.write_buffer.row_reader import Overlay, ReadRule, RowReader
from state.write_buffer.shared_rows import Logged, SharedRows
from state.write_buffer.stored_rows import NextTry, WaitingRows

Log = Callable[[bytes, bytes | None, int], None]
"""``(key, value or None, timestamp_ms)`` to the changelog."""
LogMany = Callable[[Iterator[Logged]], None]
"""Logs rows one after the other; what it leaves in the iterator, behind the one at which it failed, was not logged."""
FlushCallback = Callable[[Any, Any, Any, int, HeaderList | None], None]
"""``(key, new_value, old_value, timestamp_ms, headers)`` of a cached change; the old value only if asked for."""

DROPPED_AT_ONCE = 4
"""A full cache drops its clean rows by the sixteenth: two to this power."""

_HEADERS = itemgetter(2)


@dataclass(frozen=True, kw_only=True)
class Logging:
    """The calls by which the rows of a store reach its changelog."""

    log: Callable[..., None] | None
    """``(key, value or None, timestamp_ms)``, and the headers where it logs them; ``None`` without a changelog."""
    log_many: LogMany | None = None
    """Logs many rows at once, as `log` does one; ``None`` if there is only `log`."""
    each: bool = False
    """Whether a store without a cache logs each put when it happens, or the last of each key at the drain. In a drain,
    deletions are then logged where they happened, else last."""
    headers: bool = False
    """Whether a put that is logged when it happens is logged with its headers."""

    @property
    def together(self) -> LogMany | None:
        """Logs many rows at once; ``None`` without a changelog."""
        return self.log_many or (None if self.log is None else _one_by_one(self.log))


UNLOGGED = Logging(log=None)
"""The logging of rows that have no changelog, or that other code logs."""


def _one_by_one(log: Log) -> LogMany:
    def log_many(rows: Iterator[Logged]) -> None:
        for key, data, timestamp in rows:
            log(key, data, timestamp)

    return log_many


def _make_read_through(rows: Rows) -> Callable[[Any], tuple[Any, int] | None]:
    """Returns the function that reads a row of the engine, and keeps it if there is a cache. It runs for every record
    of a store that is larger than its cache, so it holds what it needs in its closure."""
    format, family, clean, budget, make_room = rows.format, rows.family, rows.clean, rows.budget, rows.make_room
    key_bytes, entry_of = format.keys.write, format.codec.reading(format.values.decode)
    # Without the call that words the engine's errors: `slow_path` reads again where there is one.
    find = getattr(family, "bare_get", family.get)
    overhead, sized = format.cost(b"", b""), format.values.sized

    def slow_path(key: Any) -> tuple[Any, int] | None:
        """The same where something fails: with errors that say where, and what strings have instead of bad bytes."""
        row = family.get(key_bytes(key))
        return None if row is None else format.entry_of(row)

    def read_through(key: Any) -> tuple[Any, int] | None:
        entry: tuple[Any, int] | None
        try:
            row = find(key_bytes(key))
            if row is None:
                return None
            entry = entry_of(row)
        except Exception:
            entry = slow_path(key)
            if entry is None:
                return None
        limit = budget.cache_limit  # of now: threads come and go
        if limit:
            clean[key] = entry
            budget.clean = held = budget.clean + len(key) + overhead + (len(entry[0]) if sized else 0)
            if held + budget.dirty > limit:
                make_room(key)
        return entry

    return read_through


class Rows(RowReader):
    """The write buffer of one store. Its `get` and `put` are functions made by :mod:`state.write_buffer.fast_path`.

    :param caching: holds changes back until the drain, unless the budget has no room for a cache.
    :param when_logged: called by each drain of a cache, when everything is logged and nothing of it is forwarded, with
        the keys of the rows that wait for the commit.
    """

    def __init__(
        self,
        shared: SharedRows,
        *,
        budget: Budget,
        logging: Logging,
        caching: bool,
        when_logged: Callable[[Collection[Any]], None] | None = None,
        rule: ReadRule | None = None,
    ) -> None:
        super().__init__(shared, rule)
        self.budget = budget
        self.logging = logging
        self.cached = caching and budget.cache_limit > 0
        self._when_logged = when_logged if self.cached else None
        self._uncommitted = shared.uncommitted
        self._read_through = checked_read(_make_read_through(self), budget)
        self._callback: FlushCallback | None = None
        self.wants_old = False
        """Whether the old value of each change is asked for."""
        self.waiting = WaitingRows(shared.uncommitted, self.format.keys.bytes_of)
        self._next_eviction, self._next_room = NextTry(), NextTry()
        self.message_bytes = 0
        """Bytes of the messages that dirty rows keep."""

    @property
    def log_each(self) -> bool:
        """Whether each put is logged when it happens."""
        return self.logging.each and not self.cached

    # ------------------------------------------------------------------ for operators

    def on_flush(self, callback: FlushCallback, *, old_values: bool) -> None:
        """Sets the function that is called with each cached change when it is drained."""
        self._callback = callback
        self.wants_old = old_values

    def around_put(self, put: Callable[..., None]) -> Callable[..., None]:
        """Returns `put` as users and operators get it: rows with rules of their own apply them around it."""
        return put

    # ------------------------------------------------------------------ slow paths of get and put

    @property
    def read_through(self) -> Callable[[Any], Entry | None]:
        return self._read_through

    def note_dirty(self, cost: int) -> None:
        """Counts ``cost`` bytes more of dirty rows: in the cache, or else as waiting for the commit."""
        self._count_dirty(cost)
        budget = self.budget
        # A put that makes a row smaller needs no room.
        if self.cached and cost > 0 and budget.dirty + budget.clean > budget.cache_limit:
            self.evict()

    def _count_dirty(self, cost: int) -> None:
        if self.cached:
            self.budget.dirty += cost
        else:
            self.budget.uncommitted += cost

    def note_logged(self, key: Any, value: Any, known: Entry | None) -> None:
        """Counts a row that was put instead of ``known`` and logged at once; it is not yet in `drained`."""
        budget, waiting, cost = self.budget, self.waiting, self.format.cost(key, value)
        if value is None:
            waiting.deleted.append(key)
        if key not in self.drained:
            waiting.bytes += cost
            budget.uncommitted += cost
        budget.clean += cost - (0 if known is None else self.format.cost(key, known[0]))
        if budget.clean + budget.dirty > budget.cache_limit:
            self.evict(keep=key)

    def note_key(self, key: Any) -> None:
        """A row was put into `dirty` or `drained` that may not have been there. Call it after that: a reader that
        begins to watch in between finds the row."""
        fresh = self._uncommitted.fresh
        if fresh is not None:
            fresh.append(key)

    def note_message(self, size: int) -> None:
        """Counts ``size`` bytes more of messages that dirty rows keep."""
        self.message_bytes += size
        self.budget.dirty += size

    def _forget_messages(self) -> None:
        self.budget.dirty -= self.message_bytes
        self.message_bytes = 0

    def evict(self, keep: Any = None) -> None:
        """Brings the cache under its limit after a put: drops clean rows, oldest first, then drains the dirty ones if
        need be. In the middle of a drain, which has made the put, they are drained after it (`Budget.sending`).
        """
        budget = self.budget
        if budget.cached < self._next_eviction.least:
            return
        self._drop_clean(keep)
        if self.cached and budget.cached > budget.cache_limit:
            if budget.sending:
                # As a key it stands there once, in the order of asking: methods of one object are equal.
                budget.postponed[self.evict] = None
            elif self.drain():
                self._drop_clean(keep)
        if budget.cached > budget.cache_limit and self.drained:
            self._next_eviction.put_off(budget.cached)

    def make_room(self, keep: Any) -> None:
        """Brings the cache towards its limit after a read: drops clean rows, as `evict` does, and never drains.

        A drain forwards, and who reads is in the middle of its work: a join would look at a row, send on a newer one
        of the same key, and then the result of the older one.
        """
        budget = self.budget
        if budget.cached < self._next_room.least:
            return
        self._drop_clean(keep)
        if budget.cached > budget.cache_limit and self.drained:
            self._next_room.put_off(budget.cached)

    def _drop_clean(self, keep: Any) -> None:
        budget, clean, drained = self.budget, self.clean, self.drained
        excess = budget.cached - budget.cache_limit
        if excess > 0:  # some more, since a dictionary that lost its first keys is slow to give the next
            excess += budget.cache_limit >> DROPPED_AT_ONCE
        # The row of the put or the read that is under way stays: taken out, it is not a victim.
        kept = None if keep in drained else clean.pop(keep, None)
        free, victims, freed, cost = filterfalse(drained.__contains__, clean), [], 0, self.format.cost
        while freed < excess and (key := next(free, None)) is not None:
            victims.append(key)
            freed += (one := cost(key, clean[key][0]))
            if not self.format.values.sized and freed < excess:  # others take about as many bytes
                some = [*islice(free, (excess - freed) // one)]
                victims += some
                freed += fixed_size(some)
        for key in victims:
            del clean[key]
        if kept is not None:
            clean[keep] = kept
        budget.clean -= freed

    # ------------------------------------------------------------------ drain, apply, drop

    def drain(self) -> bool:
        """Logs what is dirty, and forwards what a cache held back in order of last update; returns whether there was
        anything."""
        dirty, uncommitted = self.dirty, self._uncommitted
        if not dirty:
            return False
        assert not self.budget.reading, f"store {self.name!r} would forward its changes in the middle of a read"
        # No list of pairs: a hundred thousand tuples are work for the garbage collector.
        rows = uncommitted.draining = dirty.copy()
        # Copied before it is cleared: another thread finds each row in one of the two.
        dirty.clear()
        if self.message_bytes:
            self._forget_messages()
        held = self.format.size(rows)
        self._count_dirty(-held)
        try:
            olds = self._log_one(rows, held) if len(rows) == 1 else self._log_all(rows, held)
        except BaseException:
            dirty.update(uncommitted.draining)
            self._count_dirty(self.format.size(uncommitted.draining))  # an eviction would try to log them again
            raise
        finally:
            uncommitted.draining = {}
        self._was_logged()
        if self._callback is not None:
            cursor, budget = self.cursor, self.budget
            saved = cursor.message, cursor.source, cursor.timestamp, cursor.headers
            budget.sending += 1
            try:
                self._forward_all(rows, olds)
            except BaseException:
                budget.postponed.clear()  # of stores of the task that fails
                raise
            finally:
                budget.sending -= 1
                cursor.message, cursor.source, cursor.timestamp, cursor.headers = saved
            if budget.postponed and not budget.sending:
                budget.evict_postponed()
        return True

    def _was_logged(self) -> None:
        """Called in each drain when everything is logged and nothing of it is forwarded yet."""
        if self._when_logged is not None:
            self._when_logged(self.drained)

    def _old_values(self, rows: dict[Any, Entry], deleted: list[Any]) -> Iterable[Any]:
        """Returns the old value of each row. Removes the rows that no receiver has seen: those put and deleted again
        since the last drain (semantics 73)."""
        for key in deleted:
            if self._below(key) is None:
                del rows[key]
        return [self._below(key) for key in rows] if self.wants_old else repeat(None)

    def _log_all(self, rows: dict[Any, Entry], size: int) -> Iterable[Any]:
        """Moves rows that take ``size`` bytes from dirty to drained; returns the old values. All of them, before any is
        forwarded: the receiver of one change finds the others in the store, and what it puts comes after them. After an
        error `draining` has those that were not moved.

        Unless each update is logged, in Kafka Streams' order, deletions are logged last: a process that is killed in
        between leaves two sessions where one took the place of the other, not none. Each key comes once, so the order
        tells nothing else.
        """
        deleted = [key for key, entry in rows.items() if entry[0] is None]
        olds: Iterable[Any] = ()
        if self._callback is not None:
            # Before the rows are moved: then `clean` has them instead of their old values.
            olds = self._old_values(rows, deleted)
            size = self.format.size(rows) if deleted else size
        if deleted and not self.logging.each:
            rows = {key: entry for key, entry in rows.items() if entry[0] is not None} | {
                key: rows[key] for key in deleted if key in rows
            }
        write_key, write_value = self.format.keys.write, self.format.values.write
        logged = [
            (write_key(key), None if entry[0] is None else write_value(entry[0]), entry[1])
            for key, entry in rows.items()
        ]
        left, log_many = iter(logged), self.logging.together
        try:
            if log_many is not None:
                log_many(left)
        except BaseException:
            # The one at which it failed has left the iterator as well.
            count = len(logged) - sum(1 for _ in left) - 1
            # Those before the failing one are on the changelog: to log them again would put them behind later changes.
            moved = dict(islice(rows.items(), count))
            self._note_moved(moved, self.format.size(moved), deleted, logged)
            self._uncommitted.draining = dict(islice(rows.items(), count, None))
            raise
        self._note_moved(rows, size, deleted, logged)
        return olds

    def _log_one(self, rows: dict[Any, Entry], size: int) -> Iterable[Any]:
        """Logs one row that takes ``size`` bytes, as `_log_all` does many.

        Where each record is committed, as in a test driver, the steps for many rows take twice as long.
        """
        [(key, entry)] = rows.items()
        value, timestamp = entry[:2]
        # A deletion may be one that no receiver has seen.
        if value is None:
            return self._log_all(rows, size)
        clean, budget = self.clean, self.budget
        old = self._below(key) if self.wants_old and self._callback is not None else None
        row = self.format.keys.write(key), self.format.values.write(value), timestamp
        if self.logging.log is not None:
            self.logging.log(*row)
        if key not in self.drained:
            self.waiting.bytes += size
            budget.uncommitted += size
        # Taken out first, so that it goes to the end of the dictionary: what is dropped comes from the front.
        known = clean.pop(key, None)
        budget.clean += size if known is None else size - self.format.cost(key, known[0])
        clean[key] = (value, timestamp)
        self.drained[key] = row
        return (old,)

    def _note_moved(self, rows: dict[Any, Entry], size: int, deleted: list[Any], logged: list[Logged]) -> None:
        """``rows``, which take ``size`` bytes, are drained; they are the first of those in ``logged``."""
        clean, drained, budget = self.clean, self.drained, self.budget
        pending = grown = size
        if drained:
            pending -= self.format.size({key: rows[key] for key in rows if key in drained})
        if drained or deleted or self.wants_old or not self.cached:  # else no clean row lies under a dirty one
            known = [*map(clean.pop, rows, repeat(None))]
            if not self.format.values.sized and all(known):
                grown = 0
            elif any(known):
                cost = self.format.cost
                grown -= sum([cost(key, entry[0]) for key, entry in zip(rows, known, strict=True) if entry])
        self.waiting.deleted += filter(rows.__contains__, deleted)
        if self.cached and (self.cursor.keeps_messages or any(map(_HEADERS, rows.values()))):
            rows = {key: entry[:2] for key, entry in rows.items()}  # else what is left of an entry is small
        clean.update(rows)
        # After a failure there are more in `logged` than were moved.
        drained.update(zip(rows, logged, strict=False))
        self.waiting.bytes += pending
        budget.uncommitted += pending
        budget.clean += grown

    def _forward_all(self, rows: dict[Any, Entry], olds: Iterable[Any]) -> None:
        # Not strict: where no old values are asked for, `olds` has no end.
        changes, sent_on = zip(rows.items(), olds, strict=False), self.cursor.sent_on
        if sent_on is None:
            self._forward(changes)
        else:
            sent_on(self.name, len(rows), changes, self._forward)

    def _forward(self, changes: Iterator[tuple[tuple[Any, Any], Any]]) -> None:
        callback, cursor, keys, values = self._callback, self.cursor, self.format.keys, self.format.values
        key_of = None if keys.plain else keys.key_of
        value_of = values.value_of if values.encoded else None
        assert callback is not None
        # One stand-in for all rows: on the hot path no object is made for each.
        message = cursor.message = cursor.late_message()
        for (key, (value, timestamp, headers, source, offset)), old in changes:
            message.origin = offset
            cursor.message, cursor.source = message, source
            cursor.timestamp, cursor.headers = timestamp, headers
            if value_of is not None:
                value, old = value_of(value), value_of(old)
            callback(key if key_of is None else key_of(key), value, old, timestamp, headers)

    def _below(self, key: Any) -> Any:
        entry = self.clean.get(key) or self.read_through(key)
        return None if entry is None else entry[0]

    def apply(self, batch: Batch) -> None:
        """Puts what was drained into a batch of the engine; call :meth:`applied` once it is written."""
        self.format.codec.fill(batch, self.family.handle, self.drained.values())

    def applied(self) -> None:
        """Forgets the drained rows, which the engine holds now."""
        clean, budget = self.clean, self.budget
        # Each has hidden the row that the engine had until now.
        for key in self.waiting.deleted:
            entry = clean.get(key)
            if entry is not None and entry[0] is None:
                budget.clean -= self.format.cost(key, clean.pop(key)[0])
        self.drained.clear()
        self._forget_waiting()
        self._uncommitted.committed()
        if budget.cached > budget.cache_limit:
            self._drop_clean(None)

    def forget_below(self, key: bytes) -> None:
        """Drops clean rows whose keys, which are bytes, are smaller: the engine no longer holds them."""
        clean, drained = self.clean, self.drained
        for gone in [known for known in clean if known < key and known not in drained]:
            self.budget.clean -= self.format.cost(gone, clean.pop(gone)[0])

    def close(self) -> None:
        """Forgets everything that is not in the engine."""
        self.budget.clean -= self.format.size(self.clean)
        # Less than nothing, so this evicts nothing.
        self.note_dirty(-self.format.size(self.dirty))
        self._forget_messages()
        self.clean.clear()
        self._forget_waiting()
        self._uncommitted.clear()

    def _forget_waiting(self) -> None:
        self.budget.uncommitted -= self.waiting.bytes
        self.waiting.forget()
        # Rows that were too many to drop may go now.
        self._next_eviction.least = self._next_room.least = 0

    # ------------------------------------------------------------------ ranges

    def _overlay(self, low: bytes | None, high: bytes | None, reverse: bool) -> Overlay:
        dirty, clean = self.dirty, self.clean
        index, keys = self.waiting.between(low, high, reverse=reverse)
        found = ((raw, dirty.get(index[raw]) or clean.get(index[raw])) for raw in keys)
        # The index keeps the keys of rows that a drain has taken out, since no receiver knew of them.
        return [(raw, entry) for raw, entry in found if entry is not None]
