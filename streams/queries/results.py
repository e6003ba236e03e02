"""The results of queries: for each partition a result, or the reason why there is none; and the lags of stores behind
their changelogs (KIP-535).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.queries.local_stores import LocalThread
from streams.queries.position import Position
from streams.runtime.tasks.task import Task, TaskState
from streams.runtime.threads.task_manager import OwnedTask
from streams.runtime.threads.thread_state import ThreadState

R = TypeVar("R")


class FailureReason(enum.Enum):
    """The reason why a partition gave no result.

    ::

        request = StateQueryRequest.in_store("counts").with_query(VersionedKeyQuery("ann"))
        result = driver.query(request).partition_results[0]
        assert result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    """

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """Stores of this kind cannot be asked this."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """An active, running task was asked for, and this one is not: try again later."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """The store is not as far as the request's bound: try again later."""
    NOT_PRESENT = "NOT_PRESENT"
    """The partition is not in this process: try another one."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """The store has no such partition."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """The store failed; the message says why."""


@dataclass(frozen=True, kw_only=True)
class QueryResult(Generic[R]):
    """The result of a query in one partition, or in a global store.

    ::

        inputs.pipe_input("ann", "hello")
        request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
        result = driver.query(request).partition_results[0]
        assert result.is_success and result.result == 1
    """

    outcome: R | None = None
    """The result; ``None`` after a failure, and also where nothing was found."""
    failure: FailureReason | None = None
    message: str = ""
    position: Position = field(default_factory=Position)
    """The position of the store in its inputs, at least, at the level of isolation that was read."""
    execution_info: tuple[str, ...] = ()
    """How the query was run; empty unless the request asked for it."""

    @property
    def is_success(self) -> bool:
        """Whether there is a result, which may be ``None``."""
        return self.failure is None

    @property
    def is_failure(self) -> bool:
        """Whether the query failed in this partition."""
        return self.failure is not None

    @property
    def result(self) -> R:
        """The result; ``None`` if nothing was found.

        :raises StreamsError: if the query failed, with its reason and message.
        """
        if self.failure is not None:
            raise StreamsError(f"the query failed, {self.failure.value}: {self.message}")
        return self.outcome  # type: ignore[return-value]

    @property
    def failure_reason(self) -> FailureReason:
        """The reason of the failure.

        :raises StreamsError: if the query did not fail.
        """
        if self.failure is None:
            raise StreamsError("the query did not fail, so it has a result and no failure")
        return self.failure

    @property
    def failure_message(self) -> str:
        """The message of the failure.

        :raises StreamsError: if the query did not fail.
        """
        if self.failure is None:
            raise StreamsError("the query did not fail, so it has a result and no failure")
        return self.message


@dataclass(frozen=True, kw_only=True)
class StateQueryResult(Generic[R]):
    """The results of a query in all partitions that were asked.

    Iterators in it must be closed, one by one or by using it as a context manager.

    ::

        inputs.pipe_key_values([("ann", "hi"), ("bob", "hi")])
        request = StateQueryRequest.in_store("counts").with_query(RangeQuery())
        with driver.query(request) as found:
            rows = [row for result in found.partition_results.values() for row in result.result]
        assert rows == [("ann", 1), ("bob", 1)]
    """

    partition_results: Mapping[int, QueryResult[R]] = field(default_factory=dict)
    """The results by partition; empty for a global store."""
    global_result: QueryResult[R] | None = None
    """The result of a global store, else ``None``."""

    @property
    def only_partition_result(self) -> QueryResult[R] | None:
        """Returns the result or the failure of the partition that has one, for a query that finds something in one
        partition at most; ``None`` if no partition found anything.

        :raises StreamsError: if several partitions found something or failed.
        """
        found = {
            partition: one
            for partition, one in self.partition_results.items()
            if one.is_failure or one.outcome is not None
        }
        if len(found) > 1:
            raise StreamsError(
                f"partitions {sorted(found)} have several results or failures: read partition_results, or query one"
                " partition"
            )
        return next(iter(found.values()), None)

    @property
    def position(self) -> Position:
        """The positions of all results in one, to be the bound of a later query."""
        if self.global_result is not None:
            return self.global_result.position
        return Position.merged(one.position for one in self.partition_results.values())

    def close(self) -> None:
        """Closes every iterator in it."""
        for one in (*self.partition_results.values(), self.global_result):
            close = getattr(one.outcome, "close", None) if one is not None else None
            if close is not None:
                close()

    def __enter__(self) -> StateQueryResult[R]:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class LagInfo(NamedTuple):
    """The lag of one partition of a store, in offsets of its changelog.

    Markers of transactions and records that compaction removed count, so that a lag is about the number of records to
    come.

    ::

        lag = LagInfo(current_offset_position=40, end_offset_position=42)
        assert lag.offset_lag == 2
    """

    current_offset_position: int
    """The next offset that the store takes."""
    end_offset_position: int
    """The end of the changelog, as far as this process knows."""

    @property
    def offset_lag(self) -> int:
        """The number of offsets that the store is behind."""
        return max(0, self.end_offset_position - self.current_offset_position)


def local_lags(threads: Iterable[LocalThread]) -> dict[str, dict[int, LagInfo]]:
    """Returns the lags for `KafkaStreams.all_local_store_partition_lags`."""
    found: dict[str, dict[int, LagInfo]] = {}
    threads = list(threads)
    for thread in threads:
        for owned in thread.list_tasks() if thread.state is not ThreadState.DEAD else ():
            for store in owned.plan.changelogs:
                lag = _lag(owned, store)
                if lag is not None:
                    found.setdefault(store, {})[owned.id.partition] = lag
    for thread in threads:
        for copy in thread.list_standbys() if thread.state is not ThreadState.DEAD else ():
            for store, followed in copy.changelogs.items():
                lag = LagInfo(followed.next_offset, followed.next_offset + followed.lag)
                found.setdefault(store, {}).setdefault(copy.id.partition, lag)
    return found


def _lag(owned: OwnedTask, store: str) -> LagInfo | None:
    task = owned.task
    if task is not None and task.state is TaskState.RUNNING:
        end = _end(task, owned, store)
        return None if end is None else LagInfo(end, end)
    job = owned.restores.get(store)
    if job is not None:
        return LagInfo(job.next_offset, job.end)
    end = owned.changelog_ends.get(store)
    return None if end is None else LagInfo(end, end)


def _end(task: Task, owned: OwnedTask, store: str) -> int | None:
    """Returns the end of the changelog of a running task, which is its only writer."""
    if store in owned.plan.source_changelogs:
        queue = task.inputs.queues.get(TopicPartition(owned.plan.changelogs[store], owned.id.partition))
        return None if queue is None else queue.next_offset or 0
    changelog = task.stores.changelogs.by_store.get(store)
    return None if changelog is None else changelog.end
