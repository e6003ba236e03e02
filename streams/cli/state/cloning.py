"""The steps by which another application gets the state of one that is stopped.

Each step may be killed, and is done or gone on with by the next call
(docs/decisions/changelogs-and-restore.md, "A clone copies topics"):

1. Everything is checked: what the former application is, and that the new one has no state of its own.
2. The internal topics of the new application are made.
3. An offset with a note is committed for every input partition. From now on no worker of the new application starts.
4. Changelogs are copied, in transactions that also commit how far. The former application may run meanwhile.
5. When it is stopped, the rest of the changelogs is copied, and the repartition records that it has not read.
6. Its offsets are committed for the new application in one request, which replaces all notes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import AuthorizationError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from streams.app.topics import TopicFitter
from streams.cli.output.causes import CannotRun
from streams.cli.output.terminal import say_error
from streams.config import StreamsConfig
from streams.kafka.cluster_clients import partitions_of
from streams.kafka.offset_metadata import CLONE, TopicPartitionMetadata, changelog_mark
from streams.kafka.own_names import copy_group, former_copy_group
from streams.kafka.ports import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer
from streams.kafka.producing.deliveries import not_delivered
from streams.kafka.producing.transactions import transaction
from streams.kafka.producing.zero_timestamps import with_time
from streams.kafka.record_ranges import read_ranges
from streams.kafka.topics.internal import check_existing_topics, internal_topics
from streams.runtime.plan.task_plan import TaskPlan, plan_tasks

BATCH_RECORDS, BATCH_BYTES = 10_000, 8 * 1024 * 1024
"""The most that one transaction copies."""
OPEN_S = 90.0
"""The time for which an open transaction of a killed worker is waited for: above ``transaction.timeout.ms``."""
LEFT_S = 10.0
"""The time that workers of the new application that are refused have to leave its group."""
PAUSE_S = 0.2
Offsets = Mapping[TopicPartition, OffsetAndMetadata]
_KEPT = ("max.message.bytes",)
"""Settings of the former topics that the new ones get, besides those with which they are made."""


class Handover(NamedTuple):
    """Holds the words of one kind of copy: those of its notes and errors."""

    note: str
    """The beginning of the note of a committed offset; the id of the former application follows."""
    done: str
    again: str
    other: str
    """The words for what to do about a new application that has workers."""


CLONING = Handover(CLONE, "cloned", "clone again", "give another id by --as")


class CopiedPartition(NamedTuple):
    """A partition that is copied, and the one that it is copied to."""

    source: TopicPartition
    target: TopicPartition


@dataclass(frozen=True, kw_only=True)
class ClonePlan:
    """The topics of a clone."""

    source: str
    """The application id of the former application."""
    clone: str
    tasks: tuple[TaskPlan, ...]
    """The tasks of the former application."""
    changelogs: tuple[CopiedPartition, ...]
    repartitions: tuple[CopiedPartition, ...]
    new_topics: tuple[NewTopic, ...]
    """The internal topics of the new application that do not exist yet."""
    unlogged: tuple[str, ...]
    """Stores without a changelog, which begin empty."""
    handover: Handover = CLONING

    @property
    def group(self) -> str:
        """The group that keeps how far the copy is."""
        return copy_group(self.clone)

    @property
    def note(self) -> str:
        return f"{self.handover.note}{self.source}"

    def renamed(self, topic: str) -> str:
        """Returns the name that an internal topic has in the new application."""
        return self.clone + topic.removeprefix(self.source)

    def inputs(self) -> Iterator[tuple[TaskPlan, CopiedPartition]]:
        """Yields the input partitions with the plan of their task, each with that of the new application."""
        for plan in self.tasks:
            for number in range(plan.tasks):
                for place in plan.partitions(number):
                    own = place.topic in plan.repartition_topics
                    yield (
                        plan,
                        CopiedPartition(place, place._replace(topic=self.renamed(place.topic)) if own else place),
                    )


def plan_clone(
    topology: Topology,
    config: StreamsConfig,
    clone: StreamsConfig,
    admin: Admin,
    handover: Handover = CLONING,
    *,
    replaces: bool = False,
) -> ClonePlan:
    """Returns the plan for the topics that exist. Changes nothing.

    :param replaces: the internal topics of the new application are made again, those that exist too.
    :raises MissingTopicError: if an input does not exist.
    :raises TopologyError: if an internal topic of either application has another number of partitions than is needed.
    """
    settings, source = config.dotted(), config.application_id
    fitter = TopicFitter(topology, config, settings, admin)
    existing = fitter.existing()
    readable = fitter.readable(existing)
    counts = fitter.internal_counts(readable)
    absent = set(check_existing_topics(counts, existing))
    tasks = plan_tasks(topology, settings, readable)
    plan = ClonePlan(
        source=source,
        clone=clone.application_id,
        tasks=tasks,
        changelogs=(),
        repartitions=(),
        new_topics=(),
        unlogged=tuple(sorted(name for one in tasks for name in one.stores if name not in one.changelogs)),
        handover=handover,
    )
    _refuse_uncopied(tasks)
    left = {} if replaces else existing
    missing = check_existing_topics({plan.renamed(name): count for name, count in counts.items()}, left)
    former = admin.topic_settings([name for name in counts if name not in absent])
    new_topics = [
        _new_topic(plan.renamed(name), count, former.get(name, {}), clone, topology)
        for name, count in counts.items()
        if plan.renamed(name) in missing
    ]
    read = {topic for one in tasks for topic in one.repartition_topics}
    copied = [
        CopiedPartition(TopicPartition(name, number), TopicPartition(plan.renamed(name), number))
        for name in sorted(counts.keys() - absent)
        for number in range(counts[name])
    ]
    return replace(
        plan,
        changelogs=tuple(one for one in copied if one.source.topic not in read),
        repartitions=tuple(one for one in copied if one.source.topic in read),
        new_topics=tuple(new_topics),
    )


def _refuse_uncopied(tasks: Iterable[TaskPlan]) -> None:
    """Refuses stores whose rows are in topics that are not copied whole."""
    for one in tasks:
        for store in one.source_changelogs:
            if one.changelogs[store] in one.repartition_topics:
                raise CannotRun(
                    f"store {store!r} is restored from repartition topic {one.changelogs[store]!r}, but a clone copies"
                    " only its unread records: give the store its own changelog"
                )


def _new_topic(
    name: str, partitions: int, former: Mapping[str, str], clone: StreamsConfig, topology: Topology
) -> NewTopic:
    made_with = internal_topics(topology, clone.dotted())[name].created_with
    return NewTopic(
        name=name,
        partitions=partitions,
        replication_factor=clone.replication_factor,
        configs=_settings(made_with, former),
    )


def _settings(made_with: Mapping[str, str], former: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a new topic: as workers make it, with the values that the former topic has."""
    return {**made_with, **{name: former[name] for name in (*made_with, *_KEPT) if name in former}}


class _Noted(NamedTuple):
    """The metadata of an offset in the group that keeps how far a copy is."""

    ids: list[str | None]
    """The ids of both topics."""
    start: int
    base: int


def _noted_in(committed: OffsetAndMetadata) -> _Noted | None:
    """Returns what a copy has noted with an offset; ``None`` if it is not the offset of a copy."""
    try:
        noted = json.loads(committed.metadata)
        return _Noted(list(noted["ids"]), int(noted["start"]), int(noted["base"]))
    except (ValueError, KeyError, TypeError):
        return None


class Progress(NamedTuple):
    """Holds how far a partition is copied, as the group of the copy keeps it."""

    offset: int
    """The offset of the next record to copy."""
    start: int
    """The offset of the first record that was to be copied."""
    base: int
    """The offset of the new partition at which the copy of that one stands, or what comes behind it."""


@dataclass
class ClonedState:
    """Counts the records that were copied."""

    changelog_records: int = 0
    repartition_records: int = 0
    offsets: Offsets = field(default_factory=dict)
    """The committed offsets of the new application."""


@dataclass(frozen=True, kw_only=True)
class CloneClients:
    """The clients of a clone."""

    admin: Admin
    source: Consumer
    """Reads committed records, and the offsets of the former application's group; a member of none, as all of them."""
    target: Consumer
    """Has the offsets of the new application's group."""
    progress: Consumer
    """Has those of the group that keeps how far the copy is."""
    former: Consumer
    """Has those of the group that kept it in a former version; they may be those of an application."""


def settled_offsets(consumer: Consumer, places: Collection[TopicPartition], clock: Clock) -> Offsets:
    """Returns the committed offsets of a group once no transaction is open that commits offsets of it.

    :raises RetryableError: if one of a killed worker does not end, or the cluster does not answer.
    """
    until = clock.monotonic() + OPEN_S
    while True:
        try:
            return consumer.committed(places)
        except RetryableError:
            if clock.monotonic() > until:
                raise
            clock.wait(PAUSE_S)


class Clone:
    """Makes one clone."""

    def __init__(self, plan: ClonePlan, clients: CloneClients, clock: Clock) -> None:
        self._plan = plan
        self._admin = clients.admin
        self._source, self._target, self._progress = clients.source, clients.target, clients.progress
        self._older = clients.former
        self._clock = clock
        self._known: dict[CopiedPartition, Progress] = {}
        self._ids: dict[str, str] = {}
        self.done = ClonedState()

    @property
    def plan(self) -> ClonePlan:
        """The topics that it copies."""
        return self._plan

    # ------------------------------------------------------------------ checks

    def members(self) -> list[str]:
        """Returns the client ids of the former application's workers."""
        return sorted(one.client_id for one in self._admin.group_members(self._plan.source))

    def committed(self) -> Offsets:
        """Returns the committed offsets of the former application.

        :raises StreamsError: if it has none, or a handover to it is not complete.
        """
        source = self._plan.source
        found = settled_offsets(self._source, [one.source for _, one in self._existing_inputs()], self._clock)
        if not found:
            raise StreamsError(
                f"application {source!r} cannot be {self._plan.handover.done}: its group has no committed offset of the"
                " topics that this topology reads. Give the topology that it runs, and its id by --application-id"
            )
        for place, one in found.items():
            if (handover := TopicPartitionMetadata.decode(one.metadata).handover) is not None:
                raise StreamsError(
                    f"application {source!r} cannot be {self._plan.handover.done}: by the committed offset of {place},"
                    f" the handover {handover!r} to it was started but is not complete. Complete the handover first"
                )
        return found

    def is_complete(self) -> bool:
        """Whether an earlier call has completed this clone, and no worker has run since.

        :raises StreamsError: if the new application runs, or has state that is not of this clone.
        """
        clone = self._plan.clone
        self._refuse_members()
        made = {one.name for one in self._plan.new_topics}
        places = [one.target for _, one in self._existing_inputs() if one.target.topic not in made]
        committed = settled_offsets(self._target, places, self._clock)
        notes = {place: TopicPartitionMetadata.decode(one.metadata) for place, one in committed.items()}
        if notes and all(self._plan.note == note.handed_over for note in notes.values()):
            return True
        others = [place for place, note in notes.items() if note.handover != self._plan.note]
        if others:
            place = min(others)
            raise StreamsError(
                f"nothing was changed: application {clone!r} already has state: its group has committed offset"
                f" {committed[place].offset} of {place}. Give another id by --as"
            )
        return False

    def _existing_inputs(self) -> list[tuple[TaskPlan, CopiedPartition]]:
        there = {one.source.topic for one in self._plan.repartitions}
        return [
            (plan, one)
            for plan, one in self._plan.inputs()
            if one.source.topic in there or one.source.topic not in plan.repartition_topics
        ]

    def _refuse_members(self) -> None:
        members = sorted(one.client_id for one in self._admin.group_members(self._plan.clone))
        if members:
            raise StreamsError(
                f"application {self._plan.clone!r} runs: its group has members ({', '.join(members[:3])}). Stop its"
                f" workers first, or {self._plan.handover.other}"
            )

    # ------------------------------------------------------------------ steps

    def begin(self) -> None:
        """Makes the topics, and commits the note without which a worker could start before the clone is complete.

        :raises StreamsError: if the new topics have records that are not of this clone.
        """
        if self._plan.new_topics:
            self._admin.create_topics(self._plan.new_topics)
        pairs = [*self._plan.changelogs, *self._plan.repartitions]
        self._ids = self._admin.topic_ids({place.topic for one in pairs for place in one} | self._input_topics())
        self._read_progress(pairs)
        self._refuse_filled(pairs)
        self.mark_incomplete()
        self._begin_progress(dict.fromkeys(self._plan.changelogs, 0))

    def mark_incomplete(self) -> None:
        """Commits the note of a handover that is not complete for each input."""
        note = TopicPartitionMetadata(handover=self._plan.note).encode()
        self._commit({self._to(place): OffsetAndMetadata(0, note) for place in self.committed()})

    def copy_changelogs(self, producer: Producer) -> int:
        """Copies what the changelogs have and the new ones lack; returns how many records that were."""
        pairs = self._plan.changelogs
        ends = self._source.end_offsets([one.source for one in pairs]) if pairs else {}
        copied = self._copy(producer, {one: ends[one.source] for one in pairs}, changelogs=True)
        self.done.changelog_records += copied
        return copied

    def finish(self, producer: Producer) -> bool:
        """Does the last steps; the former application must be stopped.

        :returns: whether it has stayed as it was meanwhile; else call it again when it is stopped.
        :raises RetryableError: if a transaction of the former application does not end.
        """
        committed = self.committed()
        ends = self._settled_ends()
        self._copy_rest(producer, committed, ends)
        if self.members() or self.committed() != committed or self._settled_ends() != ends:
            return False
        offsets = self._offsets(committed)
        self._commit(offsets)
        self.done.offsets = offsets
        return True

    def forget_progress(self) -> None:
        """Deletes the group that kept how far the copy was, and what a former version has noted in another one."""
        self._admin.delete_group(self._plan.group)
        copied = [one.source for one in (*self._plan.changelogs, *self._plan.repartitions)]
        if not any(map(_noted_in, self._of_former_version(copied).values())):
            return
        existing = self._admin.topics()
        found = settled_offsets(self._older, partitions_of(existing, existing), self._clock)
        noted = {place: one for place, one in found.items() if _noted_in(one)}
        if len(noted) == len(found):
            self._admin.delete_group(former_copy_group(self._plan.clone))
        else:  # An application has this name: its offsets stay, without what would be taken for a copy's progress.
            self._older.commit({place: one._replace(metadata="") for place, one in noted.items()})

    # ------------------------------------------------------------------ the end of the former application

    def _settled_ends(self) -> dict[TopicPartition, int]:
        """Returns the ends of all partitions that are copied, once no transaction is open in them."""
        places = [one.source for one in (*self._plan.changelogs, *self._plan.repartitions)]
        if not places:
            return {}
        until = self._clock.monotonic() + OPEN_S
        while True:
            ends, logs = self._source.end_offsets(places), self._admin.log_ends(places)
            still_open = [place for place in places if ends[place] < logs[place]]
            if not still_open:
                return ends
            if self._clock.monotonic() > until:
                raise RetryableError(
                    f"a transaction of application {self._plan.source!r} is open in {min(still_open)} and does not end:"
                    f" a worker may run that is not in the group. Stop it, and {self._plan.handover.again}"
                )
            self._clock.wait(PAUSE_S)

    def _copy_rest(
        self,
        producer: Producer,
        committed: Offsets,
        ends: Mapping[TopicPartition, int],
    ) -> None:
        plan = self._plan
        self.done.changelog_records += self._copy(
            producer, {one: ends[one.source] for one in plan.changelogs}, changelogs=True
        )
        if not plan.repartitions:
            return
        begins = self._source.beginning_offsets([one.source for one in plan.repartitions])
        starts: dict[CopiedPartition, int] = {}
        for one in plan.repartitions:
            begin = begins[one.source]
            start = committed[one.source].offset if one.source in committed else begin
            if start < begin and begin < ends[one.source]:
                raise StreamsError(
                    f"application {plan.source!r} cannot be {plan.handover.done}: records of {one.source} from offset"
                    f" {start} to {begin} were deleted before it read them, so its workers would not start either"
                )
            starts[one] = max(start, begin)
        self._begin_progress(starts)
        self.done.repartition_records += self._copy(
            producer, {one: ends[one.source] for one in plan.repartitions}, changelogs=False
        )

    def _offsets(self, committed: Offsets) -> Offsets:
        """Returns the offsets of the new application, with what workers note with them (formats 8)."""
        plan = self._plan
        targets = [one.target for one in plan.changelogs]
        ends = self._progress.end_offsets(targets) if targets else {}
        bases = {one.target: self._known[one].base for one in plan.repartitions}
        found = {}
        for task, one in self._existing_inputs():
            if one.source not in committed and one.target not in bases:
                continue
            own = {
                plan.renamed(topic) for store, topic in task.changelogs.items() if store not in task.source_changelogs
            }
            filled = {topic for topic in own if ends.get(TopicPartition(topic, one.target.partition))}
            former = committed.get(one.source, OffsetAndMetadata(0))
            metadata = replace(
                TopicPartitionMetadata.decode(former.metadata),
                topic_id=self._ids.get(one.target.topic),
                changelogs=frozenset(map(changelog_mark, filled)),
                changelog_ids=frozenset(),
                handed_over=plan.note,
                point=None,
            )
            found[one.target] = OffsetAndMetadata(bases.get(one.target, former.offset), metadata.encode())
        return found

    # ------------------------------------------------------------------ offsets

    def _to(self, place: TopicPartition) -> TopicPartition:
        own = {one.source: one.target for one in self._plan.repartitions}
        return own.get(place, place)

    def _input_topics(self) -> set[str]:
        return {one.target.topic for _, one in self._plan.inputs()}

    def _commit(self, offsets: Offsets) -> None:
        """Commits offsets of the new application in one request, and reads them back.

        :raises StreamsError: if a worker of it has joined the group, or another process has changed them.
        """
        until = self._clock.monotonic() + LEFT_S
        while True:
            try:
                self._target.commit(offsets)
                break
            except (TaskMigratedError, RetryableError):  # a worker that is refused is in the group for a moment
                if self._clock.monotonic() > until:
                    self._refuse_members()
                    raise
                self._clock.wait(PAUSE_S)
        found = self._target.committed(list(offsets))
        for place, one in offsets.items():
            if found.get(place) != one:
                raise StreamsError(
                    f"the committed offset of {place} of application {self._plan.clone!r} is not the one that this"
                    f" command committed: another process has changed it. Stop it, and {self._plan.handover.again}"
                )

    # ------------------------------------------------------------------ progress

    def _read_progress(self, pairs: Collection[CopiedPartition]) -> None:
        """Reads how far an earlier call has copied, of topics that are still the same ones."""
        found = settled_offsets(self._progress, [one.source for one in pairs], self._clock)
        self._known.update(self._progress_in(found, pairs))
        self._adopt([one for one in pairs if one not in self._known])

    def _adopt(self, pairs: Collection[CopiedPartition]) -> None:
        """Takes over how far a former version has copied, which kept that in a group of another name."""
        places = [one.source for one in pairs]
        if not pairs or not self._progress_in(self._of_former_version(places), pairs):
            return
        group = former_copy_group(self._plan.clone)
        self._admin.fence_producer(group)  # that version may still be copying
        found = self._progress_in(self._of_former_version(places), pairs)
        self._known.update(found)
        self._progress.commit({one.source: self._noted(one, known.offset) for one, known in found.items()})
        say_error(f"the copy continues from what a former version has noted in group {group!r}")

    def _of_former_version(self, places: Collection[TopicPartition]) -> Offsets:
        """Returns the offsets of the group in which a former version kept its progress; none if it may not be read,
        because this user has not made a copy by that version then."""
        try:
            return settled_offsets(self._older, places, self._clock)
        except AuthorizationError:
            say_error(
                f"group {former_copy_group(self._plan.clone)!r} may not be read, so a copy that a former version has"
                " started would not be continued"
            )
            return {}

    def _progress_in(self, found: Offsets, pairs: Collection[CopiedPartition]) -> dict[CopiedPartition, Progress]:
        """Returns what the offsets of a group say of topics that are still the same ones. Offsets that another tool has
        committed are left out: the copy would not know what the new topic holds."""
        result = {}
        for one in pairs:
            committed = found.get(one.source)
            noted = None if committed is None else _noted_in(committed)
            if committed is not None and noted is not None and noted.ids == self._ids_of(one):
                result[one] = Progress(committed.offset, noted.start, noted.base)
        return result

    def _refuse_filled(self, pairs: Collection[CopiedPartition]) -> None:
        """Refuses new topics with records that no earlier call has copied.

        :raises StreamsError: if there is one.
        """
        unknown = [one.target for one in pairs if one not in self._known]
        ends = self._admin.log_ends(unknown) if unknown else {}
        filled = sorted(place for place in unknown if ends[place])
        if filled:
            raise StreamsError(
                f"nothing was copied: application {self._plan.clone!r} already has state: {filled[0]} has had records."
                f" Give another id by --as, or reset it (`streams reset APP --application-id {self._plan.clone}`)"
            )

    def _begin_progress(self, starts: Mapping[CopiedPartition, int]) -> None:
        """Notes where the copies of partitions begin, of those that are not known, or began elsewhere.

        A repartition topic is copied from the committed offset on. If the former application has gone on since an
        earlier call, what that copied is passed over: the new copy begins behind it.
        """
        fresh = {
            one: start for one, start in starts.items() if one not in self._known or self._known[one].start != start
        }
        if not fresh:
            return
        ends = self._progress.end_offsets([one.target for one in fresh])
        self._known.update({one: Progress(start, start, ends[one.target]) for one, start in fresh.items()})
        self._progress.commit({one.source: self._noted(one, start) for one, start in fresh.items()})

    def _noted(self, one: CopiedPartition, offset: int) -> OffsetAndMetadata:
        known = self._known[one]
        noted = {"ids": self._ids_of(one), "start": known.start, "base": known.base}
        return OffsetAndMetadata(offset, json.dumps(noted, separators=(",", ":")))

    def _ids_of(self, one: CopiedPartition) -> list[str | None]:
        return [self._ids.get(place.topic) for place in one]

    # ------------------------------------------------------------------ records

    def _copy(self, producer: Producer, ends: Mapping[CopiedPartition, int], *, changelogs: bool) -> int:
        """Copies records up to offsets, in transactions that commit with them how far; returns how many."""
        if not ends:
            return 0
        begins = self._source.beginning_offsets([one.source for one in ends])
        ranges = {
            one: (max(self._known[one].offset, begins[one.source]), end)
            for one, end in ends.items()
            if self._known[one].offset < end
        }
        pairs = {one.source: one for one in ranges}
        batch, size, copied, reached = list[Any](), 0, 0, dict[CopiedPartition, int]()
        for message in read_ranges(self._source, {one.source: found for one, found in ranges.items()}, self._clock):
            batch.append(message)
            size += len(message.key() or b"") + len(message.value() or b"")
            reached[pairs[TopicPartition(message.topic(), message.partition())]] = message.offset() + 1
            if len(batch) >= BATCH_RECORDS or size >= BATCH_BYTES:
                self._transaction(producer, batch, reached, changelogs=changelogs)
                copied += len(batch)
                batch, size, reached = [], 0, {}
        if ranges:
            self._transaction(producer, batch, {one: end for one, (_, end) in ranges.items()}, changelogs=changelogs)
        return copied + len(batch)

    def _transaction(
        self, producer: Producer, batch: Collection[Any], reached: Mapping[CopiedPartition, int], *, changelogs: bool
    ) -> None:
        refused: list[StreamsError] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                place = (None, None) if message is None else (message.topic(), message.partition())
                refused.append(not_delivered(error, *place))

        with transaction(producer):
            for message in batch:
                self._send(producer, message, delivered, changelogs=changelogs)
            producer.flush()
            if refused:
                raise refused[0]
            offsets = {one.source: self._noted(one, offset) for one, offset in reached.items()}
            producer.send_offsets(offsets, self._progress.group_metadata())
        self._known.update({one: self._known[one]._replace(offset=offset) for one, offset in reached.items()})

    def _send(self, producer: Producer, message: Any, delivered: Any, *, changelogs: bool) -> None:
        topic, time, headers = self._plan.renamed(message.topic()), message.timestamp()[1], message.headers()
        if time == 0 and producer.zero_timestamp_ms:
            headers = with_time(headers, 0) if changelogs else headers
            time = producer.zero_timestamp_ms
        while True:
            try:
                producer.produce(
                    topic, message.value(), message.key(), message.partition(), delivered, None, time, headers
                )
                return
            except BufferError:
                producer.poll(PAUSE_S)
            except (StreamsError, TypeError):
                raise
            except Exception as error:
                producer.refused(error, topic)


def check_ids(source: str, clone: str) -> None:
    """Refuses a clone under the id of the application itself.

    :raises CannotRun: if both are the same.
    """
    if source == clone:
        raise CannotRun(f"--as must not be the id of the application, got {source!r}")
