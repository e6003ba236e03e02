"""The functions of a store that run for every record, made once per store for its serdes and its caching.

They hold the dictionaries of :class:`state.write_buffer.buffer.Rows` in their closures: half the cost of methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.errors import StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from state.write_buffer.buffer import Entry, Rows
from state.write_buffer.record_context import message_bytes

__all__ = ["Get", "Put", "make_get", "make_put"]

Get = Callable[[Any], Entry | None]
"""A key to a tuple that starts with (value, timestamp); ``None`` if there is none."""
Put = Callable[..., None]
"""``(key, value, timestamp_ms, headers)``; a value of ``None`` deletes."""


def row_key_maker(rows: Rows) -> Callable[[Any], Any]:
    """A key as its user gives it to the key of a row, checked."""
    serde, name = rows.key_serde, rows.name
    exact, plain = serde.exact, rows.plain_keys

    def row_key(key: Any) -> Any:
        if plain and exact is not None and exact(key):
            return key
        if key is None:
            raise StoreError(f"store {name!r} takes no null keys", store=name)
        try:
            data = serde.serialize(key)
        except Exception as error:
            raise StoreError(
                f"store {name!r}: the {serde.name} serde cannot write the key: {error}", store=name, key=key
            ) from error
        return serde.deserialize(data) if plain else data

    def text_key(key: Any) -> Any:
        return key if type(key) is str and key.isascii() else row_key(key)

    return text_key if serde is Serdes.STRING else row_key


def make_get(rows: Rows) -> Get:
    """`get` for operators."""
    dirty_get, clean_get = rows.dirty.get, rows.clean.get
    miss = rows.quick_miss
    row_key, plain = row_key_maker(rows), rows.plain_keys
    deserialize = None if rows.value_serde.exact is not None else rows.value_serde.deserialize
    read_value = rows.read_value

    def get_exact(key: Any) -> Entry | None:
        try:
            entry = dirty_get(key) or clean_get(key)
        except TypeError:
            row_key(key)  # a key that cannot be looked up fails with the name of the store
            raise
        if entry is None:
            entry = miss(row_key(key))
        return None if entry is None or entry[0] is None else entry

    def get_encoded(key: Any) -> Entry | None:
        key = key if plain else row_key(key)
        try:
            entry = dirty_get(key) or clean_get(key)
        except TypeError:
            row_key(key)
            raise
        if entry is None:
            entry = miss(row_key(key) if plain else key)
        if entry is None or entry[0] is None:
            return None
        if deserialize is None:
            return entry
        try:
            return deserialize(entry[0]), entry[1]
        except Exception:
            return read_value(entry[0]), entry[1]  # raises the same again, with the name of the store

    made = rows.around_get(get_exact if plain and deserialize is None else get_encoded)
    trace = rows.cursor.row_trace
    return made if trace is None else trace.reading(rows, row_key, made)


def make_keep(rows: Rows) -> Callable[[Any], Any]:
    """A value as its user gives it to the value that is kept, checked; raises before anything changed."""
    serde, name = rows.value_serde, rows.name
    exact, serialize, deserialize = serde.exact, serde.serialize, serde.deserialize

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
            raise StoreError(
                f"store {name!r}: the {serde.name} serde cannot write the value: {error}", store=name
            ) from error

    return keep_exact if exact is not None else keep_encoded


def make_put(rows: Rows) -> Put:
    """`put` for operators."""
    put = _logged_put(rows) if rows.log_each else _cached_put(rows) if rows.cached else _direct_put(rows)
    made, trace = rows.around_put(put), rows.cursor.row_trace
    return made if trace is None else trace.writing(rows, row_key_maker(rows), made)


def _cached_put(rows: Rows) -> Put:
    dirty, cursor, note, budget = rows.dirty, rows.cursor, rows.note_dirty, rows.budget
    dirty_get, row_key, keep, plain = dirty.get, row_key_maker(rows), make_keep(rows), rows.plain_keys
    drained, clean_pop = rows.drained, rows.clean.pop
    sized, cost_of, evict = rows.sized_values, rows.cost, rows.evict
    exact = rows.value_serde.exact or _never
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
            key = row_key(key) if plain else key
            dirty[key] = entry
            if (fresh := rows.fresh) is not None:
                fresh.append(key)
            budget.dirty = held = budget.dirty + cost_of(key, value)
            if not rows.wants_old and key not in drained:
                known = clean_pop(key, None)  # nobody looks below a dirty row, but for its old value
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
    dirty, note, sized, cost_of = rows.dirty, rows.note_dirty, rows.sized_values, rows.cost
    dirty_get, row_key, keep, plain = dirty.get, row_key_maker(rows), make_keep(rows), rows.plain_keys
    exact = rows.value_serde.exact or _never

    def put(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is not None and not exact(value):
            value = keep(value)
        if not plain:
            key = row_key(key)
        known = dirty_get(key)
        if known is None:
            key = row_key(key) if plain else key
            dirty[key] = (value, timestamp)
            if (fresh := rows.fresh) is not None:
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
    log = None if rows.logs_headers else rows.log
    log_with_headers: Callable[..., None] | None = rows.log if rows.logs_headers else None
    clean_get, row_key, keep, plain = clean.get, row_key_maker(rows), make_keep(rows), rows.plain_keys
    write_key, write_value = rows.write_key, rows.write_value
    exact = rows.value_serde.exact or _never

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
        new = rows.fresh is None or key not in drained
        clean[key] = (value, timestamp)
        note_logged(key, value, known)
        drained[key] = (raw_key, data, timestamp)
        if (fresh := rows.fresh) is not None and new:
            fresh.append(key)

    return put
