"""Finds and reads the stores in a task's database without a topology, and takes damaged ones out of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from processor_api.errors import DamagedStateError, RetryableError, StateError
from state.directory.inspect import StoredTask
from state.engine.port import OFFSETS, POSITIONS, store_of
from state.formats.offsets import (
    COMPLETE_AT,
    LAST_LOGGED,
    LEADER_EPOCH,
    PASSED,
    REBUILT,
    SCHEMAS,
    TOPIC_ID,
    read_offset,
    schemas_key,
)
from state.registry.kinds import KINDS, family_reader
from state.rocksdb.commit_numbers import COMMIT_PREFIX
from state.rocksdb.errors import damaged
from state.rocksdb.metadata import FAMILIES_KEY, FORMAT_KEY, check_format, forget_store
from state.rocksdb.reader import DatabaseReader
from state.write_buffer.stored_rows import StoredFamily, StoredRow

# Finds by the suffix of a family on disk how its rows are read; the kinds of stores say it.

UNKNOWN = StoredFamily(StoredRow)
"""A family that no kind of this release has: bytes."""


def columns_of(suffixes: Collection[str]) -> list[str]:
    """Returns the columns of a store's entries besides key and value, also of older kinds that the store takes over.

    :param suffixes: those of all its families, also in several tasks.
    """
    kind = KINDS.get(kind_of_families(suffixes) or "")
    every = dict.fromkeys([*suffixes, *(() if kind is None else (kind.codec.family_suffix, *kind.families))])
    known = [family for suffix in every if (family := family_reader(suffix)) is not None]
    return list(dict.fromkeys(column for family in known for column in family.columns))


def kind_of_families(suffixes: Collection[str]) -> str | None:
    """Returns the kind that has all of these families of one store, older ones that it takes over included."""
    wanted = set(suffixes)
    for name, kind in KINDS.items():
        own = {kind.codec.family_suffix, *kind.families}
        if kind.has_rows and own & wanted and wanted <= own | set(kind.older) | set(kind.notes):
            return name
    return None


BESIDE_OFFSETS = (TOPIC_ID, COMPLETE_AT, SCHEMAS, REBUILT, PASSED, LEADER_EPOCH, LAST_LOGGED)
"""The prefixes of rows that say something about offsets, named by the topic, or about the rows of a store."""
COUNTED = 10_000
"""The largest number of entries that is counted; more are estimated."""


@dataclass(frozen=True)
class StoredStore:
    """A store in the database of one task."""

    task: StoredTask
    name: str
    families: tuple[str, ...]
    missing: tuple[str, ...]
    """Families that were made and are missing now."""
    offsets: Mapping[str, int | None]
    """Offset of the last record that it holds, by partition of its changelog; ``None`` where the row is damaged."""
    offset_keys: tuple[bytes, ...]
    """The keys of the rows with these offsets, and with the ids of their topics."""

    @property
    def suffixes(self) -> list[str]:
        return [family.removeprefix(f"{self.name}.") for family in self.families]

    @property
    def kind(self) -> str | None:
        """The kind, as store suppliers name it; ``None`` if this release does not know it.

        Of kinds that do not differ on disk, such as the two of LRU maps, it names the first.
        """
        return kind_of_families(self.suffixes)


def stores_in(reader: DatabaseReader, task: StoredTask) -> list[StoredStore]:
    """The stores of a database, by name.

    :raises StateError: if another release wrote it, or what all stores share is damaged.
    """
    found = reader.format
    if found is None:
        if any(next(reader.family(name).range(), None) for name in reader.names):
            raise damaged(reader.path, f"its family {OFFSETS!r} does not contain the format")
    else:
        check_format(found.encode(), reader.path)
    known = {name for name in reader.names if store_of(name)}
    recorded = reader.recorded_families()
    names = sorted({store_of(family) for family in known | recorded})
    offsets: dict[str, dict[str, int | None]] = {name: {} for name in names}
    keys: dict[str, list[bytes]] = {name: [] for name in names}
    for key, row in reader.family(OFFSETS).range():
        if key in (FORMAT_KEY, FAMILIES_KEY) or key.startswith(COMMIT_PREFIX):
            continue
        owner = offset_store(key, task, names)
        if owner is not None:
            if not key.startswith(BESIDE_OFFSETS):
                offsets[owner[0]][owner[1]] = _offset(row)
            keys[owner[0]].append(key)
    return [
        StoredStore(
            task=task,
            name=name,
            families=tuple(sorted(family for family in known if store_of(family) == name)),
            missing=tuple(sorted(family for family in recorded - known if store_of(family) == name)),
            offsets=offsets[name],
            offset_keys=tuple(keys[name]),
        )
        for name in names
    ]


def _offset(row: bytes) -> int | None:
    try:
        return read_offset(row)
    except ValueError:
        return None


def offset_store(key: bytes, task: StoredTask, stores: list[str]) -> tuple[str, str] | None:
    """The store that a row of the family of offsets is about, and the partition; the topic, where the row is
    that of a topic id or of a time. ``None`` if it is about none of these."""
    prefix = next((one for one in BESIDE_OFFSETS if key.startswith(one)), b"")
    text = key.removeprefix(prefix).decode(errors="replace")
    family, slash, partition = text.partition("/")
    if slash:
        return (store_of(family), partition) if store_of(family) in stores else None
    if task.task is not None:
        for store in stores:
            changelog = f"{task.application_id}-{store}-changelog"
            if text == (changelog if prefix else f"{changelog}-{task.task.partition}"):
                return store, text
    return None


def schemas_of(reader: DatabaseReader, store: StoredStore) -> bytes | None:
    """Returns what was noted of the serdes by which the rows of a store were written."""
    offsets = reader.family(OFFSETS)
    return next((row for family in store.families if (row := offsets.get(schemas_key(family))) is not None), None)


def positions_of(reader: DatabaseReader) -> dict[str, int | None]:
    """The next input offsets at the last commit, by partition; ``None`` where the row is damaged."""
    return {key.decode(errors="replace"): _offset(row) for key, row in reader.family(POSITIONS).range()}


def count_rows(reader: DatabaseReader, store: StoredStore) -> tuple[int, bool]:
    """The number of entries, and whether it is exact: an estimate where there are many, or some cannot be read."""
    try:
        counted = sum(1 for _ in islice(scan(reader, store), COUNTED + 1))
    except StateError:
        counted = COUNTED + 1
    if counted <= COUNTED:
        return counted, True
    return sum(reader.family(family).approximate_count() for family in store.families), False


def scan(
    reader: DatabaseReader,
    store: StoredStore,
    low: bytes | None = None,
    high: bytes | None = None,
    *,
    reverse: bool = False,
) -> Iterator[StoredRow]:
    """Yields the entries with ``low <= key < high``.

    Windows and sessions come as their rows stand: by segment of time, then by key, or by time. Entries of other stores
    come by key, the versions of a key by time.

    :raises StateError: if a row is damaged.
    """
    families = {suffix: family_reader(suffix) or UNKNOWN for suffix in store.suffixes}
    rows = [_family_rows(reader, store, suffix, how, (low, high), reverse) for suffix, how in families.items()]
    if len(rows) == 1:
        return rows[0]
    return merge(*rows, key=next((how.order for how in families.values()), UNKNOWN.order), reverse=reverse)


def _family_rows(
    reader: DatabaseReader,
    store: StoredStore,
    suffix: str,
    how: StoredFamily,
    bounds: tuple[bytes | None, bytes | None],
    reverse: bool,
) -> Iterator[StoredRow]:
    low, high = bounds
    family = reader.family(f"{store.name}.{suffix}")
    for key, value in family.range(*how.bounds(low, high), reverse=reverse):
        try:
            row = how.read(key, value)
        except Exception as error:  # whatever a damaged row does to its reader
            what = f"the row under {key.hex() or 'no bytes'} does not belong to a {suffix!r} family: {error}"
            raise damaged(reader.path, what, family.name) from error
        if row is not None and (low is None or low <= row.key) and (high is None or row.key < high):
            yield row


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
