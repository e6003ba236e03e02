"""`streams state dump`: the entries of one store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from processor_api.texts import shown
from streams.cli.output.failures import CLEAN, CannotRun
from streams.cli.output.terminal import json_text, say, say_error, table
from streams.cli.records.times import iso
from streams.cli.stored.serdes import Readable, readable_of
from streams.cli.stored.where import (
    Place,
    add_format_option,
    add_place_options,
    add_store_argument,
    add_topology_option,
    place_of,
)

_TIMES = frozenset({
    "session_end", "session_start", "timestamp", "valid_from", "valid_to", "window_end", "window_start",
})  # fmt: skip


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "dump",
        help="print the entries of a store",
        description="Prints the entries of one store as a table, with the times, headers and versions that its kind"
        " keeps. Keys and values are hexadecimal digits unless serdes are named, or taken from a topology. Times are in"
        " UTC; with --format json they are milliseconds since 1970. Works while the worker runs, and shows what was"
        " committed.",
    )
    add_store_argument(parser)
    add_serde_options(parser)
    add_range_options(parser)
    add_format_option(parser)
    add_place_options(parser)
    parser.set_defaults(command=run)


def add_serde_options(parser: argparse.ArgumentParser) -> None:
    add_topology_option(parser, "where serdes and the sizes of windows are taken from, for instance app:topology")
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-serde",
            metavar="SERDE",
            help=f"how {part}s are read: a name such as string, long or json, the import path of a serde or model, or"
            " hex",
        )


def add_range_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="low", metavar="KEY", help="the first key, as its serde reads it, or hex:...")
    parser.add_argument("--to", dest="high", metavar="KEY", help="the last key")
    parser.add_argument("--prefix", metavar="KEY", help="only keys whose bytes start with those of this one")
    parser.add_argument("--limit", metavar="N", type=_count, help="at most so many entries")
    parser.add_argument("--reverse", action="store_true", help="backwards")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def run(arguments: argparse.Namespace) -> int:
    place = place_of(arguments)
    with closing(entries(place, arguments)) as found:
        wanted = islice(found, arguments.limit)
        if arguments.format == "json":
            for entry in wanted:
                say(as_json_value(entry))
            return CLEAN
        readable = readable_for(place, arguments, raw=False)
        columns = ["task", "key", *columns_for(families_of(place, arguments.store), readable), "value"]
        rows = table(columns, (_cells(columns, entry, arguments.store) for entry in wanted))
    if rows and sys.stdout.isatty() and None in (readable.key_serde, readable.value_serde):
        say_error(
            "bytes are shown as hexadecimal digits: name serdes by --key-serde and --value-serde, or a topology by"
            " --topology"
        )
    return CLEAN


def families_of(place: Place, store: str) -> list[str]:
    """Returns the suffixes of the families that a store has on disk, in any task."""
    suffixes: dict[str, None] = {}
    with closing(place.stores(store)) as stores:
        for _, one in stores:
            suffixes |= dict.fromkeys(one.suffixes)
    return list(suffixes)


def columns_for(families: Collection[str], readable: Readable) -> list[str]:
    """Returns the columns of a store besides task, key and value: those of its kind, whatever its entries are."""
    from state.offline.rows import columns_of

    columns = columns_of(families)
    if readable.window_end is not None and "window_start" in columns:
        columns.insert(columns.index("window_start") + 1, "window_end")
    return columns


def _cells(columns: Sequence[str], entry: dict[str, Any], store: str) -> list[str | int | float | None]:
    """Returns an entry as a row of the table.

    :raises CannotRun: if it has an additional column, since a worker changed the store's kind meanwhile.
    """
    if more := entry.keys() - set(columns):
        raise CannotRun(f"store {store!r} has got {', '.join(sorted(more))} meanwhile: dump it again")
    return [cell(name, entry.get(name)) for name in columns]


def entries(place: Place, arguments: argparse.Namespace, *, raw: bool = False) -> Generator[dict[str, Any]]:
    """Yields the requested entries, task by task, as columns by name.

    :param raw: leaves bytes without a serde as they are; otherwise they become hexadecimal digits.
    """
    from state.offline.stores import scan

    readable = readable_for(place, arguments, raw=raw)
    low, high = _bounds(readable, arguments)
    with closing(place.stores(arguments.store)) as stores:
        for reader, store in stores:
            for row in scan(reader, store, low, high, reverse=arguments.reverse):
                entry: dict[str, Any] = {
                    "task": store.task.name,
                    "key": readable.key(row.key),
                    "value": readable.value(row.value),
                }
                if row.timestamp is not None:
                    entry["timestamp"] = row.timestamp
                if row.headers is not None:
                    entry["headers"] = row.headers if raw else [[name, _hex(value)] for name, value in row.headers]
                entry |= row.more
                if readable.window_end is not None and "window_start" in entry:
                    entry["window_end"] = readable.window_end(entry["window_start"])
                yield entry


def readable_for(place: Place, arguments: argparse.Namespace, *, raw: bool) -> Readable:
    """Returns the readers of the keys and values that were requested."""
    return readable_of(
        arguments.store, place.topology(), place.config, arguments.key_serde, arguments.value_serde, raw=raw
    )


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _bounds(readable: Readable, arguments: argparse.Namespace) -> tuple[bytes | None, bytes | None]:
    """Returns the bounds of the rows, from the first key to behind the last one."""
    low = None if arguments.low is None else readable.key_bytes(arguments.low)
    high = None if arguments.high is None else readable.key_bytes(arguments.high) + b"\x00"
    if arguments.prefix is not None:
        if low is not None or high is not None:
            raise CannotRun("--prefix cannot go with --from and --to")
        low = readable.key_bytes(arguments.prefix)
        stripped = low.rstrip(b"\xff")
        high = stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
    return low, high


def as_json_value(value: Any) -> str:
    """Returns any value that a serde reads, as JSON."""
    return json_text(value, _plain)


def cell(column: str, value: Any) -> str | int | float | None:
    """Returns a value as the cell of a column: text on one line, a number, or ``None`` for an empty cell."""
    if column in _TIMES and isinstance(value, int):
        return str(iso(value))
    if column == "headers":
        return shown(",".join(f"{header}:{data}" for header, data in value or ()), sys.maxsize)
    if value is None and column != "value":
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value and value.isprintable():
        return value
    return shown(as_json_value(value), sys.maxsize)


def _plain(value: Any) -> Any:
    """Converts a value that JSON has no type for."""
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    for method in ("model_dump", "_asdict"):
        if hasattr(value, method):
            return getattr(value, method)()
    if hasattr(value, "__dict__"):
        return vars(value)
    return str(value)
