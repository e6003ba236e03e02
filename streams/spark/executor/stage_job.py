"""The description of a stage that is sent to its tasks on Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from state.engine.spilling import ROWS_IN_MEMORY_BYTES
from streams.runtime.processing.punctuations import Grids
from streams.spark.executor.earlier_task import EarlierTask
from streams.spark.executor.global_tables import GlobalTables
from streams.spark.executor.shipped_topology import ShippedTopology
from streams.spark.rows.state_files import StateFiles


@dataclass(frozen=True)
class JobInput:
    """A topic that a stage reads."""

    topic: str
    partitions: int
    has_offsets: bool
    """Whether column ``seq`` has the offsets that the records have in Kafka, and the rows are in their order."""
    written_by: int | None = None
    """The stage that wrote it; ``None`` for a history."""
    guesses_unit: bool = False
    """Whether the times of the history are integers whose unit is not said."""


class TaskTimes(NamedTuple):
    """The times with which a task begins, as the report of an earlier one has them."""

    partitions: Mapping[str, int]
    """The largest timestamp of each input topic, in ms."""
    processors: Mapping[str, int]
    """The times of the operators, in ms."""
    punctuations: Grids
    """The punctuations of the processors."""


@dataclass(frozen=True)
class EarlierState:
    """The state at the end of an earlier backfill, with which the tasks of a stage begin."""

    changelogs: Mapping[int, Mapping[str, str]]
    """The changelog of each store as it is called there, by the one here, for each subtopology."""
    files: Mapping[int, tuple[StateFiles, ...]]
    """Files with rows of changelogs, by the number of the Spark task that wrote them."""
    times: Mapping[tuple[int, int], TaskTimes]
    """Times by subtopology and partition."""
    tasks: Mapping[tuple[int, int], EarlierTask] = field(default_factory=dict)
    """Earlier tasks that those of this run can continue with, by subtopology and partition."""


@dataclass(frozen=True, kw_only=True)
class StageJob:
    """Holds what each task of a stage has to know."""

    shipped: ShippedTopology
    stage: int
    subtopologies: tuple[int, ...]
    """One, or several that feed each other."""
    looped: tuple[str, ...]
    """Topics that the stage writes and reads itself, in the order in which they are read."""
    inputs: tuple[JobInput, ...]
    """The topics by their numbers in column ``q``."""
    counts: Mapping[str, int]
    """Partition counts of all topics that are not internal."""
    written_counts: Mapping[str, int]
    """Partition counts of the topics that sinks write, where they are known."""
    attempts: str
    """The directory in which each attempt of a task makes its own."""
    kept_outputs: frozenset[str] | None = None
    """The topics whose records are kept; ``None`` keeps all."""
    read_again: frozenset[str] = frozenset()
    """The topics that the stage writes and a later one reads."""
    wall_clock: str = "off"
    """``"event-time"`` moves the wall clock with stream time."""
    started_ms: int = 0
    """The time at which the run began, at which a wall clock that is off stays; each attempt has the same."""
    global_tables: GlobalTables | None = None
    """The global stores, filled; ``None`` if the topology has none."""
    earlier: EarlierState | None = None
    """The state that the stores begin with."""
    flush_at_end: bool = False
    """Whether results that wait for later records are sent on after the last one."""
    state_bytes: int = ROWS_IN_MEMORY_BYTES
    """The bytes of rows of stores, and of changelogs, from which on a task has them on disk."""
    commit_bytes: int = 64 << 20
    """The bytes of uncommitted rows from which on a task writes them to its stores."""
