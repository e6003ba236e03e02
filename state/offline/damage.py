"""Finds the store that an error about damage names, and removes its rows from a database that no process has open."""

from __future__ import annotations

import re

from processor_api.errors import DamagedStateError, RetryableError, StateError
from state.directory.inspect import StoredTask
from state.engine.port import store_of
from state.offline.stores import stores_in
from state.rocksdb.reader import DatabaseReader
from state.rocksdb.repair import forget_store

TABLE_FILE = re.compile(r"(\d+)\.sst")


def damaged_store(task: StoredTask, error: DamagedStateError) -> str | None:
    """Returns the name of the damaged store.

    It is ``None`` if the damage is in what all stores of the database share, or cannot be located.
    """
    if error.store:
        return error.store
    numbers = set(map(int, TABLE_FILE.findall(error.message)))
    if not numbers:
        return None
    try:
        with DatabaseReader(task.database) as reader:
            stores = {store_of(name) for name in reader.names if reader.files(name) & numbers}
    except (StateError, RetryableError):
        return None
    return stores.pop() or None if len(stores) == 1 else None


def take_out_store(task: StoredTask, store: str) -> None:
    """Removes a store's rows and its changelog offsets, so that it is restored when it is opened the next time.

    :raises RetryableError: a process has the database open.
    :raises StateError: the database is damaged in another place.
    """
    with DatabaseReader(task.database) as reader:
        keys = [key for one in stores_in(reader, task) if one.name == store for key in one.offset_keys]
    forget_store(task.database, store, keys)
