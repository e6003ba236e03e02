"""The place of the snapshots of an application, and the stores of a task that are in them."""

from __future__ import annotations

from dataclasses import dataclass

from state.engine.port import Engine
from streams.runtime.tasks.task import Task
from streams.snapshots.objects import ObjectStore
from streams.threads import SYSTEM_THREADS, Threads

MADE = "snapshot-made"
"""The directory of a checkpoint that is written as a snapshot, in that of the task."""
TAKEN = "snapshot-taken"
"""The directory of a snapshot that is copied for the task, there too."""


@dataclass(frozen=True)
class SnapshotPlace:
    """Says where the snapshots of an application are."""

    objects: ObjectStore
    application_id: str
    threads: Threads = SYSTEM_THREADS


def covered_stores(task: Task, engine: Engine) -> list[str]:
    """Returns the stores of a task whose rows a snapshot of an engine holds; none if not all of them have a changelog.

    Nothing could restore what such a store lacks behind the snapshot.
    """
    own = [store for store in task.plan.stores if task.stores.progress.engine_of(store) is engine]
    return own if all(store in task.plan.changelogs for store in own) else []
