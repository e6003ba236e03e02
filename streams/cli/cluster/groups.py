"""`streams groups`: the members of an application's group, their tasks, and how far they are behind."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.errors import AuthorizationError, StreamsError
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import repr_of
from processor_api.topology.nodes import SourceNode
from streams.cli.changes_nothing import changes_nothing
from streams.cli.cluster.connection import ClusterConnection, Target, target_of
from streams.cli.cluster.upgrade_topology import UPGRADE, upgrade
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import counted, json_text, say, say_error, table
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.kafka.cluster_clients import partitions_of
from streams.kafka.own_names import control_topic
from streams.kafka.record_ranges import next_records
from streams.kafka.topics.application import Use, application_topics
from streams.kafka.topics.internal import full_name, topic_prefix
from streams.kafka.topics.readers import matching_topics

if TYPE_CHECKING:
    from streams.kafka.membership.task_slots import SlotPlan
    from streams.kafka.ports import Admin, Consumer, GroupInfo, GroupMember, KafkaClients, TopicInfo

_EXAMPLES = """
examples:
  streams groups
  streams groups app.py
  streams groups --application-id orders --json | jq .total_lag
  streams groups upgrade-topology app.py --dry-run
"""
_CLIENT = re.compile(r"(?P<process>.*?)(?:-StreamThread-(?P<thread>\d+))?(?:-consumer)?(?:-topology-[0-9a-f]{8})?")
MOST_MARKERS = 100
"""How many offsets may be left in a partition for its next record to be looked up."""
MOST_PARTITIONS = 10_000
"""Partitions of which the offsets of a group without a topology are asked for at most."""


def add_parser(commands: Any, help_text: str) -> None:
    parser = add_with_examples(
        commands,
        "groups",
        help_text,
        _EXAMPLES,
        "Shows the group of APP, or of --application-id: its state, its members with their tasks, and the committed"
        " offset and the lag of each partition that it reads. The lag counts the offsets from the next record behind"
        " the committed offset on, or from the first record if nothing is committed; it is 0 if only markers of"
        " transactions are left. It includes records of open transactions, which are listed."
        " Without APP and --application-id it lists the groups of the cluster. Exit status: 1 if the group does not"
        f" exist, otherwise 0. With {UPGRADE!r} before APP it replaces a group of the streams protocol by one without"
        " a topology, and keeps the offsets. Stop its workers first. The next worker that joins sets the topology of"
        " the group.",
    )
    parser.add_argument("topology", metavar=f"[{UPGRADE}] APP", nargs="?", help=APP_HELP)
    parser.add_argument("app", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--dry-run", action="store_true", help=f"{UPGRADE}: print the changes, and make none")
    parser.add_argument("--yes", action="store_true", help=f"{UPGRADE}: do not ask for confirmation")
    parser.add_argument(
        "--offsets-file",
        metavar="FILE",
        type=Path,
        help=f"{UPGRADE}: file to which the offsets are saved first (default: GROUP-offsets.csv)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run, lambda given: given.dry_run or given.topology != UPGRADE))


@dataclass(frozen=True)
class MemberTasks:
    """A member of a group with its tasks and copies."""

    info: GroupMember
    tasks: tuple[TaskId, ...]
    copies: Mapping[TaskId, int | None] = field(default_factory=dict)
    """The tasks of which it says that it has copies, with the offsets that these may lack: 0 if one is near its task,
    ``None`` where nothing is known of it."""
    fills: bool = False
    """Whether it fills copies before it takes tasks with state."""

    @property
    def process(self) -> str:
        """The process, by the part of its client id that all of its threads have."""
        match = _CLIENT.fullmatch(self.info.client_id)
        return self.info.client_id if match is None else match["process"]

    @property
    def thread(self) -> str:
        """The number of its stream thread; empty if the client id has none."""
        match = _CLIENT.fullmatch(self.info.client_id)
        return "" if match is None else match["thread"] or ""


@dataclass(frozen=True)
class GroupLag:
    """The distance of a group from the end of one partition."""

    place: TopicPartition
    committed: int | None
    end: int
    """The end of the log, behind the records of open transactions."""
    readable: int
    """The end of what can be read: the rest waits for the end of a transaction of a producer."""
    start: int | None = None
    """Where it begins to read, if nothing is committed and that is known."""
    next_record: int | None = None
    """The first record that it has still to read, or the end of what can be read; ``None`` if it was not looked up."""

    @property
    def first(self) -> int | None:
        """The offset at which it begins to read, if that is known."""
        return self.start if self.committed is None else self.committed

    @property
    def lag(self) -> int | None:
        """The offsets that it has still to read, from the next record on; ``None`` where nothing is committed, and
        where it begins depends on when it does."""
        first = self.first if self.next_record is None else self.next_record
        return None if first is None else max(0, self.end - first)

    @property
    def open(self) -> int:
        """The offsets from the first record of an open transaction on."""
        return max(0, self.end - self.readable)


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None) -> int:
    """Prints the group, or the groups; returns the exit status."""
    upgrades = arguments.topology == UPGRADE
    if upgrades:
        arguments.topology = arguments.app
    elif arguments.app is not None:
        raise CannotRun(f"expected one APP, or {UPGRADE!r} before it, got {repr_of(arguments.topology)} and more")
    target = target_of(arguments)
    if upgrades:
        return upgrade(arguments, target, clients)
    connection = ClusterConnection(target.config, clients, read_only=True)
    with connection.admin() as admin:
        if not target.has_id:
            return _list(admin, as_json=arguments.json)
        group = admin.describe_group(target.config.application_id)
        existing = admin.topics()
        members = members_of(target.config.application_id, admin, group, existing)
        with connection.consumer() as consumer:
            lags = lags_of(target, admin, consumer, existing)
    if arguments.json:
        say(json_text(_as_json(group, members, lags)))
    else:
        _print(group, members, lags)
    return FAILED if group.state == "dead" and not lags else CLEAN


def _list(admin: Admin, *, as_json: bool) -> int:
    found = []
    for name in admin.groups():
        try:
            found.append(admin.describe_group(name))
        except StreamsError as error:
            say_error(f"group {name!r} cannot be described: {error.message}")
    if as_json:
        groups = [
            {
                "name": g.name,
                "state": g.state,
                "assignor": g.assignor,
                "protocol": g.protocol,
                "members": len(g.members),
            }
            for g in found
        ]
        say(json_text({"groups": groups}))
    else:
        rows = [(one.name, one.state, str(len(one.members)), one.protocol, one.assignor) for one in found]
        table(("GROUP", "STATE", "MEMBERS", "PROTOCOL", "ASSIGNOR"), rows)
    return CLEAN


# ------------------------------------------------------------------ members and tasks


def members_of(
    application_id: str, admin: Admin, group: GroupInfo, existing: Mapping[str, TopicInfo]
) -> list[MemberTasks]:
    """Returns the members of a group with their tasks, as its control topics and its plan of exchanged tasks say.

    :param existing: the topics of the cluster.
    """
    from streams.kafka.membership.task_slots import SlotPlan

    subtopologies = control_topics(application_id, existing)
    slots_of = {
        TopicPartition(topic, n): TaskId(part, n)
        for topic, part in subtopologies.items()
        for n in range(existing[topic].partitions)
    }
    found = admin.group_offsets(application_id, list(slots_of)) if slots_of else {}
    texts = {slots_of[place]: one.metadata for place, one in found.items()}
    plan = SlotPlan.decode(texts.get(min(slots_of.values()), "")) if slots_of else SlotPlan()
    members = sorted(group.members, key=lambda one: (one.client_id, one.member_id))
    return [
        _member(one, [slots_of[place] for place in one.partitions if place in slots_of], plan, texts) for one in members
    ]


def _member(info: GroupMember, slots: Sequence[TaskId], plan: SlotPlan, texts: Mapping[TaskId, str]) -> MemberTasks:
    from streams.kafka.membership.slot_reports import Coming, report_in

    if info.tasks is not None:
        return MemberTasks(info, tuple(sorted(info.tasks)), dict.fromkeys(sorted(info.standby)))
    report = report_in(texts.get(max(slots, default=TaskId(0, 0)), ""))
    if report is None or report.member != (info.instance_id or info.member_id):
        fills = any(place.topic.endswith("-changelog") for place in info.partitions)
        return MemberTasks(info, tuple(sorted(map(plan.task, slots))), fills=fills)
    copies: Mapping[TaskId, int | None] = dict(sorted(report.lags.items()))
    return MemberTasks(info, tuple(sorted(map(plan.task, slots))), copies, report.coming is Coming.FILLING)


def control_topics(prefix: str, existing: Mapping[str, TopicInfo]) -> dict[str, int]:
    """Returns the numbers of the subtopologies by their control topics."""
    found = {}
    for name in existing:
        middle = name.removeprefix(f"{prefix}-").removesuffix("-tasks")
        if middle.isdecimal() and name == control_topic(prefix, int(middle)):
            found[name] = int(middle)
    return found


# ------------------------------------------------------------------ lags


def lags_of(target: Target, admin: Admin, consumer: Consumer, existing: Mapping[str, TopicInfo]) -> list[GroupLag]:
    """Returns the lag in each partition that the application reads; without a topology, that it has committed."""
    counts = {name: info.partitions for name, info in existing.items()}
    if target.topology is not None:
        read = [
            one.name
            for one in application_topics(target.topology, target.settings, counts)
            if not {Use.INPUT, Use.REPARTITION}.isdisjoint(one.uses)
        ]
    else:
        control = control_topics(target.config.application_id, existing)
        read = [name for name in existing if not name.startswith("__") and name not in control]
    places = partitions_of(read, existing)
    committed = _committed(target.config.application_id, admin, places)
    if target.topology is None:
        places = [place for place in places if place in committed]
    logs = admin.log_ends(places)  # first: else what comes in between would seem to be in an open transaction
    readable = consumer.end_offsets(places) if places else {}
    ends = {place: max(logs[place], readable[place]) for place in places}
    fresh = [place for place in places if place not in committed and _begins_first(target, place.topic)]
    starts = consumer.beginning_offsets(fresh) if fresh else {}
    found = [GroupLag(place, committed.get(place), ends[place], readable[place], starts.get(place)) for place in places]
    return _without_markers(found, consumer)


def _without_markers(lags: list[GroupLag], consumer: Consumer) -> list[GroupLag]:
    """Looks up the next record where so little is left that it may be markers of transactions alone.

    A worker commits behind markers, but the last ones may have come after its last commit. Only the log tells them from
    records. Who may not read a topic sees them counted.
    """
    ranges = {
        one.place: (one.first, one.readable)
        for one in lags
        if one.first is not None and 0 < one.readable - one.first <= MOST_MARKERS
    }
    try:
        found = next_records(consumer, ranges)
    except AuthorizationError:
        return lags
    return [replace(one, next_record=found.get(one.place)) for one in lags]


def _begins_first(target: Target, topic: str) -> bool:
    """Whether a partition of a topic without a committed offset is read from its first record."""
    from streams.config import clients as client_configs

    topology = target.topology
    if topology is None:
        return False
    if topic in {full_name(topology, topic_prefix(target.settings), name) for name in topology.repartition_topics}:
        return True
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
    readers = [node for node in sources if topic in matching_topics(topology, node, {topic: 1})]
    policies = {node.offset_reset or client_configs.auto_offset_reset(target.config) for node in readers}
    return {policy.policy for policy in policies} == {"earliest"}


def _committed(group: str, admin: Admin, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    listed = list(places)
    found: dict[TopicPartition, int] = {}
    for begin in range(0, len(listed), MOST_PARTITIONS):
        some = admin.group_offsets(group, listed[begin : begin + MOST_PARTITIONS])
        found |= {place: one.offset for place, one in some.items()}
    return found


# ------------------------------------------------------------------ printing


def _print(group: GroupInfo, members: list[MemberTasks], lags: list[GroupLag]) -> None:
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    state = "does not exist" if group.state == "dead" else f"is {group.state}"
    protocol = "" if group.protocol == "classic" else f" (protocol {group.protocol})"
    say(f"group {group.name}{protocol} {state}{assignor}; {counted(len(members), 'member')}")
    if group.state == "not_ready":
        say(
            "its members have no tasks: topics are missing, or have other partition counts; the log and the status of"
            " a worker list them"
        )
    if members:
        say()
        has_copies = any(one.copies or one.fills for one in members)
        table(
            ("PROCESS", "THREAD", "HOST", "TASKS", *(["COPIES"] if has_copies else [])),
            [
                (one.process, one.thread, one.info.host, _tasks(one), *([_copies(one)] if has_copies else []))
                for one in members
            ],
        )
    if lags:
        say()
        table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG"), map(_cells, lags))
        say()
        at_least = "at least " if any(one.lag is None for one in lags) else ""
        say(f"total lag: {at_least}{_total(lags)}{_without(lags)}")
        for one in lags:
            if one.open:
                some = f"{one.place}: the last {counted(one.open, 'offset')}, from offset {one.readable}"
                say(f"{some}, cannot be read until an open transaction of a producer ends")


def _tasks(one: MemberTasks) -> str:
    return ", ".join(map(str, one.tasks)) or "none"


def _copies(one: MemberTasks) -> str:
    """Returns the copies of a member in words, with how far those are behind that are not near."""
    texts = [f"{task} (lacks up to {lag})" if lag else str(task) for task, lag in one.copies.items()]
    return ", ".join([*texts, *(["fills warm-up replicas"] if one.fills else [])]) or "none"


def _cells(one: GroupLag) -> tuple[str, ...]:
    committed = "-" if one.committed is None else str(one.committed)
    lag = "-" if one.lag is None else str(one.lag)
    return one.place.topic, str(one.place.partition), committed, str(one.end), lag


def _total(lags: list[GroupLag]) -> int:
    return sum(one.lag or 0 for one in lags)


def _without(lags: list[GroupLag]) -> str:
    number = sum(one.committed is None for one in lags)
    return f"; {counted(number, 'partition')} without a committed offset" if number else ""


def _as_json(group: GroupInfo, members: list[MemberTasks], lags: list[GroupLag]) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "assignor": group.assignor or None,
        "protocol": group.protocol,
        "members": [
            {
                "client_id": one.info.client_id,
                "member_id": one.info.member_id,
                "instance_id": one.info.instance_id,
                "host": one.info.host,
                "process": one.process,
                "thread": int(one.thread) if one.thread else None,
                "tasks": list(map(str, one.tasks)),
                "copies": [{"task": str(task), "lacks_up_to": lag} for task, lag in one.copies.items()],
                "fills_copies": one.fills,
            }
            for one in members
        ],
        "partitions": [
            {
                "topic": one.place.topic,
                "partition": one.place.partition,
                "committed": one.committed,
                "end": one.end,
                "lag": one.lag,
                "open": one.open,
            }
            for one in lags
        ],
        "total_lag": _total(lags),
    }
