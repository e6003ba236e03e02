"""The plan of a reset: which offsets change, which topics and which local state are deleted."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from processor_api.task_id import TopicPartition
from streams.cli.cluster.connection import Target
from streams.cli.cluster.positions import Start, start_offsets
from streams.cli.output.causes import CannotRun
from streams.kafka.cluster_clients import partitions_of
from streams.kafka.topics.application import Use, application_topics
from streams.kafka.topics.left_behind import looking_own

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer, TopicInfo


@dataclass(frozen=True)
class OffsetChange:
    """The committed offset of a partition before and after the reset."""

    place: TopicPartition
    now: int | None
    new: int
    metadata: str = ""
    """The metadata that a file has for exactly this offset."""


@dataclass(frozen=True, kw_only=True)
class ResetTopics:
    """The topics that a reset is about."""

    inputs: tuple[str, ...]
    intermediate: tuple[str, ...]
    """Topics that the application writes and reads: their records come again, so they are read from the end."""
    deleted: tuple[str, ...]
    left: tuple[str, ...] = ()
    """Topics that look like internal ones of the application, and are not of its topology."""
    missing: tuple[str, ...] = ()
    """Inputs that do not exist."""
    between: tuple[str, ...] = ()
    """Repartition topics whose offsets a file may set."""


@dataclass(frozen=True, kw_only=True)
class ResetPlan:
    """Everything that a reset changes."""

    topics: ResetTopics
    offsets: tuple[OffsetChange, ...]
    state: Path | None
    """The directory of the application's local state; ``None`` if it is kept, or there is none."""
    tasks: tuple[str, ...] = ()
    """The tasks with local state."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not (self.offsets or self.topics.deleted or self.tasks)


def reset_topics(
    target: Target,
    existing: Mapping[str, TopicInfo],
    groups: Collection[str],
    *,
    inputs: Sequence[str] | None,
    intermediate: Sequence[str] | None,
    internal: Sequence[str] | None,
    offsets_only: bool = False,
) -> ResetTopics:
    """Returns the topics of a reset.

    :param groups: all groups of the cluster: topics of an application whose id begins with this one's are left alone.
    :param inputs: those that were named; all that the topology reads if ``None``. So ``intermediate``, which are those
        that it writes as well.
    :param internal: internal topics that were named, to be deleted; if ``None``, those of the topology, and without a
        topology all that have the names of internal ones.
    :param offsets_only: deletes no topics, takes repartition topics as inputs too where they are named, and treats
        topics that the application writes and reads as any input.
    :raises CannotRun: if one that was named cannot be one.
    """
    counts = {name: info.partitions for name, info in existing.items()}
    looking = looking_own(target.config.application_id, existing, groups)
    topology = [] if target.topology is None else application_topics(target.topology, target.settings, counts)
    read = {one.name: one for one in topology if Use.INPUT in one.uses}
    between = {name for name, one in read.items() if one.is_written and not offsets_only}
    own_inputs = [one.name for one in topology if Use.REPARTITION in one.uses and offsets_only]
    for name in [*(inputs or ()), *(intermediate or ())]:
        if target.topology is not None and name not in read and name not in own_inputs:
            raise CannotRun(f"the topology does not read topic {name!r}; it reads: {', '.join(read) or 'none'}")
    if target.topology is None and inputs is None:
        raise CannotRun("specify the application, such as app.py, or its input topics by --input-topics")
    middle = set(between if intermediate is None else intermediate)
    first = list(read.keys() - middle if inputs is None else inputs)
    own = {one.name for one in topology if not one.is_external}
    for name in internal or ():
        if name not in looking:
            raise CannotRun(
                f"--internal-topics {name!r} is not an internal topic of {target.config.application_id!r}; its internal"
                f" topics: {', '.join(sorted(looking)) or 'none'}"
            )
    if offsets_only and internal:
        raise CannotRun("--internal-topics deletes topics, so it does not work with --offsets-only")
    if offsets_only:
        deleted = looking = set()
    elif internal is not None:
        deleted = set(internal)
    else:
        deleted = looking if target.topology is None else own
    wanted = [*first, *middle]
    return ResetTopics(
        inputs=tuple(sorted(name for name in first if name in existing)),
        intermediate=tuple(sorted(name for name in middle if name in existing)),
        deleted=tuple(sorted(name for name in deleted if name in existing)),
        left=tuple(sorted(looking - deleted)),
        missing=tuple(sorted(name for name in wanted if name not in existing)),
        between=tuple(name for name in own_inputs if name in existing),
    )


def new_offsets(
    topics: ResetTopics,
    to: Start | None,
    shift: int | None,
    consumer: Consumer,
    existing: Mapping[str, TopicInfo],
    committed: Mapping[TopicPartition, int],
) -> tuple[OffsetChange, ...]:
    """Returns the offsets to commit: for inputs at the point given, for intermediate topics at the end.

    :param shift: moves the committed offsets by so much, instead of ``to``; a partition that has none starts at its
        beginning.
    """
    inputs, middle = partitions_of(topics.inputs, existing), partitions_of(topics.intermediate, existing)
    ends = consumer.end_offsets([*inputs, *middle]) if inputs or middle else {}
    if shift is None:
        found = start_offsets(to or Start("beginning"), consumer, inputs, ends)
    else:
        beginnings = consumer.beginning_offsets(inputs) if inputs else {}
        wanted = {one: committed.get(one, beginnings[one] - shift) + shift for one in inputs}
        found = {one: max(beginnings[one], min(offset, ends[one])) for one, offset in wanted.items()}
    found |= {one: ends[one] for one in middle}
    return tuple(OffsetChange(one, committed.get(one), found[one]) for one in sorted(found))


def offsets_of_file(
    path: Path,
    consumer: Consumer,
    known: Collection[TopicPartition],
    committed: Mapping[TopicPartition, int],
    *,
    with_metadata: bool,
) -> tuple[OffsetChange, ...]:
    """Returns the offsets that a file names, a line ``topic,partition,offset`` each, as Kafka's reset tool reads them,
    with the metadata of the offset as a fourth field where `streams groups upgrade-topology` has written it.

    :param known: the partitions that the application reads.
    :param with_metadata: takes the metadata over, which names stores and topics that must not be reset then.
    :raises CannotRun: if a line is wrong.
    """
    found: dict[TopicPartition, int] = {}
    texts: dict[TopicPartition, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(f"--from-file {path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        parts = [part.strip() for part in next(csv.reader([line]))]
        if len(parts) not in (3, 4) or not (parts[1].isdecimal() and parts[2].isdecimal()):
            raise CannotRun(
                f"{path}, line {number}: {line!r} is not topic,partition,offset or topic,partition,offset,metadata"
            )
        place = TopicPartition(parts[0], int(parts[1]))
        if place not in known:
            raise CannotRun(f"{path}, line {number}: the application does not read partition {place}")
        found[place] = int(parts[2])
        texts[place] = "".join(parts[3:]) if with_metadata else ""
    begins = consumer.beginning_offsets(found) if found else {}
    ends = consumer.end_offsets(found) if found else {}
    changes = []
    for one in sorted(found):
        new = max(begins[one], min(found[one], ends[one]))
        changes.append(OffsetChange(one, committed.get(one), new, texts[one] if new == found[one] else ""))
    return tuple(changes)
