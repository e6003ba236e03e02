"""The functions of a store that run for every record, made once per store for its serdes and its caching.

They hold the dictionaries of :class:`state.write_buffer.buffer.Rows` in their closures: half the cost of methods.
What they may do in which order is bound by the rules of :mod:`state.write_buffer.shared_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from processor_api.errors import StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serdes, never_null
from state.row_format.checked_serdes import unwritable
from state.row_format.record_context import message_bytes
from state.row_format.row_format import Entry, RowFormat
from state.row_format.row_probe import probed_get, probed_put
from state.write_buffer.buffer import Rows
from state.write_buffer.read_counts import checked_read
from state.write_buffer.row_reader import Get, RowReader

Put = Callable[..., None]
"""``(key, value, timestamp_ms, headers)``; a value of ``None`` deletes."""
ReadRun = Callable[[Collection[Any], Any], "dict[Any, Entry | None] | None"]
"""``(keys, value)`` to the rows by key (:func:`make_read_run`)."""


def row_key_maker(format: RowFormat) -> Callable[[Any], Any]:
    """Returns the function from a key as its user gives it to the key of a row, checked."""
    serde, name = format.keys.serde, format.store
    exact, plain = serde.exact, format.keys.plain

    def row_key(key: Any) -> Any:
        if plain and exact is not None and exact(key):
            return key
        if key is None:
            raise StoreError(f"store {name!r} does not accept null keys", store=name)
        try:
            data = serde.serialize(key)
        except Exception as error:
            raise unwritable(name, serde, "key", error, key) from error
        # As it comes back from the engine: of keys with the same bytes only one may be in the dictionaries.
        return serde.deserialize(data) if plain else data

    def text_key(key: Any) -> Any:
        # ASCII is always UTF-8; other text may have a half of a surrogate pair, which cannot be written.
        return key if type(key) is str and key.isascii() else row_key(key)

    def bytes_key(key: Any) -> Any:
        return key if type(key) is bytes else row_key(key)

    return text_key if serde is Serdes.STRING else bytes_key if serde is Serdes.BYTES else row_key


def make_get(rows: RowReader, *, forwarded: bool = False, in_memory: bool = False) -> Get:
    """Returns `get` of a store, for operators.

    :param forwarded: without the changes that wait in a cache.
    :param in_memory: without a look into the engine, for rows that it cannot have.
    """
    waiting: dict[Any, Entry] = {} if forwarded else rows.dirty
    format, dirty_get, clean_get = rows.format, waiting.get, rows.clean.get
    read_through, reads = _no_row if in_memory else rows.read_through, rows.reads
    if reads is not None and not in_memory:
        read_through = reads.counting_miss(read_through)
    row_key, plain = row_key_maker(format), format.keys.plain
    deserialize = never_null(format.values.serde.deserialize) if format.values.encoded else None
    read_value = format.values.read

    def get_exact(key: Any) -> Entry | None:
        try:
            # Looked up without a check: a key that is found was checked when it was put.
            entry = dirty_get(key) or clean_get(key)
        except TypeError:
            row_key(key)  # a key that cannot be looked up fails with the name of the store
            raise
        if entry is None:
            entry = read_through(row_key(key))
        return None if entry is None or entry[0] is None else entry

    def get_encoded(key: Any) -> Entry | None:
        key = key if plain else row_key(key)
        try:
            entry = dirty_get(key) or clean_get(key)
        except TypeError:
            row_key(key)
            raise
        if entry is None:
            entry = read_through(row_key(key) if plain else key)
        if entry is None or entry[0] is None:
            return None
        # `read_value` names the store in its errors, and costs a call more.
        if deserialize is None:
            return entry
        try:
            return deserialize(entry[0]), entry[1]
        except Exception:
            return read_value(entry[0]), entry[1]  # raises the same again, with the name of the store

    made = rows.around_get(get_exact if plain and deserialize is None else get_encoded)
    if reads is not None:
        made = reads.counting_read(made)
    if isinstance(rows, Rows):
        made = checked_read(made, rows.budget)
    return probed_get(rows, row_key, made)


def _no_row(key: Any) -> None:
    """Returns ``None``, as a read of a row that is not there does."""


def make_keep(format: RowFormat) -> Callable[[Any], Any]:
    """Returns the function from a value as its user gives it to the value that is kept, checked; it raises before
    anything has changed."""
    serde, name = format.values.serde, format.store
    exact, serialize, deserialize = serde.exact, never_null(serde.serialize), never_null(serde.deserialize)

    def keep_exact(value: Any) -> Any:
        if value is None or exact is None or exact(value):
            return value
        return deserialize(keep_encoded(value))

    def keep_encoded(value: Any) -> Any:
        if value is None:
            return None
        try:
            return serialize(value)
        except Exception as error:
            raise unwritable(name, serde, "value", error) from error

    return keep_exact if exact is not None else keep_encoded


def make_put(rows: Rows) -> Put:
    """Returns `put` of a store, for operators."""
    put = _logged_put(rows) if rows.log_each else _cached_put(rows) if rows.cached else _direct_put(rows)
    return probed_put(rows, row_key_maker(rows.format), rows.around_put(put))


def make_read_run(rows: Rows, get: Get) -> ReadRun | None:
    """Returns the function that reads the rows of some keys before all of them are put with values like one.

    It returns the rows by their keys. If two keys are one, or the puts might make the cache send something on, it
    returns ``None``; if they might fail, it raises. A store has no such function where each read or put counts.
    """
    if rows.log_each or rows.reads is not None or rows.cursor.probe is not None:
        return None
    budget, cursor, cost_of, row_key = rows.budget, rows.cursor, rows.format.cost, row_key_maker(rows.format)

    def read_run(keys: Collection[Any], value: Any) -> dict[Any, Entry | None] | None:
        row_keys = list(map(row_key, keys))
        if rows.cached:
            if cursor.keeps_messages:
                return None
            grown = sum([cost_of(key, value) for key in row_keys])
            # Each row is in the cache when it is read, and once more when it is put.
            if budget.cached + 2 * grown > budget.cache_limit:
                return None
        found = {key: get(key) for key in keys}
        # Equal keys may be written differently, as 1 and 1.0 are, and others alike.
        return found if len(found) == len(set(row_keys)) == len(row_keys) else None

    return read_run


def refusing_put(store: str) -> Put:
    """Returns `put` of a store that is only read where it stands."""

    def put(*_: Any) -> None:
        raise StoreError(f"store {store!r} can only be read here: its task writes it", store=store)

    return put


def _cached_put(rows: Rows) -> Put:
    dirty, cursor, note, budget = rows.dirty, rows.cursor, rows.note_dirty, rows.budget
    format, uncommitted = rows.format, rows.shared.uncommitted
    dirty_get, row_key, keep, plain = dirty.get, row_key_maker(format), make_keep(format), format.keys.plain
    drained, clean_pop = rows.drained, rows.clean.pop
    sized, cost_of, evict = format.values.sized, format.cost, rows.evict
    exact = format.values.serde.exact or _never
    keeps_messages, note_message = cursor.keeps_messages, rows.note_message

    def put(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is not None and not exact(value):
            value = keep(value)
        if not plain:
            key = row_key(key)
        origin = cursor.kept_message() if keeps_messages else cursor.message.offset()
        entry = (value, timestamp, headers, cursor.source, origin)
        known = dirty_get(key)
        if keeps_messages:
            note_message(message_bytes(origin) - (0 if known is None else message_bytes(known[4])))
        if known is None:
            # A key that is there already was checked when it came.
            key = row_key(key) if plain else key
            dirty[key] = entry
            if (fresh := uncommitted.fresh) is not None:
                fresh.append(key)
            budget.dirty = held = budget.dirty + cost_of(key, value)
            if not rows.wants_old and key not in drained:
                known = clean_pop(key, None)  # a row below a dirty one is read for its old value only
                if known is not None:
                    budget.clean -= cost_of(key, known[0])
            if held + budget.clean > budget.cache_limit:  # of now: threads come and go
                evict(key)
        else:
            del dirty[key]  # no call until the row is back: no other thread finds it missing
            dirty[key] = entry  # at the end: drains follow the order of last update
            if sized:
                note(cost_of(key, value) - cost_of(key, known[0]))

    return put


def _never(value: object) -> bool:
    return False


def _direct_put(rows: Rows) -> Put:
    dirty, note, sized, cost_of = rows.dirty, rows.note_dirty, rows.format.values.sized, rows.format.cost
    format, uncommitted = rows.format, rows.shared.uncommitted
    dirty_get, row_key, keep, plain = dirty.get, row_key_maker(format), make_keep(format), format.keys.plain
    exact = format.values.serde.exact or _never

    def put(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is not None and not exact(value):
            value = keep(value)
        if not plain:
            key = row_key(key)
        known = dirty_get(key)
        if known is None:
            key = row_key(key) if plain else key
            dirty[key] = (value, timestamp)
            if (fresh := uncommitted.fresh) is not None:
                fresh.append(key)
            note(cost_of(key, value))
        else:
            entry = (value, timestamp)
            del dirty[key]  # no call until the row is back: no other thread finds it missing
            dirty[key] = entry  # at the end: drains follow the order of last update
            if sized:
                note(cost_of(key, value) - cost_of(key, known[0]))

    return put


def _logged_put(rows: Rows) -> Put:
    clean, drained, note_logged = rows.clean, rows.drained, rows.note_logged
    logging = rows.logging
    log = None if logging.headers else logging.log
    log_with_headers = logging.log if logging.headers else None
    format, uncommitted = rows.format, rows.shared.uncommitted
    clean_get, row_key, keep, plain = clean.get, row_key_maker(format), make_keep(format), format.keys.plain
    write_key, write_value = format.keys.write, format.values.write
    exact = format.values.serde.exact or _never

    def put(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is not None and not exact(value):
            value = keep(value)
        if not plain:
            key = row_key(key)
        known = clean_get(key)
        if known is None and plain:
            key = row_key(key)
        data = None if value is None else write_value(value)
        raw_key = write_key(key)
        if log is not None:
            log(raw_key, data, timestamp)
        elif log_with_headers is not None:
            log_with_headers(raw_key, data, timestamp, headers)
        # A reader may begin to watch before the key is noted: to note one twice does no harm, to miss one would.
        new = uncommitted.fresh is None or key not in drained
        clean[key] = (value, timestamp)
        # Before the row is in `drained`: it counts a key that waits already no more.
        note_logged(key, value, known)
        drained[key] = (raw_key, data, timestamp)
        if (fresh := uncommitted.fresh) is not None and new:
            fresh.append(key)

    return put
