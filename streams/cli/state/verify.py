"""`streams state verify`: reads everything on disk, and reports what is damaged."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from processor_api.errors import StreamsError
from processor_api.topology.topology import Topology
from state.directory.inspect import StoredTask
from state.directory.metadata import METADATA_FILE, owner_of
from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.findings import Finding, Verdict, fail, fails, ok, warn
from streams.cli.output.terminal import say
from streams.cli.state.where import add_place_options, add_store_argument, add_topology_option, place_of

if TYPE_CHECKING:
    from state.offline.stores import StoredStore
    from state.rocksdb.reader import DatabaseReader


def add_parser(commands: object) -> None:
    parser = commands.add_parser(  # type: ignore[attr-defined]
        "verify",
        help="read all state on disk, and report damage",
        description="Reads each row of each store, or of one store, with its checksum. Checks that the row fits the"
        " kind of the store, that the format, all column families and the changelog offset exist, and that no"
        " log before a later one was lost. Prints one line per check: ok or fail. Exit status: 1 if a check"
        " fails, otherwise 0. Works while the worker runs.",
    )
    add_store_argument(parser, nargs="?")
    add_topology_option(
        parser, "topology that shows which stores have no changelog, and so no offset; for instance app:topology"
    )
    add_place_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def run(arguments: argparse.Namespace) -> int:
    """Prints findings as they come; returns the exit status."""
    place = place_of(arguments)
    topology = place.topology()
    status, looked_at = CLEAN, False
    tasks = place.tasks()
    for path in dict.fromkeys(task.application_path for task in tasks):
        if owner_of(path) is None:
            said = "damaged" if (path / METADATA_FILE).exists() else "missing"
            say(f"{warn(path.name, f'{METADATA_FILE} is {said} in {path}: the next start writes another')}")
    for task in tasks:
        for finding in _findings(task, arguments.store, topology):
            looked_at = True
            say(f"{finding}")
            if finding.verdict is Verdict.FAIL:
                status = FAILED
    if not looked_at:
        if arguments.store is not None:
            next(place.stores(arguments.store))  # says which stores there are
        say(f"{place.root} does not have stores on disk")
    return status


def _findings(task: StoredTask, only: str | None, topology: Topology | None) -> Iterator[Finding]:
    from state.offline.stores import stores_in
    from state.rocksdb.reader import DatabaseReader

    try:
        with DatabaseReader(task.database) as reader:
            stores = stores_in(reader, task)
            shared = _shared(reader, task)
            if only is None or shared.verdict is Verdict.FAIL:
                yield shared
            damage = False
            for store in stores:
                if only in (None, store.name):
                    for finding in _of_store(reader, store, topology):
                        damage = damage or finding.verdict is Verdict.FAIL
                        yield finding
            if reader.damage is not None and not damage and only is None:
                yield fail(task.name, reader.damage)
    except StreamsError as error:
        yield from fails(task.name, error)


def _shared(reader: DatabaseReader, task: StoredTask) -> Finding:
    from state.offline.stores import positions_of
    from state.rocksdb.errors import damaged

    try:
        reader.check_commits()
    except StreamsError as error:
        return fails(task.name, error)[0]
    positions = positions_of(reader)
    for name, position in positions.items():
        if position is None:
            return fail(task.name, str(damaged(reader.path, f"its input position of {name} is not an offset")))
    return ok(task.name, f"format {reader.format}, {len(positions)} input positions")


def _of_store(reader: DatabaseReader, store: StoredStore, topology: Topology | None) -> Iterator[Finding]:
    from state.engine.repair_hints import rebuild_store

    what = f"{store.task.name} {store.name}"
    if store.kind is None:
        yield fail(what, f"this release does not have a kind of store with the families {', '.join(store.suffixes)}")
    for family in store.missing:
        yield fail(what, f"its column family {family!r} is missing; {rebuild_store(store.name)}")
    entries = 0
    try:
        entries = _read_all(reader, store)
    except StreamsError as error:
        yield from fails(what, error)
        return
    damaged = [name for name, offset in store.offsets.items() if offset is None]
    if damaged:
        yield fail(what, f"its changelog offset of {damaged[0]} is damaged; {rebuild_store(store.name)}")
    elif not store.offsets and entries and _logged(store, topology):
        yield fail(
            what,
            f"{entries} entries, but no changelog offset: it is restored at the next start. If the store does not have"
            " a changelog, give the topology by --topology",
        )
    elif store.kind is not None and not store.missing:
        offsets = ", ".join(f"{name}@{offset}" for name, offset in store.offsets.items()) or "no changelog"
        yield ok(what, f"{store.kind}, {entries} entries, {offsets}")


def _logged(store: StoredStore, topology: Topology | None) -> bool:
    """Whether the store has a changelog, as far as that can be known."""
    if topology is None:
        return True
    if store.name not in topology.stores and store.name not in topology.global_stores:
        raise CannotRun(f"the topology does not have store {store.name!r}")
    found = topology.stores.get(store.name)
    return found is None or found.logging or store.name in topology.source_changelogs


def _read_all(reader: DatabaseReader, store: StoredStore) -> int:
    """Reads all entries, and returns how many there are.

    :raises StateError: if a row or a block is damaged.
    """
    from state.offline.stores import scan

    entries = sum(1 for _ in scan(reader, store))
    for key in reader.first_keys():  # reads the files' filters, which a scan does not
        for family in store.families:
            reader.family(family).get(key)
    return entries
