"""`streams state dump`: the entries of one store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from processor_api.errors import ConfigError, StoreError
from processor_api.forms.times import iso
from processor_api.record import HeaderList, Headers
from processor_api.serde import CurrentHeaders, Serde, Serdes, with_default
from processor_api.stores.builder import StoreBuilder
from processor_api.texts import shown
from processor_api.topology.topology import Topology
from state.formats.keys import after_prefix, ends_of
from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import json_text, say, say_error, table
from streams.cli.state import where
from streams.serdes.values import fitted, json_reader

# Converts between the bytes of a store and the text that a person reads and types.

_TYPES: Mapping[Serde[Any], type] = {
    Serdes.STRING: str,
    Serdes.INTEGER: int,
    Serdes.LONG: int,
    Serdes.SHORT: int,
    Serdes.FLOAT: float,
    Serdes.DOUBLE: float,
    Serdes.BOOLEAN: bool,
    Serdes.BYTES: bytes,
}
"""The types of the values of serdes that read only one."""
HEX = "hex"
_HEX_PREFIX = "hex:"


@dataclass(frozen=True)
class ReadableRows:
    """The keys and values of one store as JSON; without a serde they are shown as hexadecimal digits."""

    store: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    window_end: Callable[[int], int] | None = None
    """The end of the window with a start, in ms, if the topology defines it."""
    raw: bool = False
    """Keeps values of serdes that read only one type, and bytes without a serde, as they are."""

    def key(self, data: bytes) -> Any:
        return self._read(self.key_serde, data, "key")

    def value(self, data: bytes | list[bytes | None] | None, headers: HeaderList | None = None) -> Any:
        """Returns a value.

        :param headers: those of its row, for a serde that takes headers.
        """
        if isinstance(data, list):  # which is JSON everywhere
            return [replace(self, raw=False).value(item, headers) for item in data]
        return None if data is None else self._read(self.value_serde, data, "value", headers)

    def type_of(self, serde: Serde[Any] | None) -> type | None:
        """Returns the type of all keys or values that a serde reads; ``None`` where they may be anything."""
        if serde is None:
            return bytes if self.raw else str
        return _TYPES.get(serde)

    def _read(self, serde: Serde[Any] | None, data: bytes, part: str, headers: HeaderList | None = None) -> Any:
        if serde is None:
            return data if self.raw else data.hex()
        current = CurrentHeaders()
        current.now = Headers(headers or ())
        try:
            return serde.deserialize(data) if self.raw and serde in _TYPES else json_reader(serde, current)(data)
        except Exception as error:
            raise StoreError(
                f"the {part} {data.hex()} cannot be read by the serde {serde.name!r}: {type(error).__name__}: {error};"
                f" give another serde by --{part}-serde, or hex",
                store=self.store,
            ) from error

    def key_bytes(self, text: str) -> bytes:
        """Returns the bytes of a key that was typed; ``hex:`` in front says that the rest is its bytes in hexadecimal
        digits.

        :raises CannotRun: if it is not a key.
        """
        serde = self.key_serde
        try:
            if text.startswith(_HEX_PREFIX):
                return bytes.fromhex(text.removeprefix(_HEX_PREFIX))
            if serde is None:
                return bytes.fromhex(text)
            data = fitted(serde, text, is_text=True).data
            if data is None:
                raise ValueError("a key must not be null")
            return data
        except Exception as error:
            how = "hexadecimal digits; give its serde by --key-serde to type it in another form"
            if serde is not None:
                how = f"a value of the serde {serde.name!r}; or type hex: and its bytes in hexadecimal digits"
            raise CannotRun(f"{text!r} is not a key of store {self.store!r}: {error}; a key must be {how}") from error


def _named(name: str | None, part: str) -> Serde[Any] | None:
    """Returns the serde that an option names, as settings name one; ``None`` for ``hex``, or for none.

    :raises CannotRun: if there is no such serde.
    """
    if name is None or name == HEX:
        return None
    from streams.config.values import serde

    try:
        return serde(name)
    except ValueError as error:
        raise CannotRun(f"--{part}-serde {error}; or hex, for the bytes") from error


def _bound(name: str, part: str, config: Any, topic: str) -> Serde[Any] | None:
    """Returns a serde that was named, for the changelog of a store; ``None`` for its bytes."""
    found = with_default(_named(name, part), config.default_key_serde if part == "key" else config.default_value_serde)
    return None if name == HEX or found is None else found.bind(topic, is_key=part == "key").inside()


def readable_of(
    store: str, topology: Topology | None, config: Any, key_serde: str | None, value_serde: str | None, *, raw: bool
) -> ReadableRows:
    """Returns the readers for the serdes named, else for those of the topology if there is one.

    :raises CannotRun: if the topology has no such store.
    """
    if topology is None:
        return ReadableRows(store, _named(key_serde, "key"), _named(value_serde, "value"), raw=raw)
    key, value = serdes_of(store, topology, config)
    builder, topic = _builder(store, topology), f"{config.application_id}-{store}-changelog"
    return ReadableRows(
        store,
        key if key_serde is None else _bound(key_serde, "key", config, topic),
        value if value_serde is None else _bound(value_serde, "value", config, topic),
        ends_of(builder.supplier.parameters),
        raw,
    )


def serdes_of(store: str, topology: Topology, config: Any) -> tuple[Serde[Any], Serde[Any]]:
    """Returns the serdes of keys and values that a topology has for a store.

    :raises CannotRun: if the topology has no such store, or no serde for it.
    """
    builder = _builder(store, topology)
    topic = f"{config.application_id}-{store}-changelog"
    return (
        _of_topology(builder.key_serde, config.default_key_serde, topic, is_key=True),
        _of_topology(builder.value_serde, config.default_value_serde, topic, is_key=False),
    )


def _builder(store: str, topology: Topology) -> StoreBuilder[Any, Any]:
    found = topology.stores.get(store)
    if found is None and store in topology.global_stores:
        found = topology.global_stores[store].builder
    if found is None:
        names = ", ".join(sorted({*topology.stores, *topology.global_stores})) or "none"
        raise CannotRun(f"the topology does not have store {store!r}; it has: {names}")
    return found


def _of_topology(given: Serde[Any] | None, default: Serde[Any] | None, topic: str, *, is_key: bool) -> Serde[Any]:
    from streams.runtime.processing.environment import resolve_serde

    part = "key" if is_key else "value"
    try:
        return resolve_serde(given, default, f"the store of {topic}", part).bind(topic, is_key=is_key).inside()
    except ConfigError as error:
        raise CannotRun(f"{error.message}; or give one by --{part}-serde") from error


_TIMES = frozenset({
    "session_end", "session_start", "timestamp", "valid_from", "valid_to", "window_end", "window_start",
})  # fmt: skip


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "dump",
        help="print the entries of a store",
        description="Prints the entries of one store as a table, with the times, headers and versions that its kind"
        " keeps. Keys and values are hexadecimal digits unless serdes or a topology are given. Times are in"
        " UTC; with --format json they are milliseconds since 1970. Works while the worker runs, and shows"
        " committed entries.",
    )
    where.add_store_argument(parser)
    add_serde_options(parser)
    add_range_options(parser)
    where.add_format_option(parser)
    where.add_place_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def add_serde_options(parser: argparse.ArgumentParser) -> None:
    where.add_topology_option(parser, "topology with the serdes and the sizes of windows, for instance app:topology")
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-serde",
            metavar="SERDE",
            help=f"serde of {part}s: a name such as string, long or json, the import path of a serde or model, or hex",
        )


def add_range_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="low", metavar="KEY", help="first key, as its serde reads it, or hex:...")
    parser.add_argument("--to", dest="high", metavar="KEY", help="last key")
    parser.add_argument("--prefix", metavar="KEY", help="only keys whose bytes start with those of this key")
    parser.add_argument("--limit", metavar="N", type=_count, help="most entries to print")
    parser.add_argument("--reverse", action="store_true", help="backwards")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def run(arguments: argparse.Namespace) -> int:
    place = where.place_of(arguments)
    with closing(entries(place, arguments)) as found:
        wanted = islice(found, arguments.limit)
        if arguments.format == "json":
            for entry in wanted:
                say(json_text(entry))
            return CLEAN
        readable = readable_for(place, arguments, raw=False)
        columns = ["task", "key", *columns_for(families_of(place, arguments.store), readable), "value"]
        rows = table(columns, (_cells(columns, entry, arguments.store) for entry in wanted))
    if rows and sys.stdout.isatty() and None in (readable.key_serde, readable.value_serde):
        say_error(
            "bytes are shown as hexadecimal digits: give serdes by --key-serde and --value-serde, or a topology by"
            " --topology"
        )
    return CLEAN


def families_of(place: where.StorePlace, store: str) -> list[str]:
    """Returns the suffixes of the families that a store has on disk, in any task."""
    suffixes: dict[str, None] = {}
    with closing(place.stores(store)) as stores:
        for _, one in stores:
            suffixes |= dict.fromkeys(one.suffixes)
    return list(suffixes)


def columns_for(families: Collection[str], readable: ReadableRows) -> list[str]:
    """Returns the columns of a store besides task, key and value: those of its kind, whatever its entries are."""
    from state.offline.stores import columns_of

    columns = columns_of(families)
    if readable.window_end is not None and "window_start" in columns:
        columns.insert(columns.index("window_start") + 1, "window_end")
    return columns


def _cells(columns: Sequence[str], entry: dict[str, Any], store: str) -> list[str | int | float | None]:
    """Returns an entry as a row of the table.

    :raises CannotRun: if it has an additional column, since a worker changed the store's kind meanwhile.
    """
    if more := entry.keys() - set(columns):
        raise CannotRun(f"store {store!r} has received {', '.join(sorted(more))} in the meantime: dump it again")
    return [cell(name, entry.get(name)) for name in columns]


def entries(place: where.StorePlace, arguments: argparse.Namespace, *, raw: bool = False) -> Generator[dict[str, Any]]:
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
                    "value": readable.value(row.value, row.headers),
                }
                if row.timestamp is not None:
                    entry["timestamp"] = row.timestamp
                if row.headers is not None:
                    entry["headers"] = row.headers if raw else [[name, _hex(value)] for name, value in row.headers]
                entry |= row.more
                if readable.window_end is not None and "window_start" in entry:
                    entry["window_end"] = readable.window_end(entry["window_start"])
                yield entry


def readable_for(place: where.StorePlace, arguments: argparse.Namespace, *, raw: bool) -> ReadableRows:
    """Returns the readers of the keys and values that were requested."""
    return readable_of(
        arguments.store, place.topology(), place.config, arguments.key_serde, arguments.value_serde, raw=raw
    )


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _bounds(readable: ReadableRows, arguments: argparse.Namespace) -> tuple[bytes | None, bytes | None]:
    """Returns the bounds of the rows, from the first key to behind the last one."""
    low = None if arguments.low is None else readable.key_bytes(arguments.low)
    high = None if arguments.high is None else readable.key_bytes(arguments.high) + b"\x00"
    if arguments.prefix is not None:
        if low is not None or high is not None:
            raise CannotRun("--prefix does not work with --from and --to")
        low = readable.key_bytes(arguments.prefix)
        high = after_prefix(low)
    return low, high


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
    return shown(json_text(value), sys.maxsize)
