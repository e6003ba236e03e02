"""What reads a row that is in no buffer: a function made once for each store, as those of
:mod:`state.write_buffer.fast_path` are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.serde import Serdes

__all__ = ["make_miss"]


def _as_it_is(data: bytes) -> bytes:
    return data


def make_miss(rows: Any) -> Callable[[Any], tuple[Any, int] | None]:
    """For `state.write_buffer.buffer.Rows`: a row key to the engine's row, decoded; it is kept if there is a cache."""
    clean, budget, evict, key_bytes = rows.clean, rows.budget, rows.evict, rows.write_key
    decode: Callable[[bytes], Any] = _as_it_is if rows.encoded else rows.value_serde.deserialize
    if rows.value_serde is Serdes.STRING:
        decode = bytes.decode
    find, entry_of = getattr(rows.family, "bare_get", rows.family.get), rows.codec.reading(decode)
    overhead, sized = rows.cost(b"", b""), rows.sized_values

    def carefully(key: Any) -> tuple[Any, int] | None:
        """The same where something fails: with errors that say where, and what strings have in place of bad bytes."""
        row = rows.family.get(key_bytes(key))
        if row is None:
            return None
        data, timestamp = rows.codec.read(row)
        return rows.stored(data), timestamp

    def miss(key: Any) -> tuple[Any, int] | None:
        entry: tuple[Any, int] | None
        try:
            row = find(key_bytes(key))
            if row is None:
                return None
            entry = entry_of(row)
        except Exception:
            entry = carefully(key)
            if entry is None:
                return None
        limit = budget.cache_limit  # of now: threads come and go
        if limit:
            clean[key] = entry
            budget.clean = held = budget.clean + len(key) + overhead + (len(entry[0]) if sized else 0)
            if held + budget.dirty > limit:
                evict(key)
        return entry

    return miss
