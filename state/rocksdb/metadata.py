"""The metadata of a task's database, in its family of offsets: the version of its layout, and its families.

RocksDB makes a family that is missing. A lost one would then look like a store without rows, whose offset says that it
is complete. So the names of all families are written down, and a name without its family is damage.
"""

from __future__ import annotations

from collections.abc import Collection

from processor_api.errors import StateError
from state.engine.port import OFFSETS, POSITIONS, store_of
from state.engine.repair_hints import rebuild_task
from state.rocksdb.errors import damaged

FORMAT_KEY = b"streams.format"
FORMAT_VERSION = b"1"
"""The version of the layout of every store in the database (docs/formats.md)."""
FAMILIES_KEY = b"streams.families"
SHARED = frozenset((OFFSETS, POSITIONS, "default"))


def write_families(names: Collection[str]) -> bytes:
    """The row that names the families of stores; frozen on disk."""
    return "\n".join(sorted(set(names) - SHARED)).encode()


def read_families(row: bytes | None) -> frozenset[str]:
    return frozenset(row.decode().split("\n")) - {""} if row else frozenset()


def check_format(found: bytes, path: str) -> None:
    """Refuses a database of another layout.

    :raises StateError: if another release wrote the database.
    """
    if found != FORMAT_VERSION:
        raise StateError(
            f"the database at {path} has format {found.decode(errors='replace')}, this release reads"
            f" {FORMAT_VERSION.decode()}: run the newer release, or {rebuild_task(path)}"
        )


def check_lost(recorded: Collection[str], known: Collection[str], wanted: Collection[str], path: str) -> None:
    """Finds families that the database has lost.

    :param recorded: the families that the database had, by its own list.
    :param known: the families that it has.
    :param wanted: families that are to be opened; those of other stores may be lost.
    :raises StateError: if a store has lost its rows."""
    stores = {store_of(name) or name for name in wanted}
    for name in sorted(set(recorded) - set(known)):
        if (store_of(name) or name) in stores:
            raise damaged(path, f"its column family {name!r} is missing", name)
