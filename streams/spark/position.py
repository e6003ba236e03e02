"""Positions of results in their inputs: which records of each topic are in one, and where the next ones begin.

A position is written into the run directory with the result of a backfill. Wherever two parts meet, the end of one is
compared with the begin of the other (docs/decisions/spark.md, "A backfill result includes its position"): a later
backfill that continues with the state, a cut, the topics of a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from processor_api.task_id import TopicPartition
from streams.spark.errors import PositionError
from streams.spark.notebook import html_table

VERSION = 1
NO_TIME = -1
Source = Mapping[str, Any]
Reports = Iterable[Mapping[str, Any]]
Verdict = Literal["next", "applied", "empty"]
"""Records of a topic as a state sees them: those that come next, those that are in it already, or none."""


class PartitionPosition(NamedTuple):
    """Holds the place of a result in one partition."""

    offset: int | None
    """The offset at which the next records begin; ``None`` where histories have no offsets."""
    read_to: int | None
    """The offset behind the last record that was read; before ``offset`` where a cut says that nothing is between."""
    time_ms: int = NO_TIME
    """The largest timestamp that was read, in ms; -1 if there was no record."""


@dataclass(frozen=True)
class HistoryBatch:
    """Describes the records that one run has read of a topic.

    :param source: what it was read from: ``kind`` (``"kafka"``, ``"files"``, ``"table"`` or ``"frame"``), ``name`` as
        its user has named it, ``files`` as hashes of name, size and time, ``content`` of an Arrow table as a hash,
        ``snapshot`` of a table in a lake, and ``plan``, a hash of the plan that Spark makes of the DataFrame.
    :param begins: the first offset of each partition that had records; empty where there are no offsets.
    :param ends: the offset behind the last one.
    """

    source: Source
    begins: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_certain(self) -> bool:
        """Whether another batch with the same source has the same records."""
        return self.is_fixed or bool(self.source.get("name"))

    @property
    def is_fixed(self) -> bool:
        """Whether the source has the same records each time that it is read."""
        return any(self.source.get(part) for part in ("files", "content", "snapshot"))

    def data(self) -> dict[str, Any]:
        """Returns what JSON keeps of it."""
        return {"source": dict(self.source), "begins": _by_text(self.begins), "ends": _by_text(self.ends)}

    @staticmethod
    def of(found: Mapping[str, Any]) -> HistoryBatch:
        """Reads what :meth:`data` returned."""
        return HistoryBatch(dict(found["source"]), _by_number(found["begins"]), _by_number(found["ends"]))


@dataclass(frozen=True)
class TopicPosition:
    """Holds the place of a result in one topic.

    :param topic_id: the id of the topic, where the cluster was asked: a topic that is made again has another.
    :param batches: what each run has read of it, the first one first.
    """

    partitions: Mapping[int, PartitionPosition]
    topic_id: str | None = None
    batches: tuple[HistoryBatch, ...] = ()


@dataclass(frozen=True)
class InputPosition:
    """Holds the place of a result in its inputs.

    :param application_id: the application whose state it is.
    :param topics: each topic that was read; topics of the application itself are left out.
    """

    application_id: str
    topics: Mapping[str, TopicPosition] = field(default_factory=lambda: MappingProxyType({}))

    def offsets(self) -> dict[TopicPartition, int]:
        """Returns the offset of each partition at which the next records begin, where it is known."""
        return {
            TopicPartition(topic, number): one.offset
            for topic, found in self.topics.items()
            for number, one in found.partitions.items()
            if one.offset is not None
        }

    def times(self) -> dict[TopicPartition, int]:
        """Returns the largest timestamp of each partition, in ms."""
        return {
            TopicPartition(topic, number): one.time_ms
            for topic, found in self.topics.items()
            for number, one in found.partitions.items()
            if one.time_ms != NO_TIME
        }

    def topic_ids(self) -> dict[str, str]:
        """Returns the ids of the topics, where they are known."""
        return {topic: one.topic_id for topic, one in self.topics.items() if one.topic_id is not None}

    def read_to(self, place: TopicPartition) -> int:
        """Returns the offset behind the last record that was read of a partition; 0 if there was none."""
        found = self.topics.get(place.topic)
        one = None if found is None else found.partitions.get(place.partition)
        return 0 if one is None or one.read_to is None else one.read_to

    def _repr_html_(self) -> str:
        rows = [
            (topic, number, "" if one.offset is None else one.offset, time_text(one.time_ms))
            for topic, found in sorted(self.topics.items())
            for number, one in sorted(found.partitions.items())
        ]
        columns = ("topic", "partition", "offset", "latest time")
        return html_table(f"position of {self.application_id}", columns, rows)

    # ------------------------------------------------------------------ text

    def to_json(self) -> str:
        """Returns the position as text, which :meth:`from_json` reads."""
        return json.dumps({"version": VERSION, **self.data()}, indent=1, sort_keys=True)

    def data(self) -> dict[str, Any]:
        """Returns what JSON keeps of it."""
        topics = {
            topic: {
                "id": one.topic_id,
                "partitions": {str(number): list(found) for number, found in sorted(one.partitions.items())},
                "batches": [batch.data() for batch in one.batches],
            }
            for topic, one in self.topics.items()
        }
        return {"application_id": self.application_id, "topics": topics}

    @staticmethod
    def from_json(text: str) -> InputPosition:
        """Returns the position that :meth:`to_json` wrote.

        :raises PositionError: if it is not such a text, or one of a newer release.
        """
        try:
            found = json.loads(text)
            if found["version"] != VERSION:
                raise PositionError(
                    f"the position is of version {found['version']}, and this release reads version {VERSION}: use the"
                    " release that wrote it, or a newer one"
                )
            return InputPosition.of(found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            shown = f"{type(error).__name__}: {error}"
            raise PositionError(f"this is not the text of a position ({shown}): {text[:80]!r}") from error

    @staticmethod
    def of(found: Mapping[str, Any]) -> InputPosition:
        """Reads what :meth:`data` returned."""
        topics = {
            str(topic): TopicPosition(
                {int(number): PartitionPosition(*one) for number, one in given["partitions"].items()},
                given["id"],
                tuple(map(HistoryBatch.of, given["batches"])),
            )
            for topic, given in found["topics"].items()
        }
        return InputPosition(str(found["application_id"]), topics)


Position = InputPosition


# ---------------------------------------------------------------------- the end of a run


def has_offsets(run: Mapping[str, Any], topic: str) -> bool:
    """Returns whether the places of records in a history are offsets of Kafka.

    In the order of time, a backfill numbers the records itself.

    :param run: what was run, as the run directory has it.
    """
    inputs, options = run.get("inputs"), run.get("options")
    if isinstance(options, Mapping) and options.get("order") == "time":
        return False
    history = inputs.get(topic) if isinstance(inputs, Mapping) else None
    return isinstance(history, Mapping) and history.get("offset") is not None


def begin_of_run(run: Mapping[str, Any]) -> InputPosition:
    """Returns where the state stands with which a run begins."""
    given = run.get("begin")
    return InputPosition.of(given) if given else InputPosition(str(run["application_id"]))


def end_of_run(run: Mapping[str, Any], reports: Reports) -> InputPosition:
    """Returns where a run stands in its inputs at its end.

    :param run: what was run, as the run directory has it.
    :param reports: those of all tasks, with ``partition``, ``partition_times``, ``positions`` and ``begins`` by topic.
    """
    begin = begin_of_run(run)
    cut = run.get("cut") or {}
    cut = json.loads(cut) if isinstance(cut, str) else cut
    tasks: dict[str, list[Mapping[str, Any]]] = {}
    for report in reports:
        for topic in report["partition_times"]:
            tasks.setdefault(topic, []).append(report)
    topics = dict(begin.topics)
    for topic, described in run.get("inputs", {}).items():
        was = begin.topics.get(topic, TopicPosition({}))
        if topic in run.get("whole", ()):
            was = TopicPosition({}, was.topic_id)
        source = described.get("source") or {}
        pinned = source.get("offsets")
        if pinned is not None:
            begins = {part: start for _, part, start, end in pinned["ranges"] if start < end}
            ends = {part: end for _, part, _, end in pinned["ranges"]}
        elif has_offsets(run, topic):
            begins, ends = _read(tasks.get(topic, ()), topic)
        else:
            begins, ends = {}, {}
        times = {one["partition"]: one["partition_times"][topic] for one in tasks.get(topic, ())}
        cuts = {} if cut.get("skip_before_ms") is not None else _by_number(cut.get("offsets", {}).get(topic, {}))
        partitions = {
            number: _ended(was.partitions.get(number), ends.get(number), cuts.get(number), times.get(number, NO_TIME))
            for number in sorted({*was.partitions, *ends, *cuts, *times})
        }
        batches = was.batches
        if topic not in run.get("applied", ()):
            kept = {number: end for number, end in ends.items() if number in begins}
            batches = (*batches, HistoryBatch(identity(source), begins, kept))
        id_ = ((pinned or {}).get("topic_ids") or cut.get("topic_ids") or {}).get(topic) or was.topic_id
        topics[topic] = TopicPosition(partitions, id_, batches)
    return InputPosition(str(run["application_id"]), topics)


def identity(source: Source) -> dict[str, Any]:
    """Returns what a batch keeps of the source of a history: files as hashes, without the offsets that were pinned."""
    found = {name: value for name, value in source.items() if name != "offsets" and value is not None}
    if "files" in found:
        found["files"] = sorted(file_hash(name, state) for name, state in found["files"].items())
    return found


def file_hash(name: str, state: Iterable[Any]) -> str:
    """Returns what tells a file of a history from all others.

    :param state: its size and its time.
    """
    return blake2b(json.dumps([name, *state]).encode(), digest_size=8).hexdigest()


def _read(tasks: Reports, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    begins, ends = {}, {}
    for one in tasks:
        if topic in one["positions"]:
            ends[one["partition"]] = one["positions"][topic]
            begins[one["partition"]] = one.get("begins", {}).get(topic, 0)
    return begins, ends


def _ended(was: PartitionPosition | None, end: int | None, cut: int | None, time_ms: int) -> PartitionPosition:
    before = was or PartitionPosition(None, None)
    read_to = max((one for one in (before.read_to, end) if one is not None), default=None)
    offset = max((one for one in (before.offset, end, cut) if one is not None), default=None)
    return PartitionPosition(offset, read_to, max(before.time_ms, time_ms))


# ---------------------------------------------------------------------- the begin of the next one


def verdict(
    topic: str,
    was: TopicPosition,
    batch: HistoryBatch,
    *,
    is_placed: bool,
    count: int,
    topic_id: str | None,
    allow_gaps: bool = False,
) -> Verdict:
    """Returns what the records of a topic are to a state that stands at a position.

    :param batch: what is to be read.
    :param is_placed: whether records have offsets; then a batch without a begin has no records.
    :param count: the number of partitions of the topic.
    :param topic_id: the id of the topic of which the records are, if it is known.
    :param allow_gaps: whether offsets between the two may be missing.
    :raises PositionError: if records would be processed twice or left out, or are of another topic.
    """
    most = max(was.partitions, default=-1)
    if most >= count:
        raise PositionError(
            f"initial_state stands in {most + 1} partitions of topic {topic!r}, and the history has {count}: give the"
            " number that the topic has in Kafka; of a topic that was made again, run the backfill from its beginning",
            topic=topic,
        )
    if topic_id is not None and was.topic_id is not None and topic_id != was.topic_id:
        raise PositionError(
            f"topic {topic!r} was deleted and made again since initial_state was made (its id was {was.topic_id}, it is"
            f" {topic_id}): offsets of the two mean other records. Run the backfill from the beginning of the topic",
            topic=topic,
        )
    same = [one for one in was.batches if one.source == batch.source]
    if not is_placed:
        if batch.source.get("files") == []:
            return "empty"
        if batch.is_certain and same:
            return "applied"
        _check_table(topic, was, batch)
        _check_files(topic, was, batch)
        return "next"
    if batch.begins and any(batch.is_fixed or (one.begins, one.ends) == (batch.begins, batch.ends) for one in same):
        return "applied"
    for number in sorted(batch.begins):
        _check_meeting(topic, number, was, batch, allow_gaps=allow_gaps)
    return "next" if batch.begins else "empty"


def _check_meeting(topic: str, number: int, was: TopicPosition, batch: HistoryBatch, *, allow_gaps: bool) -> None:
    found, begin, end = was.partitions.get(number), batch.begins[number], batch.ends[number]
    place = {"topic": topic, "partition": number, "offset": begin}
    if found is None or found.offset is None:
        return
    where = f"the history of {topic}-{number} begins at offset {begin}, and initial_state stands at {found.offset}"
    read_to = found.read_to or 0
    if begin < read_to:
        twice = min(end, read_to) - begin
        other = _difference(was, batch, number)
        raise PositionError(
            f"{where}: {twice} offset{'s' * (twice != 1)} ({begin} to {begin + twice - 1}) would be processed twice"
            f"{other}. Give the history from offset {found.offset} on, or the state that ends at {begin} as"
            " initial_state",
            **place,
        )
    if begin > found.offset and not allow_gaps:
        gap = begin - found.offset
        raise PositionError(
            f"{where}: {gap} offset{'s' * (gap != 1)} ({found.offset} to {begin - 1}) would be left out. Give the"
            " history from there on; if no record is missing, since the topic is compacted or has transactions, whose"
            " ends have offsets too, say gaps='allow'",
            **place,
        )


def _difference(was: TopicPosition, batch: HistoryBatch, number: int) -> str:
    """Returns why records of the same offsets are not those that were applied, for the middle of a sentence."""
    for one in was.batches:
        if one.begins.get(number) == batch.begins[number] and one.ends.get(number) == batch.ends[number]:
            parts = ("name", "kind", "files", "content", "snapshot", "plan")
            other = [part for part in parts if one.source.get(part) != batch.source.get(part)]
            words = {"plan": "filter or columns", "files": "files", "kind": "kind of source"}
            if other:
                return f" (they were applied before, from other {' and '.join(words.get(p, p) for p in other)})"
    return ""


def _check_table(topic: str, was: TopicPosition, batch: HistoryBatch) -> None:
    """Refuses another version of a table whose records have no offsets: how many of them came since is not known."""
    name, version = batch.source.get("table"), batch.source.get("snapshot")
    for one in was.batches:
        if name is not None and one.source.get("table") == name and one.source.get("snapshot") != version:
            raise PositionError(
                f"initial_state has {name} at version {one.source.get('snapshot')}, and the history of topic {topic!r}"
                f" is version {version} of it: its records have no offsets, so those that came since cannot be told"
                " from the others. Give a history of the new rows alone, or with a column of offsets",
                topic=topic,
            )


def _check_files(topic: str, was: TopicPosition, batch: HistoryBatch) -> None:
    """Refuses a batch without offsets that has the name of another one, or some of its files."""
    files = set(batch.source.get("files", ()))
    for one in was.batches:
        name = one.source.get("name")
        if name is not None and name == batch.source.get("name"):
            raise PositionError(
                f"the batch {name!r} of topic {topic!r} is in initial_state, with other files or another plan: give"
                " the state before it as initial_state to apply it again, or give this batch another name",
                topic=topic,
            )
        twice = files.intersection(one.source.get("files", ()))
        if twice:
            raise PositionError(
                f"{len(twice)} of the {len(files)} files of the history of topic {topic!r} are in initial_state: their"
                " records would be processed twice. Give only the files that came since",
                topic=topic,
            )


def time_text(time_ms: int) -> str:
    """Returns a time in words for people; that there was no record where it is -1."""
    if time_ms == NO_TIME:
        return "no record yet"
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _by_text(numbers: Mapping[int, int]) -> dict[str, int]:
    return {str(number): value for number, value in sorted(numbers.items())}


def _by_number(numbers: Mapping[str, Any]) -> dict[int, int]:
    return {int(number): int(value) for number, value in numbers.items()}
