"""The probe of rows: what sees the rows of a task's stores being read, put and logged, such as a trace.

A store asks for the probe when its functions are made; without one they are the same as if there were none. A probe
never changes what a read finds or a cache holds: rows are looked up beside the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

WAITING = "waiting"
"""The row is in the buffer and not logged yet; in a cached store, it is not forwarded either."""
LOGGED = "logged"
"""The row is in the buffer, logged, and not committed yet."""
CACHE = "cache"
"""The row is in memory, equal to the engine's."""
ENGINE = "engine"
NOWHERE = "nowhere"


class RowAccess(NamedTuple):
    """One row that was read or put."""

    rows: Any
    """The buffer (:class:`state.write_buffer.buffer.Rows`)."""
    row_key: Any
    is_put: bool
    place: str
    """Where the row was before the call."""
    old: Any
    """The value that it had there, as its user knows it; for a read, the result."""
    new: Any
    """The value that was put; ``None`` deletes."""


class RowProbe(Protocol):
    """Sees the rows of one task. Any thread that reads them calls it."""

    def watches(self) -> bool:
        """Whether accesses are to be reported now, asked before each."""
        ...

    def accessed(self, access: RowAccess) -> None:
        """Takes a read after it was made, or a put before it is."""
        ...

    def logging(self, store: str, row_key: bytes | None) -> None:
        """Notes that a row is about to be logged; ``None`` as its key says that it was."""
        ...


def probed_get(rows: Any, row_key_of: Callable[[Any], Any], get: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that reads a row by its user's key, and reports it to the probe, if there is one."""
    probe: RowProbe | None = rows.cursor.probe
    if probe is None:
        return get

    def reporting_get(key: Any, *more: Any) -> Any:
        if not probe.watches():
            return get(key, *more)
        place = ENGINE
        try:
            row_key = row_key_of(key)
            place = _place_in_memory(rows, row_key) or ENGINE
        except Exception:
            row_key = None  # the read itself fails with the reason
        found = get(key, *more)
        if found is None and place == ENGINE:
            place = NOWHERE
        probe.accessed(RowAccess(rows, row_key, False, place, None if found is None else found[0], None))
        return found

    return reporting_get


def probed_put(rows: Any, row_key_of: Callable[[Any], Any], put: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that puts a row by its user's key, and reports it to the probe, if there is one."""
    probe: RowProbe | None = rows.cursor.probe
    if probe is None:
        return put

    def reporting_put(key: Any, value: Any, *more: Any) -> Any:
        if probe.watches():
            try:
                row_key = row_key_of(key)
                place, old = _find(rows, row_key)
            except Exception:
                return put(key, value, *more)  # the put itself fails with the reason
            probe.accessed(RowAccess(rows, row_key, True, place, old, value))
        return put(key, value, *more)

    return reporting_put


def probed_log(probe: RowProbe, store: str, log: Callable[..., None]) -> Callable[..., None]:
    """Returns a log of a buffer that reports each row by its row key."""

    def reporting_log(row_key: bytes, value: bytes | None, timestamp: int, *headers: Any) -> None:
        probe.logging(store, row_key)
        try:
            log(row_key, value, timestamp, *headers)
        finally:
            probe.logging(store, None)

    return reporting_log


def _place_in_memory(rows: Any, row_key: Any) -> str | None:
    if row_key in rows.dirty:
        return WAITING
    if row_key in rows.drained:
        return LOGGED
    return CACHE if row_key in rows.clean else None


def _find(rows: Any, row_key: Any) -> tuple[str, Any]:
    """Returns where a row is, and its value; the row is neither cached nor counted as used."""
    place = _place_in_memory(rows, row_key)
    if place is not None:
        entry = rows.dirty.get(row_key) or rows.clean.get(row_key)
        return place, None if entry is None else rows.format.values.value_of(entry[0])
    row = rows.family.get(rows.format.keys.write(row_key))
    if row is None:
        return NOWHERE, None
    return ENGINE, rows.format.values.value_of(rows.format.entry_of(row)[0])
