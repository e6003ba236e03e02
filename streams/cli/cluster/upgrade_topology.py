"""`streams groups upgrade-topology`: replaces a group of the streams protocol by one without a topology.

The brokers have no request for it, so the group is deleted and its offsets are committed again. Each step may be
killed, and the next call continues with what the step before it has left on the cluster:

1. The offsets with their metadata are committed for a group of the command's own, and written to a file for people.
2. The group is deleted, and its offsets with it.
3. The offsets are committed for it in one request, and read back.
4. The group that kept them is deleted.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.cli.cluster.connection import ClusterConnection, Target
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import ask, counted, say, table
from streams.kafka.cluster_clients import partitions_of
from streams.kafka.own_names import upgrade_group

if TYPE_CHECKING:
    from streams.kafka.ports import Admin, Consumer, GroupInfo, KafkaClients, OffsetAndMetadata

UPGRADE = "upgrade-topology"
Offsets = Mapping[TopicPartition, "OffsetAndMetadata"]


def upgrade(arguments: argparse.Namespace, target: Target, clients: KafkaClients | None) -> int:
    """Replaces the group of an application; returns the exit status."""
    if not target.has_id:
        raise CannotRun(f"{UPGRADE} needs an application: give APP, or --application-id")
    name = target.config.application_id
    connection = ClusterConnection(target.config, clients, read_only=arguments.dry_run)
    with (
        connection.admin() as admin,
        connection.consumer(group=name) as own,
        connection.consumer(group=upgrade_group(name)) as keeper,
    ):
        return _Upgrade(arguments, name, admin, own, keeper).run()


class _Upgrade:
    """Runs the steps for one group.

    :param own: has the offsets of the group.
    :param keeper: has those of the group that keeps them meanwhile.
    """

    def __init__(self, arguments: argparse.Namespace, name: str, admin: Admin, own: Consumer, keeper: Consumer) -> None:
        self._arguments, self._name = arguments, name
        self._admin, self._own, self._keeper = admin, own, keeper
        self._file: Path = arguments.offsets_file or Path(f"{name}-offsets.csv")
        self._places: list[TopicPartition] = []

    def run(self) -> int:
        group = self._admin.describe_group(self._name)
        self._refuse_members(group)
        existing = self._admin.topics()
        self._places = partitions_of([topic for topic in existing if not topic.startswith("__")], existing)
        now = self._own.committed(self._places)  # waits for transactions that are open
        kept = self._keeper.committed(self._places)
        has_topology = group.protocol == "streams"
        if not kept and not has_topology:
            say(f"group {self._name!r} does not use the streams protocol, so it has no topology: nothing was changed")
            return CLEAN
        if kept:
            say(f"continuing an interrupted {UPGRADE} of group {self._name!r}")
            self._check_kept(kept, now)
        offsets = kept or now
        self._show(offsets)
        if not self._agreed():
            return CLEAN
        self._write(offsets)
        if offsets and not kept:
            self._keeper.commit(offsets)
            self._compare(self._keeper, offsets)
        if has_topology:
            self._admin.delete_group(self._name)
        if offsets:
            self._restore(offsets)
        self._admin.delete_group(upgrade_group(self._name))
        say(f"done: the next worker that starts sets the topology of the group; {self._file} also has the offsets")
        return CLEAN

    def _refuse_members(self, group: GroupInfo) -> None:
        if group.members:
            clients = ", ".join(sorted(member.client_id for member in group.members)[:3])
            raise StreamsError(
                f"group {self._name!r} has members ({clients}): stop its workers first; nothing was changed"
            )

    def _check_kept(self, kept: Offsets, now: Offsets) -> None:
        """Refuses kept offsets if the group has others, because workers have run since they were kept.

        Which of them are right depends on what these workers have read, which only a person knows.
        """
        others = [place for place in sorted(now) if place not in kept or now[place].offset != kept[place].offset]
        if not others:
            return
        place, keeper = others[0], upgrade_group(self._name)
        if not self._arguments.dry_run:
            self._write(kept)
        was = kept[place].offset if place in kept else "none"
        raise StreamsError(
            f"workers of group {self._name!r} have run since its offsets were saved in group {keeper!r}: the committed"
            f" offset of {place} is {now[place].offset}, and {was} was saved. To set the saved offsets, run `streams"
            f" reset APP --offsets-only --from-file {self._file}`; to keep the current offsets, delete the group"
            f" {keeper!r} (kafka-consumer-groups --delete --group {keeper}). Then run {UPGRADE} again"
        )

    def _show(self, offsets: Offsets) -> None:
        partitions = counted(len(offsets), "partition")
        say(f"group {self._name} keeps its offsets of {partitions}, and loses its topology")
        table(
            ("TOPIC", "PARTITION", "OFFSET"),
            ((p.topic, str(p.partition), str(offsets[p].offset)) for p in sorted(offsets)),
        )

    def _agreed(self) -> bool:
        """Returns whether the group is to be replaced; says so if not."""
        if self._arguments.dry_run:
            say("nothing was changed (--dry-run)")
            return False
        if self._arguments.yes:
            return True
        if not sys.stdin.isatty():
            raise CannotRun("nothing was changed: without a terminal for the question, give --yes")
        if ask(f"replace group {self._name!r}?"):
            return True
        say("nothing was changed")
        return False

    def _write(self, offsets: Offsets) -> None:
        """Writes the offsets with their metadata, in the form that `streams reset --from-file` reads; metadata of
        another tool that is more than a line is left out."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        for place in sorted(offsets):
            offset, metadata = offsets[place]
            rows.writerow((*place, offset, *([metadata] if metadata and metadata.isprintable() else [])))
        try:
            self._file.write_text(text.getvalue(), "utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise CannotRun(f"nothing was changed: {self._file} cannot be written: {reason}") from error

    def _restore(self, offsets: Offsets) -> None:
        """Commits the offsets for the group that was deleted.

        :raises StreamsError: if that fails: no worker must start before the next call has done it.
        """
        try:
            self._own.commit(offsets)
            self._compare(self._own, offsets)
        except StreamsError as error:
            raise StreamsError(
                f"group {self._name!r} was deleted, and its offsets are not committed again yet ({error.message}): run"
                f" {UPGRADE} again before a worker starts. Until then group {upgrade_group(self._name)!r} and"
                f" {self._file} have them"
            ) from error

    def _compare(self, consumer: Consumer, offsets: Offsets) -> None:
        found = consumer.committed(self._places)
        if {place: found.get(place) for place in offsets} != dict(offsets):
            raise StreamsError(
                f"{len(found)} partitions have offsets now, fewer than were committed: another process has changed"
                f" them. Stop it, and run {UPGRADE} again; the offsets are in {self._file}"
            )
