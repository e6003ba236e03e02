"""Lists the snapshots of a task in the order of the numbers in their names, which no clock of a worker makes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from streams.snapshots.manifest import TaskSnapshot, number_of
from streams.snapshots.objects import ObjectStore
from streams.snapshots.store_files import SnapshotError

_DIGESTS = re.compile(rb"[0-9a-f]{64}")


@dataclass(frozen=True)
class ListedSnapshot:
    """Holds a manifest that is in the folder of a task."""

    name: str
    number: int
    """The place in the order of writing. Two that were written at the same time may have the same number."""
    written_s: float
    """When it was written, by the clock of the store, in seconds since 1970."""
    snapshot: TaskSnapshot | None = None
    """The content; ``None`` if it cannot be read."""
    error: OSError | SnapshotError | None = None
    """The error for which it cannot be read."""
    digests: frozenset[str] = frozenset()
    """All that may be the sums of its files, if only its form is not known."""
    not_after_ms: int = field(default=0)
    """A time before which it was written, whatever the clock of its worker said."""


def list_snapshots(objects: ObjectStore, folder: str) -> list[ListedSnapshot]:
    """Returns the snapshots of a task, the last one first.

    :raises OSError: if the folder cannot be read; not if one manifest cannot be.
    """
    infos, found = objects.list(folder), list[ListedSnapshot]()
    numbered = [(number, name) for name in infos if (number := number_of(name)) is not None]
    earliest_ms: int | None = None
    for number, name in sorted(numbered, reverse=True):
        written_s = infos[name].written_s
        snapshot: TaskSnapshot | None = None
        error: OSError | SnapshotError | None = None
        digests = frozenset[str]()
        try:
            text = b"".join(objects.read(f"{folder}/{name}"))
        except FileNotFoundError:  # deleted by another worker in the meantime
            continue
        except OSError as problem:
            error = problem
        else:
            try:
                snapshot = TaskSnapshot.parse(text)
            except SnapshotError as damage:
                error, digests = damage, frozenset(one.decode() for one in _DIGESTS.findall(text))
        # The clock of the store is one for all workers. A snapshot that was written later, by a clock that says an
        # earlier time, shows that one of both clocks is off.
        not_after_ms = int(written_s * 1000) if earliest_ms is None else min(int(written_s * 1000), earliest_ms)
        found.append(ListedSnapshot(name, number, written_s, snapshot, error, digests, not_after_ms))
        if snapshot is not None:
            earliest_ms = snapshot.made_ms if earliest_ms is None else min(earliest_ms, snapshot.made_ms)
    return found
