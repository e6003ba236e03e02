"""`streams state check`: says before a deploy whether a new version reads the rows that are on disk."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from processor_api.topology.topology import Topology
from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, FAILED
from streams.cli.output.findings import Finding, Verdict, fail, ok, warn
from streams.cli.output.terminal import say
from streams.cli.state.dump import serdes_of
from streams.cli.state.where import StorePlace, add_place_options, place_of
from streams.cli.topology_function import load_topology

if TYPE_CHECKING:
    from state.offline.stores import StoredStore
    from state.rocksdb.reader import DatabaseReader

ROWS = 100
"""How many rows are read where nothing is known of their form."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="check that a new version can read the rows on disk",
        description="Compares the serdes of each store of a new version with those that wrote the rows on disk, field"
        " by field. If those are unknown, it reads some rows; if values of earlier versions may exist, it"
        " reads all rows. Prints one line per store and task: ok, warn or fail. Exit status: 1 if a check"
        " fails, otherwise 0. Works while the worker runs.",
    )
    parser.add_argument("--new", dest="topology", metavar="APP", required=True, help="the new version, such as app.py")
    add_place_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def run(arguments: argparse.Namespace) -> int:
    """Prints findings as they come; returns the exit status."""
    place = place_of(arguments)
    topology = load_topology(arguments.topology, lambda: place.config)
    status, looked_at = CLEAN, False
    for finding in checked(place, topology):
        looked_at = True
        say(f"{finding}")
        status = FAILED if finding.verdict is Verdict.FAIL else status
    if not looked_at:
        say(f"{place.root} does not have stores on disk")
    return status


def checked(place: StorePlace, topology: Topology) -> Iterator[Finding]:
    """Yields a finding for each store of each task on disk."""
    from state.offline.stores import stores_in
    from state.rocksdb.reader import DatabaseReader

    for task in place.tasks():
        with DatabaseReader(task.database) as reader:
            for store in stores_in(reader, task):
                if store.name in topology.stores:
                    yield _of_store(place, topology, reader, store)
                elif store.name not in topology.global_stores:
                    what = "the new version does not have this store: it stays as it is, and its rows are not read"
                    yield warn(f"{task.name} {store.name}", what)


def _of_store(place: StorePlace, topology: Topology, reader: DatabaseReader, store: StoredStore) -> Finding:
    from state.offline.stores import scan, schemas_of
    from streams.schemas.store_schemas import Fit, RowReading, compare, read_kept

    what = f"{store.task.name} {store.name}"
    key, value = serdes_of(store.name, topology, place.config)
    found = compare(read_kept(schemas_of(reader, store)), key, value)
    wrong = [f"{one.part}: {each}" for one in found if one.fit is Fit.INCOMPATIBLE for each in one.problems]
    if wrong:
        return fail(what, "; ".join(wrong))
    older = [one for one in found if one.fit is Fit.OLDER]
    unknown = [one.part for one in found if one.fit is Fit.UNKNOWN]
    if older or unknown:
        reading = RowReading(scan(reader, store), key, value, None if older else ROWS)
        while not reading.read(ROWS):
            pass
        if reading.problem is not None:
            because = "".join(f" ({'; '.join(one.problems)})" for one in older if one.problems)
            return fail(what, f"{reading.problem}{because}")
        if older:
            return ok(what, f"values of earlier versions may exist; all {reading.count} rows can be read")
        return ok(what, f"the format of its {' and '.join(unknown)} is unknown; {reading.count} rows can be read")
    changed = [one.part for one in found if one.fit is Fit.COMPATIBLE]
    return ok(
        what, f"another format of its {' and '.join(changed)}, which can be read" if changed else "the same format"
    )
