"""`streams shadow --id`: a live shadow beside the application that it follows.

It says how far both are, in what their tables differ where they stand at the same offsets, and has the shadow take the
place of the application (docs/decisions/command-line-and-settings.md, "A live shadow is an application with other
clients").
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from processor_api.texts import repr_of
from processor_api.topology.topology import Topology
from streams.cli.cluster.connection import ClusterConnection
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.failures import described
from streams.cli.output.terminal import counted, json_text, say, say_error, table
from streams.cli.shadow.comparison import (
    LEFT_OUT,
    ComparedVersion,
    Rows,
    RunResults,
    VersionDifferences,
    compared_stores,
    plan_of,
    rows,
    versions_of,
)
from streams.cli.state.cloning import settled_offsets
from streams.kafka.cluster_clients import partitions_of
from streams.kafka.own_names import former_copy_group, looking_like_shadow_topics, own_shadow_topics
from streams.kafka.topics.application import Use, application_topics
from streams.shadow.clients import own_topics, up_to
from streams.shadow.limited_inputs import FixedLimits

if TYPE_CHECKING:
    from streams.cli.shadow.promotion import Promotion
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin, Consumer, KafkaClients, OffsetAndMetadata, TopicInfo
    from streams.runtime.plan.task_plan import TaskPlan

LOOK_S, PAUSE_S, LINE_S = 1.0, 0.1, 30.0
COUNTED = 10_000
"""The longest range of offsets in which records are counted; of a longer one the offsets are."""
MADE_AGAIN = frozenset((Use.CHANGELOG, Use.REPARTITION))
Offsets = Mapping[TopicPartition, "OffsetAndMetadata"]


def run(arguments: argparse.Namespace, wait_s: float, clients: KafkaClients | None, clock: Clock) -> int:
    """Does what the options of a live shadow ask for; returns the exit status.

    :param wait_s: how long to wait until both are at the same offsets.
    """
    shadow = _Shadow(arguments, clients, clock)
    if arguments.promote:
        return shadow.promote(dry_run=arguments.dry_run)
    if arguments.delete_topics:
        return shadow.delete_topics(dry_run=arguments.dry_run)
    return shadow.compare(wait_s, arguments)


# ------------------------------------------------------------------ how far both are


@dataclass(frozen=True)
class _Side:
    """One of the two applications, as it is on the cluster."""

    version: ComparedVersion
    plan: tuple[TaskPlan, ...]
    reader: Consumer
    """Has the offsets of its group."""

    @property
    def id(self) -> str:
        return self.version.target.config.application_id

    @property
    def topology(self) -> Topology:
        return self.version.topology

    @property
    def own(self) -> frozenset[str]:
        """Its repartition topics."""
        return frozenset(topic for one in self.plan for topic in one.repartition_topics)

    def inputs(self, existing: Mapping[str, TopicInfo], *, own: bool) -> list[TopicPartition]:
        """Returns the partitions that it reads.

        :param own: those of its repartition topics, and not the others.
        """
        topics = {topic for one in self.plan for topic in one.topics if (topic in self.own) is own}
        return partitions_of(topics, existing)


@dataclass(frozen=True)
class _Standing:
    """Holds the committed offsets of both applications, and the records between them."""

    committed: tuple[Offsets, Offsets]
    behind: Mapping[TopicPartition, int]
    """Records that the shadow has not read, of those that the application has."""
    ahead: Mapping[TopicPartition, int]
    """Records that the shadow has read, and the application has not."""
    unread: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]
    """Records of repartition topics that are still to be read, of each."""
    lost: Collection[TopicPartition]
    """Inputs of which records were deleted that the shadow has not read."""

    @property
    def is_equal(self) -> bool:
        return not (self.behind or self.ahead or any(self.unread))

    def sentences(self, names: tuple[str, str]) -> Iterator[str]:
        """Yields in what both are not at the same offsets."""
        if self.behind:
            yield f"{names[1]!r} lags {_records(self.behind)} behind {names[0]!r}"
        if self.ahead:
            yield (
                f"{names[1]!r} has read {_records(self.ahead)} that {names[0]!r} has not: it has run without"
                f" shadow.of={names[0]}, or the offsets of {names[0]!r} were reset"
            )
        for name, unread in zip(names, self.unread, strict=True):
            if unread:
                yield f"{name!r} has {_records(unread)} of its repartition topics to read"


def _records(found: Mapping[TopicPartition, int]) -> str:
    return f"{counted(sum(found.values()), 'record')} ({', '.join(map(str, sorted(found)[:3]))})"


class _Standings:
    """Finds how far both are."""

    def __init__(self, admin: Admin, sides: tuple[_Side, _Side], clock: Clock) -> None:
        self._admin, self._sides, self._clock = admin, sides, clock

    def find(self) -> _Standing:
        """Returns how far both are now."""
        existing, (old, new) = self._admin.topics(), self._sides
        inputs = old.inputs(existing, own=False), new.inputs(existing, own=False)
        committed = tuple(
            settled_offsets(side.reader, [*places, *side.inputs(existing, own=True)], self._clock)
            for side, places in zip(self._sides, inputs, strict=True)
        )
        shared = [place for place in inputs[1] if place in committed[0]]
        offsets = {p: (committed[0][p].offset, committed[1][p].offset if p in committed[1] else 0) for p in shared}
        begins = old.reader.beginning_offsets(shared) if shared else {}
        return _Standing(
            committed=(committed[0], committed[1]),
            behind=_between(old.reader, {p: (there, here) for p, (here, there) in offsets.items()}),
            ahead=_between(old.reader, offsets),
            unread=(
                self._unread(old, existing, committed[0]),
                self._unread(new, existing, committed[1]),
            ),
            lost=[p for p, (there, here) in offsets.items() if p in committed[1] and here < min(begins[p], there)],
        )

    @staticmethod
    def _unread(side: _Side, existing: Mapping[str, TopicInfo], committed: Offsets) -> dict[TopicPartition, int]:
        places = side.inputs(existing, own=True)
        ends = side.reader.end_offsets(places) if places else {}
        return _between(side.reader, {p: (committed[p].offset if p in committed else 0, e) for p, e in ends.items()})


def _between(reader: Consumer, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    """Returns how many committed records there are in ranges of offsets, without those that have none."""
    from streams.kafka.record_ranges import read_ranges

    wide = {place: found for place, found in ranges.items() if found[0] < found[1]}
    if not wide:
        return {}
    begins = reader.beginning_offsets(list(wide))
    wide = {place: (max(begin, begins[place]), end) for place, (begin, end) in wide.items() if begins[place] < end}
    result = {place: end - begin for place, (begin, end) in wide.items() if end - begin > COUNTED}
    for message in read_ranges(reader, {place: found for place, found in wide.items() if place not in result}):
        place = TopicPartition(message.topic(), message.partition())
        result[place] = result.get(place, 0) + 1
    return result


# ------------------------------------------------------------------ the commands


class _Shadow:
    """The commands on one shadow."""

    def __init__(self, arguments: argparse.Namespace, clients: KafkaClients | None, clock: Clock) -> None:
        self._versions = versions_of(arguments, {"application.id": arguments.id})
        old, new = (one.target.config for one in self._versions)
        if old.application_id == new.application_id:
            raise CannotRun(f"--id must be the id of the shadow, not that of APP, {old.application_id!r}")
        if new.shadow_of not in (None, old.application_id):
            raise CannotRun(
                f"application {new.application_id!r} is the shadow of {repr_of(new.shadow_of)} (shadow.of), not of"
                f" {old.application_id!r}"
            )
        self._names = old.application_id, new.application_id
        self._connection = ClusterConnection(old, clients, read_only=arguments.dry_run)
        self._clients, self._clock = self._connection.clients, clock

    @contextmanager
    def _sides(self, admin: Admin) -> Iterator[tuple[_Side, _Side]]:
        with (
            self._connection.consumer(group=self._names[0]) as old,
            self._connection.consumer(group=self._names[1]) as new,
        ):
            first, second = self._versions
            yield _Side(first, plan_of(first, admin), old), _Side(second, plan_of(second, admin), new)

    # ------------------------------------------------------------------ tables

    def compare(self, wait_s: float, arguments: argparse.Namespace) -> int:
        """Prints in what the tables differ, once both are at the same offsets."""
        with self._connection.admin() as admin, self._sides(admin) as sides:
            for side in sides:
                _refuse_unknown(side, admin, self._clock)
            found = self._tables_at_rest(
                _Standings(admin, sides, self._clock), sides, admin, wait_s, arguments.most_records
            )
            topics = self._shadow_topics(admin, sides[1].reader)
        if isinstance(found, _Standing):
            reasons = "; ".join(found.sentences(self._names)) or f"{self._names[0]!r} continues all the time"
            raise StreamsError(
                f"the tables are not compared because the two are not at the same offsets: {reasons}. Wait longer by"
                f" --for, or stop the workers of {self._names[0]!r}"
            )
        comparison = VersionDifferences(self._versions, [RunResults(tables) for tables in found])
        if arguments.json:
            say(json_text({**comparison.as_json(), "shadow_topics": topics}))
        else:
            say(f"{self._names[1]} is at the committed offsets of {self._names[0]}")
            comparison.show(arguments.limit)
            if topics:
                table(("SHADOW TOPIC", "RECORDS"), [(name, str(count)) for name, count in topics.items()])
        return FAILED if comparison.differs else CLEAN

    def _tables_at_rest(
        self,
        standings: _Standings,
        sides: tuple[_Side, _Side],
        admin: Admin,
        wait_s: float,
        most: int,
    ) -> _Standing | list[dict[str, Rows]]:
        """Returns the tables of both, read while they stayed at the same offsets; else how far they are."""
        until = self._clock.monotonic() + wait_s
        while True:
            standing = standings.find()
            if standing.is_equal:
                tables = _tables(sides, admin, most)
                self._clock.wait(LOOK_S)  # a commit whose changes are in the changelogs already has ended by then
                if standings.find().committed == standing.committed:
                    return tables
            if self._clock.monotonic() >= until:
                return standing
            self._clock.wait(LOOK_S)

    # ------------------------------------------------------------------ shadow topics

    def _shadow_topics(self, admin: Admin, reader: Consumer) -> dict[str, int]:
        """Returns the shadow topics that exist, with the offsets that they have had."""
        existing = admin.topics()
        names = sorted(self._own_shadow_topics(admin, existing))
        places = partitions_of(names, existing)
        begins, ends = (reader.beginning_offsets(places), reader.end_offsets(places)) if places else ({}, {})
        return {name: sum(ends[p] - begins[p] for p in places if p.topic == name) for name in names}

    def _own_shadow_topics(self, admin: Admin, existing: Collection[str]) -> set[str]:
        version = self._versions[1]
        outputs = {
            one.name for one in application_topics(version.topology, version.target.settings, {}) if one.is_written
        }
        return own_shadow_topics(self._names[1], existing, admin.groups(), outputs)

    def delete_topics(self, *, dry_run: bool) -> int:
        """Deletes the shadow topics; those of which it is not certain that they are the shadow's are named and left."""
        with self._connection.admin() as admin:
            _refuse_members(admin, self._names[1:])
            existing = admin.topics()
            own = self._own_shadow_topics(admin, existing)
            names = sorted(own)
            if names and not dry_run:
                admin.delete_topics(names)
        for name in names:
            say(f"would delete {name}" if dry_run else f"deleted {name}")
        for name, topic in sorted(looking_like_shadow_topics(self._names[1], existing, ()).items()):
            if name not in own:
                say(
                    f"not deleted: {name}. It is the shadow topic of another application, or of topic {topic!r}, which"
                    f" {self._versions[1].name} does not write and which does not exist"
                )
        if dry_run:
            say("nothing was changed (--dry-run)")
        if not names:
            say(f"application {self._names[1]!r} has no shadow topics")
        return CLEAN

    # ------------------------------------------------------------------ the promotion

    def promote(self, *, dry_run: bool) -> int:
        """Gives state and offsets of the shadow to the application."""
        old, new = self._names
        with self._connection.admin() as admin, self._sides(admin) as sides:
            _refuse_members(admin, self._names)
            with self._promotion(admin, sides) as made:
                if made.is_complete():
                    if not dry_run:
                        made.forget_progress()
                    say(f"{new!r} is already promoted to {old!r}: start workers of the new version")
                    return CLEAN
                standings = _Standings(admin, sides, self._clock)
                self._bring_to_rest(made, standings, sides, admin, dry_run=dry_run)
                if dry_run:
                    say("nothing was changed (--dry-run)")
                    return CLEAN
                made.mark()
                found = standings.find()  # no worker can start since the mark, but one may have run just before it
                if not found.is_equal:
                    raise RetryableError(f"not promoted yet: {'; '.join(found.sentences(self._names))}. Promote again")
                made.clear()
        # The clients above know the topics that were deleted.
        with self._connection.admin() as admin, self._sides(admin) as sides, self._promotion(admin, sides) as made:
            plan = made.plan
            topics = sorted({place.topic for one in (*plan.changelogs, *plan.repartitions) for place in one})
            made.begin()
            with self._connection.transactional_producer(topics, plan.group) as producer:
                if not made.finish(producer):
                    raise RetryableError(
                        f"application {new!r} has continued in the meantime: stop its workers, and promote again"
                    )
            made.forget_progress()
        say(
            f"copied {counted(made.done.changelog_records, 'record')} of changelogs, and committed the offsets of"
            f" {counted(len(made.done.offsets), 'partition')}"
        )
        say(
            f"done: start workers of the new version with application.id={old} and without shadow.of; {new!r} is as it"
            " was"
        )
        return CLEAN

    @contextmanager
    def _promotion(self, admin: Admin, sides: tuple[_Side, _Side]) -> Iterator[Promotion]:
        from streams.cli.shadow.promotion import Promotion, plan_promotion
        from streams.cli.state.cloning import CloneClients

        old, new = sides
        config = new.version.target.config
        as_old = _changed(config, {"application.id": old.id, "shadow.of": None})
        plan = plan_promotion(new.topology, config, as_old, admin)
        topics = application_topics(old.topology, old.version.target.settings, {})
        former = {one.name for one in topics if not MADE_AGAIN.isdisjoint(one.uses)}
        existing = admin.topics()
        inputs = [*old.inputs(existing, own=False), *old.inputs(existing, own=True)]
        with (
            self._connection.consumer(group=plan.group) as progress,
            self._connection.consumer(group=former_copy_group(old.id)) as kept,
        ):
            clients = CloneClients(admin=admin, source=new.reader, target=old.reader, progress=progress, former=kept)
            yield Promotion(plan, clients, self._clock, inputs, former)

    def _bring_to_rest(
        self, made: Promotion, standings: _Standings, sides: tuple[_Side, _Side], admin: Admin, *, dry_run: bool
    ) -> None:
        """Has both read what is left, up to the committed offsets of the application.

        :raises StreamsError: if they do not come to stand at the same offsets.
        """
        for side in sides:
            _refuse_unknown(side, admin, self._clock)
        found = standings.find()
        for sentence in found.sentences(self._names):
            say(sentence)
        if alone := sorted(
            {p.topic for p in found.committed[1]} - {p.topic for p in found.committed[0]} - sides[1].own
        ):
            say(f"read by {self._names[1]!r} alone, with results in shadow topics only: {', '.join(alone)}")
        if dry_run or found.is_equal:
            return
        if found.ahead:
            raise StreamsError(
                f"not promoted: {next(found.sentences(self._names))}. Its state holds records whose results"
                f" {self._names[0]!r} has not written. Reset it, and clone it again by `streams state clone`"
            )
        if found.lost:
            raise StreamsError(
                f"not promoted: records of {', '.join(map(str, sorted(found.lost)))} were deleted before"
                f" {self._names[1]!r} read them. Reset it, and clone it again by `streams state clone`"
            )
        if found.unread[0]:
            made.unmark()  # an earlier call was killed before it deleted anything
            self._run(sides[0], found.committed[0], standings, lambda one: not one.unread[0])
        if found.behind or found.unread[1] or found.unread[0]:
            self._run(sides[1], found.committed[0], standings, lambda one: not (one.behind or one.unread[1]))
        _refuse_members(admin, self._names)
        found = standings.find()
        if not found.is_equal:
            raise RetryableError(f"not promoted yet: {'; '.join(found.sentences(self._names))}. Promote again")

    def _run(self, side: _Side, limits: Offsets, standings: _Standings, is_done: Any) -> None:
        """Runs an application in this process until it has read its inputs up to some offsets."""
        from streams.app.kafka_streams import KafkaStreams

        say_error(f"running {side.version.name} as {side.id} up to the committed offsets of {self._names[0]}")
        config = _changed(side.version.target.config, {"shadow.of": None})
        ends = {place: one.offset for place, one in limits.items()}
        fixed = FixedLimits(ends, own_topics(side.topology, config))
        is_shadow = side.id == self._names[1]
        clients = up_to(fixed, self._clients, side.topology, config, self._clock, shadowed=is_shadow)
        app = KafkaStreams(lambda _: side.topology, config, clients=clients)
        next_line = self._clock.monotonic() + LINE_S
        try:
            app.start()
            while app.failure is None and not is_done(found := standings.find()):
                if self._clock.monotonic() > next_line:
                    next_line = self._clock.monotonic() + LINE_S
                    say_error("; ".join(found.sentences(self._names)))
                self._clock.wait(PAUSE_S)
        finally:
            app.close()
        if app.failure is not None:
            raise StreamsError(f"{side.version.name} fails as {side.id}: {described(app.failure)}") from app.failure


def _changed(config: StreamsConfig, settings: Mapping[str, Any]) -> StreamsConfig:
    """Returns settings with others, and without those of workers that serve and keep files for others."""
    from streams.config import StreamsConfig

    left_out = {*LEFT_OUT, *settings} - {"group.protocol"}
    given = {n: v for n, v in config.dotted().items() if config.origin(n) != "default" and n not in left_out}
    return StreamsConfig.of({**given, **{name: value for name, value in settings.items() if value is not None}})


def _refuse_members(admin: Admin, groups: Collection[str]) -> None:
    for group in groups:
        members = sorted(one.client_id for one in admin.group_members(group))
        if members:
            raise StreamsError(
                f"nothing was changed: application {group!r} runs, its group has {counted(len(members), 'member')}"
                f" ({', '.join(members[:3])}). Stop all of its workers first"
            )


def _refuse_unknown(side: _Side, admin: Admin, clock: Clock) -> None:
    if not settled_offsets(side.reader, side.inputs(admin.topics(), own=False), clock):
        raise StreamsError(
            f"the group of application {side.id!r} has no committed offset of the topics that {side.version.name}"
            " reads: check the id. To create a shadow, run `streams state clone APP --as ID`"
        )


# ------------------------------------------------------------------ rows


def _tables(sides: tuple[_Side, _Side], admin: Admin, most: int) -> list[dict[str, Rows]]:
    """Returns the rows of the tables of both.

    :raises StreamsError: if there is more than may be read into memory.
    """
    existing = admin.topics()
    counts = {name: info.partitions for name, info in existing.items()}
    total = 0
    for side in sides:
        places = partitions_of(list(compared_stores(side.topology, side.plan).values()), existing)
        if places:
            begins, ends = side.reader.beginning_offsets(places), side.reader.end_offsets(places)
            total += sum(ends[place] - begins[place] for place in places)
    if total > most:
        raise StreamsError(
            f"up to {total} records of changelogs to read into memory exceed --most-records {most}: give a larger"
            " number, or compare the tables in Spark (`streams spark diff`)"
        )
    found = [rows(side.reader, side.version, side.plan, counts) for side in sides]
    for name in found[0].keys() & found[1].keys():
        retention = sides[0].topology.stores[name].supplier.parameters.get("retention_ms")
        if retention is not None:
            _leave_out_expired((found[0][name], found[1][name]), retention)
    return found


def _leave_out_expired(both: tuple[Rows, Rows], retention_ms: int) -> None:
    """Removes rows of windows that are over for longer than the retention, by the latest window of either: tasks delete
    them when they come to it."""
    ends = {key: end for side in both for key in side if (end := _end_ms(key)) is not None}
    if not ends:
        return
    oldest = max(ends.values()) - retention_ms
    for side in both:
        for key in [key for key in side if ends.get(key, oldest) < oldest]:
            del side[key]


def _end_ms(key: str) -> float | None:
    import json

    found = json.loads(key)
    if not isinstance(found, dict) or not isinstance(found.get("end"), str):
        return None
    return datetime.fromisoformat(found["end"]).timestamp() * 1000
