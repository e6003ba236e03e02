"""All subtopologies of a topology, each task run over given records by a runner of its own, without Kafka or Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from processor_api.record import HeaderList
from processor_api.topology.function import topology_of
from processor_api.topology.subtopology import task_subtopologies
from streams.runtime.runner.options import RunnerOptions
from streams.runtime.runner.resources import RunnerResources
from streams.runtime.runner.task_runner import TaskRunner
from streams.testing.driver_parts.arrivals import TimeHeap

__all__ = ["STRINGS_UNCACHED", "Piped", "StagedRun", "Written", "compacted"]

Piped = tuple[str, bytes | None, bytes | None, int, HeaderList]
"""``(topic, key, value, timestamp_ms, headers)``"""
Written = tuple[bytes | None, bytes | None, int, HeaderList]


STRINGS_UNCACHED = {
    "application.id": "shop",
    "bootstrap.servers": "unused:9092",
    "default.key.serde": "string",
    "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
}
"""Settings of an application whose keys and values are texts, without a cache."""


class StagedRun:
    """A context manager with a runner for each subtopology, which has all its records in the first partition.

    :param globals_: the records of the topics of global stores.
    """

    def __init__(
        self, topology: Any, config: Any, topics: Iterable[str], globals_: Iterable[Piped] = (), **how: Any
    ) -> None:
        rows: dict[str, list[Any]] = {}
        for topic, key, value, timestamp, headers in globals_:
            found = rows.setdefault(topic, [])
            found.append((key, value, timestamp, headers or None, len(found)))
        options = RunnerOptions(zero_timestamp_ms=0, global_rows=rows, **how)
        self._shared = RunnerResources(topology, config, options)
        made = topology_of(self._shared.topology, None)
        most = max((topic.partitions or 1 for topic in made.repartition_topics.values()), default=1)
        counts = dict.fromkeys(topics, most)  # a topic may be joined with one whose number is given
        self.runners: list[TaskRunner] = []
        try:
            for part in task_subtopologies(made):
                self.runners.append(TaskRunner(made, config, counts, part.id, 0, options, self._shared))
        except BaseException:
            self.close()
            raise
        self._readers = {topic: runner for runner in self.runners for topic in runner.topics}
        self._next = dict.fromkeys(self._readers, 0)
        self._waiting: dict[str, deque[Written]] = {}
        self._filled: TimeHeap[str] = TimeHeap()
        self.produced: dict[str, list[Written]] = {}

    @property
    def in_order(self) -> bool:
        """Whether the order of records does not depend on how subtopologies take turns: each reads one topic, and no
        topic that another wrote is written by two, or read before."""
        writers: dict[str, int] = {}
        for number, runner in enumerate(self.runners):
            if len(runner.topics) > 1:
                return False
            for topic in runner.plan.topics_written:
                if writers.setdefault(topic, number) != number:
                    return False
        return all(writers.get(topic, -1) < number for number, one in enumerate(self.runners) for topic in one.topics)

    def pipe(self, records: Iterable[Piped]) -> None:
        """Processes each record to the end before the next, with all that it causes in other subtopologies."""
        for topic, key, value, timestamp, headers in records:
            self._process(topic, [(key, value, timestamp, headers)])
            while self._filled:
                name = self._filled.poll()
                queue = self._waiting[name]
                record = queue.popleft()
                if queue:
                    self._filled.offer(queue[0][2], name)
                self._process(name, [record])

    def run_stages(self, records: Iterable[Piped], batch: int) -> None:
        """Processes all records of a subtopology before the next one begins, with a commit after each batch."""
        for topic, *record in records:
            self._waiting.setdefault(topic, deque()).append(tuple(record))  # type: ignore[arg-type]
        for topic in self._readers:
            waiting = self._waiting.get(topic, deque())
            while waiting:
                self._process(topic, [waiting.popleft() for _ in range(min(batch, len(waiting)))])
                self.commit()
        self._filled = TimeHeap()

    def _process(self, topic: str, records: list[Written]) -> None:
        runner, first = self._readers[topic], self._next[topic]
        self._next[topic] += len(records)
        keys, values, timestamps, headers = zip(*records, strict=True)
        places = range(first, first + len(records))
        runner.feed(topic, keys, values, timestamps, [one or None for one in headers], places)
        runner.run()
        self._collect(runner)

    def _collect(self, runner: TaskRunner) -> None:
        for topic, key, value, timestamp, headers, _ in runner.take():
            record = key, value, timestamp, list(headers or ())
            self.produced.setdefault(topic, []).append(record)
            if topic in self._readers:
                queue = self._waiting.setdefault(topic, deque())
                if not queue:
                    self._filled.offer(timestamp, topic)
                queue.append(record)

    def commit(self) -> None:
        for runner in self.runners:
            runner.commit()
            self._collect(runner)

    def changelogs(self) -> dict[str, list[Written]]:
        """The rows of each changelog, in order."""
        return {
            topic: [(key, value, timestamp, list(headers or ())) for key, value, timestamp, headers in rows]
            for runner in self.runners
            for topic, rows in runner.changelog().items()
        }

    @property
    def dropped(self) -> int:
        return sum(runner.dropped_records for runner in self.runners)

    def close(self) -> None:
        for runner in self.runners:
            runner.close()
        self._shared.close()

    def __enter__(self) -> StagedRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compacted(records: Iterable[Any], *, versioned: bool) -> list[Written]:
    """The last record of each key, in the order in which these were written, without deleted keys; of a versioned
    changelog, the last of each key and timestamp."""
    last: dict[Any, Written] = {}
    for key, value, timestamp, headers in records:
        place = (key, timestamp) if versioned else key
        last.pop(place, None)
        last[place] = key, value, timestamp, list(headers or ())
    return [record for record in last.values() if versioned or record[1] is not None]
