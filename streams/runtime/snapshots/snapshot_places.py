"""The place of the snapshots of an application, and the parts of a task that are in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from state.engine.port import OFFSETS, Checkpointing, Engine
from state.registry.kinds import families_held
from streams.runtime.tasks.task import Task
from streams.snapshots.objects import ObjectStore
from streams.threads import SYSTEM_THREADS, Threads

MADE = "snapshot-made"
"""The directory of checkpoints that are written as snapshots, in that of the task."""
TAKEN = "snapshot-taken"
"""The directory of snapshots that are copied for the task, there too."""

NO_COPIES = "their engine makes no copies of its rows"


@dataclass(frozen=True)
class SnapshotPlace:
    """Says where the snapshots of an application are."""

    objects: ObjectStore
    application_id: str
    threads: Threads = SYSTEM_THREADS


@dataclass(frozen=True)
class SnapshotPart:
    """Names the stores of a task that have a snapshot of their own: those on one engine."""

    engine_name: str
    engine: Checkpointing
    stores: list[str]
    """Those with changelogs, which restore what they lack behind a snapshot."""
    families: list[str]
    """The families with the rows of the stores, and their offsets."""
    is_durable: bool
    """Whether its rows are files, which a snapshot becomes."""


def parts_of(task: Task) -> Iterator[SnapshotPart]:
    """Yields the parts of a task of which there can be snapshots."""
    for name, engine in task.stores.engines.items():
        stores = [one for one in _stores_on(task, engine) if one in task.plan.changelogs]
        if isinstance(engine, Checkpointing) and stores and not why_none(task, engine):
            kept = cast(Engine, engine)
            builders = [task.plan.topology.stores[store] for store in stores]
            families = [family for builder in builders for family in families_held(builder, kept)]
            yield SnapshotPart(name, engine, stores, [*families, OFFSETS], kept.persistent)


def why_none(task: Task, engine: Engine) -> str:
    """Returns why there can be no snapshots of the stores on an engine; nothing if there can."""
    if not isinstance(engine, Checkpointing):
        return NO_COPIES
    if engine.persistent and not all(store in task.plan.changelogs for store in _stores_on(task, engine)):
        return "a store on disk has no changelog, and could not catch up from a snapshot"
    return ""


def _stores_on(task: Task, engine: Engine) -> list[str]:
    return [store for store in task.plan.stores if task.stores.progress.engine_of(store) is engine]


def stores_without(task: Task) -> dict[str, str]:
    """Returns the stores with changelogs that no snapshot has, and why."""
    return {
        store: why
        for engine in task.stores.engines.values()
        if (why := why_none(task, engine))
        for store in _stores_on(task, engine)
        if store in task.plan.changelogs
    }
