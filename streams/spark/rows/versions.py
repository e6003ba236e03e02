"""The versions that a versioned store keeps, from the records of its changelog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import ROCKSDB, StoreSupplier
from state.registry.kinds import families_of, kind_of, restore_of
from state.versioned.history import VERSIONS
from streams.spark.rows.compaction import CHUNK, TaskFolder
from streams.spark.rows.table_layout import Entries, version_limit

Records = tuple[Sequence[bytes], Sequence[bytes | None], Sequence[int], Sequence[int], Sequence[Any] | None]
"""Keys, values, timestamps, offsets and headers of changelog records."""


def version_entries(
    store: str,
    parameters: Mapping[str, Any],
    records: Iterable[Records],
    folder: TaskFolder,
    *,
    all_versions: bool,
    expired: bool,
) -> Iterator[Entries]:
    """Yields the versions that a versioned store has after these records, made by the store's own restore: which puts
    came too late, and which versions are kept, is its rule."""
    supplier = StoreSupplier(name=store, kind="versioned-key-value", engine=ROCKSDB, parameters=parameters)
    builder: StoreBuilder[Any, Any] = StoreBuilder(supplier=supplier)
    families = families_of(builder)
    engine = folder.open_engine(families)
    try:
        restore, latest_time = restore_of(builder, engine), -1
        for keys, values, timestamps, _, headers in records:
            batch = engine.batch()
            restore(batch, keys, values, timestamps, headers or [None] * len(keys))
            engine.load(batch)
            latest_time = max(latest_time, max(timestamps, default=-1))
        first = version_limit(parameters, latest_time)
        kind = kind_of(builder)
        for name in families:
            suffix = name.removeprefix(f"{store}.")
            if suffix not in kind.offline or (suffix == VERSIONS and not all_versions):
                continue
            read = kind.offline[suffix].read
            found = (row for key, value in engine.family(name).range() if (row := read(key, value)) is not None)
            shown = (
                row for row in found
                if row.value is not None and (expired or row.more.get("valid_to", first) >= first)
            )  # fmt: skip
            yield from _versions(shown)
    finally:
        engine.close()


def _versions(rows: Iterator[Any]) -> Iterator[Entries]:
    while chunk := list(islice(rows, CHUNK)):
        nothing = [None] * len(chunk)
        times = {name: [row.more.get(name) for row in chunk] for name in ("valid_from", "valid_to")}
        yield Entries([row.key for row in chunk], [row.value for row in chunk], nothing, nothing, None, times)
