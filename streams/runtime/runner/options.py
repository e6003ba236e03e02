"""The options of a runner of single tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from processor_api.record import HeaderList
from state.engine.spilling import ROWS_IN_MEMORY_BYTES
from streams.platform import OpenEngine
from streams.runtime.processing.punctuations import Grids
from streams.runtime.runner.changelog_capture import CAPTURE_BYTES, ChangelogRow

HistoryRow = tuple[bytes | None, bytes | None, int, HeaderList | None, int]
"""``(key, value, timestamp_ms, headers, offset)``"""


@dataclass(frozen=True)
class SavedState:
    """The files of databases that an earlier runner saved (:meth:`~streams.runtime.runner.task_runner.TaskRunner.save`)
    and that this one continues with."""

    stores: Path | None
    """The directory of those of the stores on RocksDB; ``None`` if the task has none."""
    changelogs: Path
    """The directory of those of the captured changelogs."""
    known: Mapping[str, int]
    """The changelogs whose changes were tracked, with the number of the next record of each."""


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """Holds the options of a :class:`streams.runtime.runner.task_runner.TaskRunner`."""

    directory: Path | None = None
    """Where it makes its own directory, which `close` removes; the system's place for temporary files if not given."""
    kept_outputs: frozenset[str] | None = None
    """The topics whose records are captured; those of other sinks are dropped. ``None`` keeps all."""
    start_ms: int = 0
    """The time of the wall clock at the start. Rows that have no time of their own are captured with it."""
    event_time: bool = False
    """Whether the wall clock goes with the timestamps of the records, so punctuations by it run; otherwise it stays
    still. Each record is then processed by itself, which costs about twice as much."""
    unplaced: frozenset[str] = frozenset()
    """Topics whose records have no offsets of their own: a processor that asks for one fails."""
    zero_timestamp_ms: int = 1
    """The timestamp that is written instead of 0, as by the clients of the live application."""

    global_rows: Mapping[str, Iterable[HistoryRow]] = field(default_factory=dict)
    """The records of each topic that fills a global store."""
    filled_globals: Callable[[OpenEngine], OpenEngine] | None = None
    """Takes what opens an engine, and returns what opens one with the rows of global stores that were filled before:
    `global_rows` are not read then, and no processor of a global store runs."""
    state: Mapping[str, Iterable[ChangelogRow]] = field(default_factory=dict)
    """The rows that each store begins with, by the topic of its changelog."""
    saved: SavedState | None = None
    """The databases that the runner begins with: `state` is read only for what they lack."""
    tracks_changes: bool = False
    """Whether the changes of the rows of `state` are tracked, if these are too many for the memory."""
    partition_times: Mapping[str, int] = field(default_factory=dict)
    """The time in ms that each input topic begins with."""
    processor_times: Mapping[str, int] = field(default_factory=dict)
    """The times in ms that operators begin with, as `TaskRunner.processor_times` gave them."""

    punctuations: Grids = field(default_factory=dict)
    """The punctuations that processors continue with, as `TaskRunner.punctuations` gave them."""

    buffer_bytes: int = 64 << 20
    """Bytes of uncommitted rows in memory from which on `wants_commit` is true."""
    store_bytes: int = ROWS_IN_MEMORY_BYTES
    """Bytes of committed rows of stores on RocksDB that stay in memory; when there are more, all are on disk."""
    capture_bytes: int = CAPTURE_BYTES
    """Bytes of captured changelog records that stay in memory; when there are more, all are on disk."""
