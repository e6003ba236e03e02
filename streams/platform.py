"""The parts of the machine that an application needs besides its Kafka clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from processor_api.clock import Clock, SystemClock
from state.directory.errors import has_room
from state.directory.file_lock import FileLock, FileLocks
from state.engine.port import Engine
from streams.snapshots.cloud import open_objects
from streams.snapshots.objects import ObjectStore
from streams.threads import SYSTEM_THREADS, Threads

OpenEngine = Callable[[str, Path, Sequence[str]], Engine]
"""``(engine, directory of a task, families)`` to the engine, opened."""


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The clock, the threads and the disk of the machine, or what a simulation puts in their places."""

    clock: Clock = field(default_factory=SystemClock)
    threads: Threads = SYSTEM_THREADS
    file_locks: FileLocks = FileLock
    has_room: Callable[[Path], bool] = has_room
    """Whether the disk of a directory takes a little more (:func:`state.directory.errors.has_room`)."""
    snapshots: Callable[[Path | str], ObjectStore] = open_objects
    """Returns the store of snapshots at ``state.snapshot.dir``, a directory or a URL."""
    engines: Mapping[str, OpenEngine] = field(default_factory=dict)
    """The functions that open engines instead of the registered ones, by name."""
    on_thread: Callable[[str, int], None] = lambda process, number: None
    """Takes the id of the process and the number of a stream thread before that has clients. The names by which the
    brokers know the thread follow from the two (:mod:`streams.kafka.suspects`)."""
