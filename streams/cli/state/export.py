"""`streams state export`: the entries of one store as a Parquet file."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from state.registry.kinds import KINDS
from state.write_buffer.changelog_form import ChangelogForm
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import json_text, say
from streams.cli.state import dump
from streams.cli.state.where import StorePlace, add_place_options, add_store_argument, place_of

_BATCH = 10_000
_LISTS = {kind.codec.family_suffix for kind in KINDS.values() if kind.changelog_form is ChangelogForm.LISTS}
"""Families whose values are lists, which are JSON."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "export",
        help="write the entries of a store to a Parquet file",
        description="Writes the entries that dump prints to a Parquet file. Keys and values are bytes unless serdes or"
        " a topology are given. Numbers, strings and booleans keep their types; values of json or of your"
        " serdes become JSON. The columns depend on the kind of the store. Needs pyarrow (pip install"
        " 'streams-for-kafka[parquet]').",
    )
    add_store_argument(parser)
    parser.add_argument("--to-file", metavar="FILE", type=Path, required=True, help="the Parquet file to write")
    dump.add_serde_options(parser)
    dump.add_range_options(parser)
    add_place_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    arrow, parquet = _pyarrow()
    target: Path = arguments.to_file
    aside = target.with_name(target.name + ".tmp")
    place = place_of(arguments)
    table = _Table(arrow, place, arguments)
    written = 0
    try:
        with (
            closing(dump.entries(place, arguments, raw=True)) as found,
            parquet.ParquetWriter(aside, table.schema) as writer,
        ):
            rows = islice(found, arguments.limit)
            while batch := [table.row(entry) for entry in islice(rows, _BATCH)]:
                writer.write_table(arrow.Table.from_pylist(batch, table.schema))
                written += len(batch)
        aside.replace(target)
    except OSError as error:
        raise CannotRun(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    say(f"wrote {written} entries to {target}")
    return CLEAN


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CannotRun("Parquet needs pyarrow: pip install 'streams-for-kafka[parquet]'") from None
    return pyarrow, pyarrow.parquet


class _Table:
    """The columns that the kind of the store has, whatever its entries are, with types by the serdes."""

    def __init__(self, arrow: Any, place: StorePlace, arguments: argparse.Namespace) -> None:
        self._store = arguments.store
        readable = dump.readable_for(place, arguments, raw=True)
        families = dump.families_of(place, arguments.store)
        types = {name: arrow.int64() for name in dump.columns_for(families, readable)}
        if "headers" in types:
            types["headers"] = arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.binary())]))
        sides = {"key": readable.type_of(readable.key_serde), "value": readable.type_of(readable.value_serde)}
        if not _LISTS.isdisjoint(families):
            sides["value"] = None
        self._as_json = [name for name, kind in sides.items() if kind is None]
        known: dict[type | None, Any] = {
            bool: arrow.bool_(),
            int: arrow.int64(),
            float: arrow.float64(),
            bytes: arrow.binary(),
        }
        shown = {name: known.get(kind, arrow.string()) for name, kind in sides.items()}
        self.schema = arrow.schema([("task", arrow.string()), *shown.items(), *types.items()])

    def row(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Returns an entry as a row of the file.

        :raises CannotRun: if it has an additional column, since a worker changed the store's kind meanwhile.
        """
        if more := entry.keys() - set(self.schema.names):
            raise CannotRun(
                f"store {self._store!r} has received {', '.join(sorted(more))} in the meantime: export it again"
            )
        row = dict(entry)
        for name in self._as_json:
            row[name] = None if row[name] is None else _json(row[name])
        if row.get("headers") is not None:
            row["headers"] = [{"name": name, "value": value} for name, value in row["headers"]]
        return row


def _json(value: Any) -> str:
    text = json_text(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which a serde of the user's own may return
        return json.dumps(json.loads(text))
    return text
