"""`streams state list`: the stores on disk."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from processor_api.errors import StateError, StreamsError
from state.directory.inspect import StoredTask, applications_in, tasks_of
from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, FAILED
from streams.cli.output.failures import described
from streams.cli.output.terminal import json_text, say, say_error, size_text, table
from streams.cli.state.where import add_format_option, add_place_options, place_of

_COLUMNS = ("application", "task", "store", "kind", "format", "rows", "size", "changelog", "input")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "list",
        help="list the stores on disk",
        description="Lists the stores of every application and task: kind, format, number of entries (with ~ if"
        " estimated), size of the table files, offset of the last changelog record in the store, and next"
        " input offsets of the task. Works while the worker runs.",
    )
    add_format_option(parser)
    add_place_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def run(arguments: argparse.Namespace) -> int:
    place = place_of(arguments)
    found = list(applications_in(place.root)) if place.application_id is None else [place.application_id]
    tasks = [task for application in found for task in tasks_of(place.root, application, place.names)]
    rows: list[dict[str, Any]] = []
    status = CLEAN
    for task in tasks:
        try:
            for row in _stores(task):
                rows.append(row)  # also those before an error
        except StreamsError as error:
            status = FAILED
            say_error(f"error: task {task.name}: {described(error)}")
    if arguments.format == "json":
        for row in rows:
            say(json_text(row))
    elif not table(_COLUMNS, map(_line, rows)):
        say(f"{place.root} does not have stores on disk")
    return status


def _stores(task: StoredTask) -> Iterator[dict[str, Any]]:
    from state.offline.stores import count_rows, positions_of, stores_in
    from state.rocksdb.reader import DatabaseReader

    with DatabaseReader(task.database) as reader:
        positions = positions_of(reader)
        for store in stores_in(reader, task):
            rows, exact = count_rows(reader, store)
            yield {
                "application": task.application_id,
                "task": task.name,
                "store": store.name,
                "kind": store.kind,
                "families": store.suffixes,
                "missing": [family.removeprefix(f"{store.name}.") for family in store.missing],
                "format": reader.format,
                "rows": rows,
                "rows_exact": exact,
                "size_bytes": sum(map(reader.size, store.families)),
                "changelog": dict(store.offsets),
                "input": positions,
            }
        if reader.damage is not None:
            raise StateError(
                f"the database at {reader.path} is damaged: {reader.damage}; `streams state verify` reports where"
            )


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    families = "+".join(row["families"])
    kind = row["kind"] or f"unknown ({families})"
    if row["missing"]:
        kind = f"{kind}, lost: {'+'.join(row['missing'])}"
    return (
        row["application"],
        row["task"],
        row["store"],
        kind,
        row["format"] or "none",
        str(row["rows"]) if row["rows_exact"] else f"~{row['rows']}",
        size_text(row["size_bytes"]),
        _offsets(row["changelog"]),
        _offsets(row["input"]),
    )


def _offsets(offsets: dict[str, int | None]) -> str:
    return " ".join(f"{name}@{'damaged' if at is None else at}" for name, at in offsets.items()) or "-"
