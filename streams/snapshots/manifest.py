"""Manifests of snapshots of tasks: what a snapshot holds, and whether a task can begin with it (docs/formats.md).

A snapshot is the database of a task as of a commit, so what holds for a state directory that was put back holds for it:
each store in it knows its offset, the id of its changelog and as of when it was complete. The manifest repeats that, so
that a snapshot which cannot be used is not copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from processor_api.stores.suppliers import ROCKSDB
from streams.snapshots.store_files import LAYOUT, SnapshotError, TableFile

VERSION = 1
SUFFIX = ".json"
_NAME = re.compile(r"([0-9]{15,40})-[0-9a-f]{16}\.json")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
KEPT_SHARE = 0.9
"""The part of ``delete.retention.ms`` that a snapshot may be old: the restore takes time, and clocks differ by as much
as the rest."""


@dataclass(frozen=True, kw_only=True)
class StoreState:
    """Describes a store in a snapshot, or one that a task has to restore."""

    topic: str
    """The changelog."""
    topic_id: str
    offset: int | None
    """The offset of the last record of the changelog that the store holds; ``None`` if it holds none."""
    complete_ms: int
    """The time as of which the store had all of its changelog up to the offset, by the wall clock of its worker."""
    families: Sequence[str]
    """The families that hold its rows."""
    point: tuple[int, int] | None = None
    """The offset of a record of the changelog that the store holds, with the epoch of a leader that had it; ``None`` in
    snapshots of earlier releases, and where the brokers give no epochs."""

    @staticmethod
    def of(fields: Mapping[str, Any]) -> StoreState:
        """Returns that of the fields of a manifest.

        :raises TypeError: if they are others than those that one has.
        """
        point = fields.get("point")
        return StoreState(**{**fields, "point": None if point is None else tuple(point)})


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """Describes what a task has to restore of a store."""

    topic: str
    topic_id: str | None
    """``None`` if the cluster gives none."""
    beginning: int
    """The first offset of the changelog."""
    end: int
    """The offset behind its last record; of a source topic that serves as changelog, the committed offset."""
    families: Sequence[str]
    keeps_deletions_ms: int | None
    """The changelog's ``delete.retention.ms``; ``None`` if it is not compacted."""
    is_source: bool = False
    """Whether it is a source topic: the records from the end on are processed, and must not be in the store before."""


@dataclass(frozen=True, kw_only=True)
class TaskSnapshot:
    """Describes the snapshot of a task."""

    application_id: str
    task: str
    made_ms: int
    """When it was made, by the wall clock of its worker."""
    stores: Mapping[str, StoreState]
    files: Sequence[TableFile]
    version: int = VERSION
    layout: str = LAYOUT

    @property
    def size(self) -> int:
        """The bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def offsets(self) -> int:
        """The sum of the offsets of its stores: of two that fit, the one with more leaves less to be replayed."""
        return sum(1 + store.offset for store in self.stores.values() if store.offset is not None)

    def to_json(self) -> bytes:
        """Returns the text of the manifest, with a sum of it."""
        fields = asdict(self)
        for store in fields["stores"].values():
            if store["point"] is None:  # as earlier releases write and read it
                del store["point"]
        return json.dumps({**fields, "sum": sum_of(fields)}, indent=1, sort_keys=True).encode()

    def name(self, number: int) -> str:
        """Returns the name of the manifest: two different ones have different names.

        :param number: one more than the highest of the snapshots that are there.
        """
        return f"{number:015d}-{blake2b(self.to_json(), digest_size=8).hexdigest()}{SUFFIX}"

    @staticmethod
    def parse(text: bytes) -> TaskSnapshot:
        """Reads a manifest.

        :raises SnapshotError: if it is damaged or of another version; the text says which.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            written = fields.pop("sum", None)
            form = fields.get("version"), fields.get("layout")
            if form != (VERSION, LAYOUT) and None not in form:
                raise SnapshotError(
                    f"it has version {form[0]} with layout {form[1]}, but this release reads version {VERSION} with"
                    f" layout {LAYOUT}"
                )
            if written != sum_of(fields):
                raise SnapshotError("its manifest is damaged: its checksum is wrong")
            stores = {name: StoreState.of(store) for name, store in fields.pop("stores").items()}
            files = [TableFile(**file) for file in fields.pop("files")]
            found = TaskSnapshot(stores=stores, files=files, **fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"its manifest is damaged: {type(error).__name__}: {error}") from error
        if not found._has_numbers():
            raise SnapshotError("its manifest is damaged: a number is not a number")
        for file in files:
            if not _FILE.fullmatch(file.name) or not _DIGEST.fullmatch(file.digest):
                raise SnapshotError("its manifest is damaged: it lists files that do not belong to a snapshot")
        return found

    def _has_numbers(self) -> bool:
        """Whether all numbers are numbers, and those of files none below 0."""
        offsets = [store.offset for store in self.stores.values() if store.offset is not None]
        sizes = [file.size for file in self.files]
        offsets += [number for store in self.stores.values() for number in store.point or ()]
        numbers = [self.made_ms, *offsets, *(store.complete_ms for store in self.stores.values()), *sizes]
        return all(type(one) is int for one in numbers) and all(size >= 0 for size in sizes)

    def complete_ms(self, store: str, not_after_ms: int) -> int:
        """Returns the time as of which a store was complete at the latest, whatever the clock of its worker said.

        :param not_after_ms: a time before which the snapshot was written.
        """
        return min(self.stores[store].complete_ms, not_after_ms)

    def obstacle(
        self, application_id: str, task: str, lacking: Mapping[str, Lacking], now_ms: int, not_after_ms: int
    ) -> str | None:
        """Returns why a task cannot begin with the snapshot; ``None`` if it can.

        :param lacking: what the task has to restore, by store.
        :param now_ms: the time of the task's worker.
        :param not_after_ms: a time before which the snapshot was written.
        """
        if (self.application_id, self.task) != (application_id, task):
            return f"it is of task {self.task} of application {self.application_id!r}"
        common = [(name, store, lacking[name]) for name, store in self.stores.items() if name in lacking]
        if not common:
            return f"it has no store of the task; its stores are {', '.join(sorted(self.stores)) or 'none'}"
        for name, store, wanted in common:
            if why := _obstacle(name, store, wanted, now_ms - self.complete_ms(name, not_after_ms)):
                return why
        return None


def _obstacle(name: str, store: StoreState, wanted: Lacking, age_ms: int) -> str | None:
    if store.topic != wanted.topic:
        return f"its store {name!r} has changelog {store.topic}, but the changelog is now {wanted.topic}"
    if wanted.topic_id is None:
        return (
            f"the cluster does not report an id of changelog {wanted.topic}, so it may be another topic of the same"
            " name"
        )
    if store.topic_id != wanted.topic_id:
        return (
            f"changelog {wanted.topic} is another topic: its id is {wanted.topic_id}, the snapshot's {store.topic_id};"
            " it was deleted and made again, or the snapshot is from another cluster"
        )
    if sorted(store.families) != sorted(wanted.families):
        return f"store {name!r} is of another kind now"
    following = 0 if store.offset is None else store.offset + 1
    if wanted.is_source and following > wanted.end:
        return (
            f"store {name!r} holds its source topic {wanted.topic} up to offset {store.offset}, but the committed"
            f" offset is {wanted.end}: records are processed again from there, and the store would already have later"
            " ones"
        )
    if not (wanted.beginning <= following or store.offset is None) or following > wanted.end:
        return (
            f"the offset {store.offset} of store {name!r} is outside of changelog {wanted.topic}, which has"
            f" {wanted.beginning} to {wanted.end - 1}"
        )
    kept_ms = wanted.keeps_deletions_ms
    if following >= wanted.end or kept_ms is None:
        return None
    if age_ms < -(1 - KEPT_SHARE) * kept_ms:
        return (
            f"its age is unknown: store {name!r} was complete {-age_ms} ms after the time of this machine, so one of"
            " the two clocks is wrong, and deleted keys might come back"
        )
    if age_ms > KEPT_SHARE * kept_ms:
        return (
            f"it is too old: changelog {wanted.topic} keeps deletions for {kept_ms} ms (delete.retention.ms), so"
            f" deleted keys might come back; store {name!r} was complete {age_ms} ms ago"
        )
    return None


def sum_of(fields: Mapping[str, Any]) -> str:
    """Returns the sum of the fields of a manifest."""
    return blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=32).hexdigest()


def tasks_of(application_id: str) -> str:
    """Returns the folder that has a folder for each task."""
    return f"{application_id}/tasks"


def folder_of(application_id: str, task: str, engine: str = ROCKSDB) -> str:
    """Returns the folder of the manifests of a task.

    :param engine: the name of the engine whose stores they have: those of each other engine than RocksDB are in a
        folder of their own below that of the task.
    """
    folder = f"{tasks_of(application_id)}/{task}"
    return folder if engine == ROCKSDB else f"{folder}/{engine}"


def files_of(folder: str) -> str:
    """Returns the folder of the files of a task, which have the BLAKE2b of their content for names."""
    return f"{folder}/files"


def number_of(name: str) -> int | None:
    """Returns the number in the name of a manifest; ``None`` for an object that is not a manifest.

    Releases up to 0.1.0 have the time there, by the clock of the worker.
    """
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])
