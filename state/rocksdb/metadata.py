"""The metadata of a task's database, in its family of offsets: the version of its layout, and its families.

A store is removed here, so that the next start restores it.

RocksDB makes a family that is missing. A lost one would then look like a store without rows, whose offset says that it
is complete. So the names of all families are written down, and a name without its family is damage.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rocksdict import DBRecoveryMode, Options, Rdict, WriteBatch, WriteOptions

from processor_api.errors import StateError
from state.engine.port import OFFSETS, POSITIONS, store_of
from state.engine.repair_hints import rebuild_task
from state.rocksdb.errors import damaged, is_damage, mapped

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
            f"the database at {path} has format {found.decode(errors='replace')}, but this release reads"
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


def forget_store(path: Path, store: str, offset_keys: Collection[bytes]) -> None:
    """Removes a store's rows and its changelog offsets from a database that no process has open.

    The offsets are deleted and synced first. Rows without an offset are restored again at the next start, so a crash
    between the two steps loses nothing. Damaged table files of the store do not matter.

    :raises RetryableError: a process has the database open.
    :raises StateError: the database is damaged in another place.
    """
    try:
        database, names = _open(str(path))
        try:
            _forget(database, names, store, offset_keys)
        finally:
            database.close()
    except Exception as error:
        raise mapped(error, str(path), "change") from error


def _open(path: str) -> tuple[Rdict, list[str]]:
    names = Rdict.list_cf(path, _options(paranoid=True))
    for paranoid in (True, False):
        try:
            options = _options(paranoid=paranoid)
            return Rdict(path, options, dict.fromkeys(names, options)), names
        except Exception as error:
            if not paranoid or not is_damage(error, path):
                raise
    raise AssertionError("unreachable")


def _options(*, paranoid: bool) -> Options:
    """Returns the options for a repair.

    :param paranoid: refuses to open where a table file is damaged.
    """
    options = Options(raw_mode=True)
    options.set_paranoid_checks(paranoid)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_atomic_flush(True)
    return options


def _forget(database: Rdict, names: Collection[str], store: str, offset_keys: Collection[bytes]) -> None:
    own = {name for name in names if name.rpartition(".")[0] == store}
    table, handle = database.get_column_family(OFFSETS), database.get_column_family_handle(OFFSETS)
    recorded = read_families(table.get(FAMILIES_KEY)) | set(names)
    batch = WriteBatch(raw_mode=True)
    for key in offset_keys:
        batch.delete(key, handle)
    batch.put(FAMILIES_KEY, write_families([name for name in recorded if name.rpartition(".")[0] != store]), handle)
    synced = WriteOptions()
    synced.sync = True
    database.write(batch, synced)
    for name in sorted(own):
        database.drop_column_family(name)
    table.flush(True)
    table.close()
