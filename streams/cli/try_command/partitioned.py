"""Runs a topology on several partitions, and finds what one partition would have hidden.

Each task runs by itself, as in an application. Tasks take turns, and each processes all that is there, as workers do
that catch up: so the records of several partitions reach a repartition topic one partition after the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from processor_api.context import HeldBack
from processor_api.forms.times import short_iso
from processor_api.record import HeaderList
from processor_api.topology.nodes import SourceNode
from streams.cli.output.terminal import counted_were
from streams.cli.try_command.session import Output, Session
from streams.kafka.producing.key_places import Placement, key_text
from streams.kafka.topics.internal import full_name, internal_topic_counts
from streams.runtime.plan.co_partitioned import joining_calls
from streams.runtime.plan.task_plan import plan_tasks
from streams.runtime.runner.options import HistoryRow, RunnerOptions
from streams.runtime.runner.resources import RunnerResources
from streams.runtime.runner.task_runner import TaskRunner

MOST_NAMED = 3
"""Tasks that a sentence names."""


class PlacedRecord(NamedTuple):
    """A record in the bytes of its topic, and its partition."""

    topic: str
    partition: int
    row: HistoryRow


class Placing:
    """Chooses the partitions of records, and remembers where each key is.

    :param partitions: how many a topic has that is not in ``counts``.
    :param by_crc32: the topics whose producers place keys by CRC32, as librdkafka does by default.
    """

    def __init__(self, partitions: int, by_crc32: Collection[str] = ()) -> None:
        self.partitions = partitions
        self.counts: dict[str, int] = {}
        """The numbers of partitions of internal topics, which a topology may set."""
        self.places: dict[str, dict[bytes, set[int]]] = defaultdict(lambda: defaultdict(set))
        """The partitions of each key, by topic."""
        self._by_crc32 = frozenset(by_crc32)
        self._ends: Counter[tuple[str, int]] = Counter()
        self._without_key: Counter[str] = Counter()

    def place(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderList | None,
        partition: int,
    ) -> PlacedRecord:
        """Returns a record with its partition and offset.

        :param partition: -1 leaves the choice to the key; records without one take turns.
        """
        if partition < 0:
            partition = self._choose(topic, key)
        if key is not None:
            self.places[topic][key].add(partition)
        offset = self._ends[topic, partition]
        self._ends[topic, partition] += 1
        return PlacedRecord(topic, partition, (key, value, timestamp, headers, offset))

    def _choose(self, topic: str, key: bytes | None) -> int:
        count = self.counts.get(topic, self.partitions)
        if key is not None:
            way = Placement.CRC32 if topic in self._by_crc32 else Placement.MURMUR2
            return way.partition(key, count)
        turn = self._without_key[topic]
        self._without_key[topic] += 1
        return turn % count


@dataclass
class TrialTask:
    """One task, and what came to it and from it."""

    runner: TaskRunner
    name: str
    worker: int
    waiting: list[PlacedRecord] = field(default_factory=list)
    read: Counter[str] = field(default_factory=Counter)
    """The number of records by topic; so for ``wrote``."""
    wrote: Counter[str] = field(default_factory=Counter)

    @property
    def subtopology(self) -> int:
        """The number of its subtopology."""
        return self.runner.plan.subtopology

    def run(self) -> None:
        """Processes what waits."""
        by_topic: dict[str, list[HistoryRow]] = defaultdict(list)
        for record in self.waiting:
            by_topic[record.topic].append(record.row)
        self.waiting = []
        for topic, rows in by_topic.items():
            keys, values, times, headers, offsets = zip(*rows, strict=True)
            self.runner.feed(topic, keys, values, times, headers, offsets)
            self.read[topic] += len(rows)
        self.runner.run()
        self.runner.commit()


class PartitionedRun:
    """Runs all tasks of a topology over the partitions of its topics. It is a context manager, used once.

    :param records: all input, in order.
    :param workers: among how many the tasks are shared out.
    """

    def __init__(self, session: Session, placing: Placing, records: Iterable[PlacedRecord], workers: int) -> None:
        self.topology = session.topology
        self.placing = placing
        self.outputs: list[PlacedRecord] = []
        """The records of topics that are not internal, in order."""
        self._config = session.config
        self._opened = ExitStack()
        self._is_internal = session.topics.is_internal
        given = list(records)
        self.tasks = self._made(session, given, workers)
        self._readers = {
            (topic, task.runner.partition): task for task in self.tasks for topic in task.runner.plan.topics
        }
        self._send(given)

    def _made(self, session: Session, given: Iterable[PlacedRecord], workers: int) -> list[TrialTask]:
        filling = {store.topic for store in self.topology.global_stores.values()}
        rows: dict[str, list[HistoryRow]] = {topic: [] for topic in filling}
        for record in given:
            if record.topic in filling:
                rows[record.topic].append(record.row)
        options = RunnerOptions(global_rows=rows, event_time=True)
        topics = {*session.topics.read, *session.topics.written, *(record.topic for record in given), *filling}
        counts = dict.fromkeys(topics, self.placing.partitions)
        config = self._config.dotted()
        plans = plan_tasks(self.topology, config, counts)
        self.placing.counts = internal_topic_counts(self.topology, config, counts)
        resources = RunnerResources(self.topology, self._config, options)
        self._opened.callback(resources.close)
        tasks: list[TrialTask] = []
        for plan in plans:
            for partition in range(plan.tasks):
                runner = TaskRunner(
                    self.topology, self._config, counts, plan.subtopology, partition, options, resources
                )
                self._opened.callback(runner.close)
                worker = len(tasks) % workers + 1
                tasks.append(TrialTask(runner, f"{plan.subtopology}_{partition}", worker))
        return tasks

    def run(self) -> None:
        """Lets tasks take turns until nothing waits.

        :raises StreamsError: if the topology fails.
        """
        for task in self.tasks:
            task.runner.commit()
        while any(task.waiting for task in self.tasks):
            for task in self.tasks:
                if task.waiting:
                    task.run()
                    self._take(task)

    def _take(self, task: TrialTask) -> None:
        sent = [self.placing.place(*output) for output in task.runner.take()]
        for record in sent:
            if not self._is_internal(record.topic):
                task.wrote[record.topic] += 1
                self.outputs.append(record)
        self._send(sent)

    def _send(self, records: Iterable[PlacedRecord]) -> None:
        """Gives records to the tasks that read them."""
        for record in records:
            task = self._readers.get((record.topic, record.partition))
            if task is not None:
                task.waiting.append(record)

    @property
    def dropped(self) -> int:
        """The number of records that nodes have dropped."""
        return sum(task.runner.dropped_records for task in self.tasks)

    def __enter__(self) -> PartitionedRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


def outputs_of(run: PartitionedRun, session: Session) -> Iterator[Output]:
    """Yields what the tasks wrote, with its place."""
    for topic, partition, (key, value, timestamp, headers, offset) in run.outputs:
        yield session.output(topic, key, value, timestamp, headers or [], (partition, offset))


def task_rows(run: PartitionedRun) -> list[list[str]]:
    """Returns a table of the tasks: what each read and wrote, what it dropped, and its stream time."""
    rows = [["task", "worker", "read", "wrote", "dropped", "stands at"]]
    for task in run.tasks:
        counts = [", ".join(f"{topic} {count}" for topic, count in found.items()) for found in (task.read, task.wrote)]
        dropped = str(task.runner.dropped_records or "")
        rows.append([task.name, str(task.worker), *counts, dropped, _time(_stream_time(task))])
    return [[cell or "-" for cell in row] for row in rows]


# ---------------------------------------------------------------------- what one partition hides


def hidden_things(run: PartitionedRun, alone: Session) -> Iterator[str]:
    """Yields a sentence for each thing that the run on one partition has hidden.

    :param alone: the run of the same records on one partition.
    """
    yield from _misplaced(run)
    yield from _scattered(run)
    yield from _late(run, alone)
    for task in run.tasks:
        latest = max((one for one in run.tasks if one.subtopology == task.subtopology), key=_stream_time)
        for node, held in task.runner.held_results():
            if held.due_ms <= _stream_time(latest):
                yield _quiet(run, task, latest, node, held)


def _stream_time(task: TrialTask) -> int:
    return task.runner.stream_time


def _misplaced(run: PartitionedRun) -> Iterator[str]:
    """Keys of topics that are read together, and that are in no common partition."""
    topology, prefix = run.topology, run.tasks[0].runner.plan.prefix if run.tasks else ""
    for group in topology.copartition_groups:
        sources = [node for node in map(topology.nodes.get, group) if isinstance(node, SourceNode)]
        topics = [full_name(topology, prefix, topic) for source in sources for topic in source.topics]
        known = [(topic, run.placing.places[topic]) for topic in topics if topic in run.placing.places]
        for number, (topic, places) in enumerate(known):
            for other, others in known[number + 1 :]:
                both = sorted(places.keys() & others.keys())
                apart = [key for key in both if not places[key] & others[key]]
                if apart:
                    key = apart[0]
                    yield (
                        f"{len(apart)} of {len(both)} keys are in different partitions of {topic!r} and {other!r}, such"
                        f" as {key_text(key)} in {_numbers(places[key])} and {_numbers(others[key])}:"
                        f" {joining_calls(topology, group)} never sees such records together. Use the same partitioner"
                        " in both producers"
                    )


def _scattered(run: PartitionedRun) -> Iterator[str]:
    """Keys of a topic that is read whose records are in several partitions."""
    read = {topic for task in run.tasks for topic in task.runner.plan.topics}
    for topic, places in run.placing.places.items():
        keys = [key for key, found in places.items() if len(found) > 1]
        if topic in read and keys:
            yield (
                f"{len(keys)} of {len(places)} keys of {topic!r} have records in several partitions, such as"
                f" {key_text(keys[0])} in {_numbers(places[keys[0]])}: no task sees all records of such a key, so their"
                " order is lost"
            )


def _late(run: PartitionedRun, alone: Session) -> Iterator[str]:
    more = run.dropped - alone.dropped
    dropping = [task for task in run.tasks if task.runner.dropped_records]
    named = ", ".join(f"task {task.name}: {task.runner.dropped_records}" for task in dropping[:MOST_NAMED])
    if more > 0:
        yield (
            f"{counted_were(more, 'record')} dropped that would be accepted with one partition ({named}): after a"
            " repartition topic, the records of several partitions are not in the order of their times, so some are"
            " late. A longer grace period accepts them"
        )
    elif more < 0:
        yield (
            f"{counted_were(-more, 'record')} accepted that would be dropped with one partition: each task has its own"
            " stream time, and a record that is late among all records can be in time within its partition"
        )


def _quiet(run: PartitionedRun, task: TrialTask, latest: TrialTask, node: str, held: HeldBack) -> str:
    topics = " and ".join(map(repr, task.runner.plan.topics))
    origin = run.topology.origin_of(node)
    node = node if origin["made_by"] is None else f"{origin['made_by']} at {origin['made_at']}"
    return (
        f"task {task.name} is at {_time(_stream_time(task))} because partition {task.runner.partition} of {topics} has"
        f" no later records, and task {latest.name} at {_time(_stream_time(latest))}: {node} holds back {held.what}"
        f" there, the first until a record of {_time(held.due_ms)} or later. With one partition the other records would"
        " advance it"
    )


def _numbers(partitions: Iterable[int]) -> str:
    numbers = sorted(partitions)
    word = "partition" if len(numbers) == 1 else "partitions"
    return f"{word} {', '.join(map(str, numbers))}"


def _time(ms: int) -> str:
    return "no stream time yet" if ms < 0 else short_iso(ms)
