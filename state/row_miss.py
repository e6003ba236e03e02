"""What reads a row that is in no buffer: a function made once for each store, as those of
:mod:`state.row_functions` are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["make_miss"]


def make_miss(rows: Any) -> Callable[[Any], tuple[Any, int] | None]:
    """For `state.rows.Rows`: a row key to the engine's row, decoded; it is kept if there is a cache."""
    find, read, clean, budget, evict = rows.family.get, rows.codec.read, rows.clean, rows.budget, rows.evict
    serialize = rows.key_serde.serialize if rows.plain_keys else bytes
    encoded, deserialize, read_value = rows.encoded, rows.value_serde.deserialize, rows.read_value
    cost = rows.cost

    def miss(key: Any) -> tuple[Any, int] | None:
        row = find(serialize(key))
        if row is None:
            return None
        value, timestamp = read(row)
        if not encoded:
            try:
                value = deserialize(value)
            except Exception:
                value = read_value(value)  # raises the same again, with the name of the store
        entry = value, timestamp
        limit = budget.cache_limit  # of now: threads come and go
        if limit:
            clean[key] = entry
            budget.clean = held = budget.clean + cost(key, value)
            if held + budget.dirty > limit:
                evict(key)
        return entry

    return miss
