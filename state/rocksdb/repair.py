"""Removes a store from a task's database, so that the next start restores it from its changelog."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rocksdict import DBRecoveryMode, Options, Rdict, WriteBatch, WriteOptions

from state.engine.port import OFFSETS
from state.rocksdb.errors import is_damage, mapped
from state.rocksdb.metadata import FAMILIES_KEY, read_families, write_families


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
