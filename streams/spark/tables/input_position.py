"""The position of a table in the inputs of its application, from the same commit as the table.

Under exactly once, a transaction changes the offsets of a task and its changelogs at once. Readers see it happen one
after the other, since each partition gets a marker of its own. So offsets are read before and after the end of a
changelog, and between the two it is waited until no transaction that may have changed the first ones is still writing
its markers (docs/decisions/spark.md, "The position of a read table is exact").

Under at least once there is no such moment while the application works. Where it has nothing to do, there is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig, clients
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.own_names import writer_form
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.record_ranges import next_records
from streams.kafka.wire.cluster_queries import ClusterQueries
from streams.kafka.wire.messages import LATEST, READ_COMMITTED
from streams.runtime.plan.task_plan import TaskPlan
from streams.spark.errors import PositionError
from streams.spark.position import PartitionPosition, Position, TopicPosition
from streams.spark.sources.as_of import CLIENT, plans_of
from streams.spark.sources.offsets import consumer_settings
from streams.spark.sources.ranges import OffsetRange, OffsetRanges

DEADLINE_S = 5.0
"""How long it is tried to find a moment between two commits."""
RESTING_S = 1.0
"""The same for a moment at which nothing waits in a repartition topic, which may never come."""
ANSWER_S = 5.0
PAUSE_S = 0.005
NEVER = "no committed offset"
PREPARED = "PrepareCommit"
"""The state of a transaction whose markers are being written: some partitions show it, others not yet."""

Offsets = Mapping[TopicPartition, int]
Committed = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True)
class LinkedInputs:
    """The inputs that decide the content of some partitions of a changelog; they have to be looked at together."""

    changelogs: tuple[TopicPartition, ...]
    inputs: tuple[TopicPartition, ...]
    """The partitions that are read, of repartition topics too."""
    internal: frozenset[str] = frozenset()
    """The repartition topics: the table is of a moment at which nothing waits in them."""


@dataclass
class FoundPosition:
    """Holds where the inputs stood, or why that is not known.

    :param settings: of a consumer that reads committed records.
    """

    application_id: str
    settings: Mapping[str, Any]
    committed: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    input_ends: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """The ends of the changelog's partitions at these moments."""
    unknown: str | None = None
    _position: Position | None = None

    def position(self) -> Position:
        """Returns the position.

        :raises PositionError: if a part of it is not known.
        """
        if self.unknown is not None:
            raise PositionError(f"the position of the table in its inputs is not known: {self.unknown}")
        if self._position is None:
            self._position = self._found()
        return self._position

    def _found(self) -> Position:
        behind = {
            place: (one.offset, self.input_ends[place])
            for place, one in self.committed.items()
            if one.offset < self.input_ends.get(place, -1)
        }
        nexts = _next_records(self.settings, behind)
        topics: dict[str, dict[int, PartitionPosition]] = {}
        ids: dict[str, str | None] = {}
        for place, one in sorted(self.committed.items()):
            data = TopicPartitionMetadata.decode(one.metadata)
            # Up to the next record there are only markers of transactions, so that both offsets mean the same.
            found = PartitionPosition(nexts.get(place, one.offset), one.offset, data.partition_time)
            topics.setdefault(place.topic, {})[place.partition] = found
            ids[place.topic] = ids.get(place.topic) or data.topic_id
        made = {topic: TopicPosition(partitions, ids[topic]) for topic, partitions in topics.items()}
        return Position(self.application_id, made)


def of_topics(application_id: str, offsets: OffsetRanges) -> Position:
    """Returns the position of what was read of topics themselves."""
    topics: dict[str, dict[int, PartitionPosition]] = {}
    for one in offsets.ranges:
        topics.setdefault(one.topic, {})[one.partition] = PartitionPosition(one.end, one.end)
    return Position(
        application_id, {topic: TopicPosition(found, offsets.topic_ids.get(topic)) for topic, found in topics.items()}
    )


def with_position(
    config: StreamsConfig, topology: Topology, store: str, offsets: OffsetRanges
) -> tuple[OffsetRanges, Callable[[], Position]]:
    """Returns the ranges of a changelog with ends that belong to commits, as far as some are found in time, and what
    gives the position. It fails in nothing: why a position is not known is said where one asks for it."""
    found = FoundPosition(config.application_id, consumer_settings(config, "read_committed"))
    try:
        tasks = inputs_of(config, topology, store, {TopicPartition(*one[:2]) for one in offsets.ranges})
        with closing(ClusterQueries(clients.admin(config, CLIENT))) as queries:
            MomentSearch(queries, found, offsets.ends()).look(tasks)
    except StreamsError as error:  # such as a missing right, or a topic that is gone
        found.unknown = error.message
    ranges = tuple(_ended(one, found.ends) for one in offsets.ranges)
    return replace(offsets, ranges=ranges), found.position


def _ended(one: OffsetRange, ends: Offsets) -> OffsetRange:
    return one._replace(end=max(one.end, ends.get(TopicPartition(one.topic, one.partition), one.end)))


def inputs_of(
    config: StreamsConfig, topology: Topology, store: str, changelogs: Collection[TopicPartition]
) -> list[LinkedInputs]:
    """Returns the inputs of the tasks that have a store: one entry for each task, or one for all of them where other
    tasks write their input."""
    plans = plans_of(config, topology)
    own = next((plan for plan in plans if store in plan.stores), None)
    if own is None:
        raise PositionError(f"no task has the store {store!r}: no processor is connected to it", store=store)
    if not own.repartition_topics:
        return [LinkedInputs((one,), own.partitions(one.partition)) for one in sorted(changelogs)]
    above = _above(own, plans)
    inputs = {place for plan in above for number in range(plan.tasks) for place in plan.partitions(number)}
    internal = frozenset(topic for plan in above for topic in plan.repartition_topics)
    return [LinkedInputs(tuple(sorted(changelogs)), tuple(sorted(inputs)), internal)]


def _above(own: TaskPlan, plans: Collection[TaskPlan]) -> list[TaskPlan]:
    """Returns a plan and those that write its repartition topics, and theirs."""
    found, new = [own], [own]
    while new:
        wanted = new.pop().repartition_topics
        more = [one for one in plans if one not in found and one.topics_written & wanted]
        found += more
        new += more
    return found


def _next_records(
    settings: Mapping[str, Any], ranges: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    if all(begin >= end for begin, end in ranges.values()):
        return {place: end for place, (_, end) in ranges.items()}
    with closing(ConfluentClients().consumer(settings)) as reader:
        return next_records(reader, ranges)


def _unprocessed(settings: Mapping[str, Any], committed: Committed, ends: Offsets) -> set[TopicPartition]:
    """Returns the partitions that have records between the offsets that were committed and some ends."""
    found = _next_records(settings, {place: (committed[place].offset, end) for place, end in ends.items()})
    return {place for place, offset in found.items() if offset < ends[place]}


class MomentSearch:
    """Looks at offsets and ends until they are of one moment.

    :param found: takes what is found.
    :param ends: of the changelogs, looked up before.
    """

    def __init__(
        self, queries: ClusterQueries, found: FoundPosition, ends: Offsets, clock: Clock | None = None
    ) -> None:
        self._queries = queries
        self._group = found.application_id
        self._form = writer_form(found.application_id)
        self._found = found
        self._first_ends = ends
        self._clock = clock or SystemClock()
        self._until = self._clock.monotonic() + DEADLINE_S

    def look(self, tasks: list[LinkedInputs]) -> None:
        """Notes the positions of all tasks, as far as they are found, and why not."""
        plain = [one for one in tasks if not self._is_transactional(one)]
        exact = [one for one in tasks if one not in plain]
        if exact and not self._own_ids(()):
            self._found.unknown = (
                "the application has written in transactions, and none of them may be seen: allow DESCRIBE on"
                f" transactional ids that start with {self._group!r}"
            )
            return
        limit_s = RESTING_S if any(one.internal for one in exact) else DEADLINE_S
        self._until = self._clock.monotonic() + limit_s
        while exact:
            exact, reason = self._try_exact(exact)
            if exact and reason.endswith(NEVER):
                self._found.unknown = reason.removeprefix("and ")
                break
            if exact and self._clock.monotonic() >= self._until:
                self._found.unknown = f"no moment between two commits was found within {limit_s:g} s, {reason}"
                break
            self._clock.wait(PAUSE_S)
        for one in plain:
            self._try_resting(one)

    def _is_transactional(self, task: LinkedInputs) -> bool:
        """Whether the last that was written to the changelogs is of a transaction, in each that has something."""
        found = []
        for place in task.changelogs:
            if (end := self._first_ends.get(place, 0)) > 0:
                headers = self._queries.batch_headers(place, end - 1, ANSWER_S, most_bytes=1)
                found.append(bool(headers) and headers[0].is_transactional)
        return all(found) if found else bool(self._own_ids(()))

    def _own_ids(self, states: tuple[str, ...]) -> set[str]:
        return {name for name in self._queries.transactions(states, ANSWER_S) if self._form.fullmatch(name)}

    def _ends(self, places: Collection[TopicPartition], isolation: int = READ_COMMITTED) -> dict[TopicPartition, int]:
        return self._queries.offsets_for_time(dict.fromkeys(places, LATEST), ANSWER_S, isolation)

    def _committed(self, tasks: Collection[LinkedInputs]) -> Committed:
        places = {place for task in tasks for place in task.inputs}
        return self._queries.stable_offsets(self._group, places, ANSWER_S)

    def _wait_for_markers(self) -> bool:
        """Waits until the markers of all transactions that were being committed are written."""
        left = self._own_ids((PREPARED,))
        while left and self._clock.monotonic() < self._until:
            self._clock.wait(PAUSE_S)
            left &= self._own_ids((PREPARED,))
        return not left

    def _try_exact(self, tasks: list[LinkedInputs]) -> tuple[list[LinkedInputs], str]:
        """Returns the tasks for which this was not a moment between two commits, and what was in the way."""
        before = self._committed(tasks)
        if not self._wait_for_markers():
            return tasks, "since a transaction is not completed"
        inputs = self._ends({place for task in tasks for place in task.inputs})
        ends = self._ends({place for task in tasks for place in task.changelogs})
        after = self._committed(tasks)
        left, reason = [], ""
        for task in tasks:
            if why := _obstacle(task, before, after, partial(self._waiting, inputs)):
                left.append(task)
                reason = why
            else:
                self._note(task, before, inputs, ends)
        return left, reason

    def _waiting(self, ends: Offsets, task: LinkedInputs, committed: Committed) -> set[TopicPartition]:
        """Returns the repartition topics' partitions with records that were not processed."""
        internal = {place: ends[place] for place in task.inputs if place.topic in task.internal}
        return _unprocessed(self._found.settings, committed, internal)

    def _try_resting(self, task: LinkedInputs) -> None:
        """Notes the position of a task without transactions, if all of its inputs are processed.

        Changelogs are written before offsets are committed, so what is committed is in them. They have nothing more if
        there was nothing more to process when their ends were read.
        """
        before = self._committed([task])
        ends = self._ends(task.changelogs)
        high = self._queries.log_ends(task.inputs, ANSWER_S)  # first: what is stable up to there was all there was
        inputs = self._ends(task.inputs)
        after = self._committed([task])
        why = _obstacle(task, before, after, lambda *_: set())
        if not why and any(inputs[place] < high[place] for place in task.inputs):
            why = "since a transaction is open in an input"
        if not why:
            left = _unprocessed(self._found.settings, before, inputs)
            why = f"and records of {min(left)} are not processed yet" if left else ""
        if why:
            self._found.unknown = (
                f"the application does not write in transactions (at least once), {why}: its changelog may be ahead of"
                " its offsets. Read the table when it has processed all, or run it with"
                " processing.guarantee=exactly_once_v2"
            )
        else:
            self._note(task, before, inputs, ends)

    def _note(self, task: LinkedInputs, committed: Committed, inputs: Offsets, ends: Offsets) -> None:
        own = [place for place in task.inputs if place.topic not in task.internal]
        self._found.committed |= {place: committed[place] for place in own}
        self._found.input_ends |= {place: inputs[place] for place in own}
        self._found.ends |= {place: ends[place] for place in task.changelogs}


def _obstacle(
    task: LinkedInputs,
    before: Committed,
    after: Committed,
    waiting: Callable[[LinkedInputs, Committed], set[TopicPartition]],
) -> str:
    """Returns why two looks at the offsets of a task do not show one moment, for the end of a sentence; empty if they
    do."""
    for place in task.inputs:
        if place not in before or place not in after:
            return f"since a transaction was about to change the offset of {place}"
        if before[place].offset < 0:
            return f"and the application has, of {place}, {NEVER}"
        if before[place].offset != after[place].offset:
            return f"and the application went on in {place}"
    left = waiting(task, before)
    return (
        f"and records of {min(left)}, which the application has written itself, are not processed yet" if left else ""
    )
