"""`streams state dump`: the entries of one store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice
from typing import Any

from state.formats.keys import window_end
from streams.cli.failures import CLEAN, CannotRun
from streams.cli.stored.serdes import NAMES, Readable, readable_of
from streams.cli.stored.where import (
    Place,
    add_format_option,
    add_place_options,
    add_store_argument,
    add_topology_option,
    place_of,
)

__all__ = ["add_parser", "add_range_options", "add_serde_options", "as_json_value", "entries", "readable_for", "run"]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "dump",
        help="print the entries of a store",
        description="Prints the entries of one store, with the times, headers and versions that its kind keeps. Keys"
        " and values are hexadecimal digits unless serdes are named, or taken from a topology. Works while the worker"
        " runs, and shows what was committed.",
    )
    add_store_argument(parser)
    add_serde_options(parser)
    add_range_options(parser)
    add_format_option(parser)
    add_place_options(parser)
    parser.set_defaults(command=run)


def add_serde_options(parser: argparse.ArgumentParser) -> None:
    add_topology_option(parser, "where serdes and the sizes of windows are taken from, for instance app:topology")
    parser.add_argument("--key-serde", choices=NAMES, help="how keys are read")
    parser.add_argument("--value-serde", choices=NAMES, help="how values are read")


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
    write = sys.stdout.write
    shown = _as_json if arguments.format == "json" else _as_text
    with closing(entries(place_of(arguments), arguments)) as found:
        for entry in islice(found, arguments.limit):
            write(shown(entry) + "\n")
    return CLEAN


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
                if readable.window_size_ms is not None and "window_start" in entry:
                    entry["window_end"] = window_end(entry["window_start"], readable.window_size_ms)
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
    return json.dumps(value, default=_plain, ensure_ascii=False)


_as_json: Callable[[dict[str, Any]], str] = as_json_value


def _as_text(entry: dict[str, Any]) -> str:
    more = [f"{name}={value}" for name, value in entry.items() if name not in ("key", "value", "headers")]
    if entry.get("headers"):
        more.append("headers=" + ",".join(f"{name}:{value}" for name, value in entry["headers"]))
    return f"{_text(entry['key'])}\t{_text(entry['value'])}\t{' '.join(more)}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value if value.isprintable() and value else json.dumps(value, ensure_ascii=False)
    return as_json_value(value)


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
