"""`streams state export`: the entries of one store as a Parquet file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from streams.cli.failures import CLEAN, CannotRun
from streams.cli.stored.dump import add_range_options, add_serde_options, entries
from streams.cli.stored.where import add_place_options, add_store_argument, place_of

__all__ = ["add_parser", "run"]

_BATCH = 10_000
_TIMES = ("timestamp", "window_start", "window_end", "session_start", "session_end", "valid_from", "valid_to")
_NUMBERS = ("sequence", "number")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "export",
        help="write the entries of a store to a Parquet file",
        description="Writes the entries that dump prints to a Parquet file. Keys and values are bytes unless serdes"
        " are named, or taken from a topology; numbers, text and truth values keep their types, anything else is JSON."
        " Needs pyarrow (pip install 'streams-for-kafka[parquet]').",
    )
    add_store_argument(parser)
    parser.add_argument("--to-file", metavar="FILE", type=Path, required=True, help="the Parquet file to write")
    add_serde_options(parser)
    add_range_options(parser)
    add_place_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    arrow, parquet = _pyarrow()
    target: Path = arguments.to_file
    aside = target.with_name(target.name + ".tmp")
    written = 0
    try:
        with closing(entries(place_of(arguments), arguments, raw=True)) as found:
            batches = _batches(islice(found, arguments.limit))
            first = next(batches, [])
            schema = _schema(arrow, first)
            try:
                with parquet.ParquetWriter(aside, schema) as writer:
                    while first:
                        writer.write_table(arrow.Table.from_pylist([_row(entry, schema) for entry in first], schema))
                        written += len(first)
                        first = next(batches, [])
            except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
                raise CannotRun(f"the entries of store {arguments.store!r} differ in type: {error}") from error
        aside.replace(target)
    except OSError as error:
        raise CannotRun(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    sys.stdout.write(f"wrote {written} entries to {target}\n")
    return CLEAN


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CannotRun("Parquet needs pyarrow: pip install 'streams-for-kafka[parquet]'") from None
    return pyarrow, pyarrow.parquet


def _batches(found: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(found, _BATCH)):
        yield batch


def _schema(arrow: Any, first: list[dict[str, Any]]) -> Any:
    """Columns by the first entries; a key or a value is of the type that all of those have, else JSON."""
    names = list(dict.fromkeys(name for entry in first for name in entry)) or ["task", "key", "value"]
    types: dict[str, Any] = {"task": arrow.string()}
    types |= {name: arrow.int64() for name in (*_TIMES, *_NUMBERS)}
    types["headers"] = arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.binary())]))
    for name in ("key", "value"):
        types[name] = _type_of(arrow, {type(entry[name]) for entry in first if entry[name] is not None})
    return arrow.schema([(name, types[name]) for name in names])


def _type_of(arrow: Any, found: set[type]) -> Any:
    known = {bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64(), bytes: arrow.binary()}
    return known.get(next(iter(found)), arrow.string()) if len(found) == 1 else arrow.string()


def _row(entry: dict[str, Any], schema: Any) -> dict[str, Any]:
    from streams.cli.stored.dump import as_json_value

    row = dict(entry)
    for name in ("key", "value"):
        value = row[name]
        if str(schema.field(name).type) == "string" and value is not None and not isinstance(value, str):
            row[name] = as_json_value(value)
    if row.get("headers") is not None:
        row["headers"] = [{"name": name, "value": value} for name, value in row["headers"]]
    return row
