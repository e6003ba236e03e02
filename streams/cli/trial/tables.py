"""Prints the stores of a topology at the end of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from processor_api.stores.contracts import (
    AggregationWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
)
from state.formats.keys import MAX_TIME
from streams.cli.records.json_lines import headers_as_json
from streams.cli.records.times import iso
from streams.cli.records.values import as_json
from streams.cli.trial.output import Printer


def show_tables(printer: Printer, stores: Mapping[str, Any]) -> None:
    """Prints the rows of each store."""
    for name, store in stores.items():
        if hasattr(store, "num_records"):  # the buffer of an operator, which only counts
            printer.title(f"{name}: {store.num_records()} wait")
            continue
        rows = list(_rows(store))
        count = "empty" if not rows else "1 row" if len(rows) == 1 else f"{len(rows)} rows"
        printer.title(f"{name}: {count}")
        for key, value in rows:
            printer.row({"store": name, "key": as_json(key), **_columns(value)})


def _rows(store: Any) -> Iterator[tuple[Any, Any]]:
    """Yields keys and values; of a store of the user's own that cannot be listed nothing."""
    if hasattr(store, "range_versions"):
        opened = store.range_versions()
    elif hasattr(store, "find_sessions_by_end"):
        opened = store.find_sessions_by_end(0, MAX_TIME)
    elif hasattr(store, "all"):
        opened = store.all()
    else:
        return
    with opened as rows:
        yield from rows


def _columns(value: Any) -> dict[str, Any]:
    """Returns the value of a row and what the kind of store keeps with it, as JSON has it."""
    if isinstance(value, ValueAndTimestamp):
        return {"value": as_json(value.value), "timestamp": iso(value.timestamp)}
    if isinstance(value, ValueTimestampHeaders):
        columns = {"value": as_json(value.value), "timestamp": iso(value.timestamp)}
        return columns | ({"headers": headers_as_json(value.headers)} if value.headers else {})
    if isinstance(value, AggregationWithHeaders):
        columns = {"value": as_json(value.aggregation)}
        return columns | ({"headers": headers_as_json(value.headers)} if value.headers else {})
    if isinstance(value, VersionedRecord):
        until = None if value.valid_to is None else iso(value.valid_to)
        return {"value": as_json(value.value), "timestamp": iso(value.timestamp), "valid_to": until}
    return {"value": as_json(value)}
