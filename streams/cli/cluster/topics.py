"""`streams topics`: the topics of an application, and those of them that are missing or wrong."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from processor_api.errors import StreamsError, TopologyError
from processor_api.texts import repr_of
from processor_api.topology.missing_serdes import check_serdes
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.topology import Topology
from streams.cli.changes_nothing import changes_nothing
from streams.cli.cluster.connection import ClusterConnection, Target, target_of
from streams.cli.cluster.table_topics import POLICY, restored_from, table_remarks, table_topics
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import counted, json_text, say, table
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.kafka.topics import application, internal
from streams.kafka.topics.readers import matching_topics

if TYPE_CHECKING:
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin, KafkaClients, NewTopic, TopicInfo


@dataclass(frozen=True, kw_only=True)
class FoundTopics:
    """The topics of an application, held against those of a cluster."""

    topics: tuple[application.ApplicationTopic, ...]
    existing: Mapping[str, TopicInfo]
    policies: Mapping[str, str]
    """``cleanup.policy`` of those that exist and may be seen."""
    groups: tuple[tuple[str, ...], ...]
    """Topics that need the same number of partitions."""
    problems: tuple[str, ...]
    """Faults that stop the application, or make its results wrong."""
    remarks: tuple[str, ...] = ()
    """Remarks that deserve attention."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """A word about single topics."""

    @property
    def missing(self) -> list[application.ApplicationTopic]:
        """Returns the topics that the user has to create."""
        return [one for one in self.topics if one.is_external and one.name not in self.existing]


def copartitioned(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Returns the groups of topics that need the same number of partitions, under their full names."""
    prefix, readable = internal.topic_prefix(settings), application.readable_topics(topology, settings, counts)
    groups: list[tuple[str, ...]] = []
    for group in topology.copartition_groups:
        sources = [node for node in map(topology.nodes.__getitem__, group) if isinstance(node, SourceNode)]
        names = {t for node in sources for t in matching_topics(topology, node, readable)}
        full = tuple(sorted(internal.full_name(topology, prefix, name) for name in names))
        if len(full) > 1 and full not in groups:
            groups.append(full)
    return groups


def find_topics(
    topology: Topology,
    settings: Mapping[str, Any],
    existing: Mapping[str, TopicInfo],
    configs: Mapping[str, Mapping[str, str]],
) -> FoundTopics:
    """Holds the topics of a topology against those of a cluster.

    :param configs: the settings of the topics of the topology, as far as they exist and may be seen.
    """
    policies = {name: config[POLICY] for name, config in configs.items() if POLICY in config}
    counts = {name: info.partitions for name, info in existing.items()}
    topics = application.application_topics(topology, settings, counts)
    problems, remarks = [], []
    missing = [one for one in topics if one.is_external and one.name not in existing]
    for one in missing:
        line = next((line for node in one.by if (line := topology.line_of(node)) is not None), None)
        line = application.DEAD_LETTERS if line is None and application.Use.DEAD_LETTERS in one.uses else line
        problems.append(
            f"{' and '.join(one.uses)} topic {one.name!r} does not exist{'' if line is None else f' ({line})'}"
        )
    if not any(one.is_read for one in missing):
        problems += _count_problems(topology, settings, counts)
    problems += _policy_problems(topology, settings, policies)
    remarks += table_remarks(topology, configs)
    remarks += _unlisted(topology, settings, counts)
    return FoundTopics(
        topics=tuple(topics),
        existing={name: existing[name] for name in (one.name for one in topics) if name in existing},
        policies=policies,
        groups=tuple(copartitioned(topology, settings, counts)),
        problems=tuple(problems),
        remarks=tuple(remarks),
        notes=_notes(topics, existing, restored_from(topology)),
    )


def _notes(
    topics: list[application.ApplicationTopic], existing: Mapping[str, TopicInfo], restored: Mapping[str, str]
) -> dict[str, str]:
    notes = {}
    for one in topics:
        if one.name not in existing:
            notes[one.name] = "missing" if one.is_external else "created at the start"
        elif one.expected is not None and existing[one.name].partitions != one.expected:
            notes[one.name] = f"needs {one.expected} partitions"
        elif one.name in restored:
            notes[one.name] = f"restores {restored[one.name]}"
    return notes


def _count_problems(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """Returns what is wrong with partition counts, when all topics that are read exist."""
    try:
        read = application.readable_topics(topology, settings, counts)
        internal.check_existing_topics(
            internal.internal_topic_counts(topology, settings, read), counts, application.topology_sources(topology)
        )
    except StreamsError as error:
        return [str(error)]
    return []


def _policy_problems(topology: Topology, settings: Mapping[str, Any], policies: Mapping[str, str]) -> list[str]:
    problems = []
    for name, topic in internal.internal_topics(topology, settings).items():
        wanted, policy = topic.configs.get(POLICY), policies.get(name)
        if wanted is None or policy is None or _policy_parts(wanted) == _policy_parts(policy):
            continue
        if "compact" in wanted and "compact" not in policy:
            why = "rows that Kafka deletes there are missing after a restore"
        elif "compact" not in wanted and "compact" in policy:
            why = "records with the key of a later record are lost"
        else:
            continue
        problems.append(f"{topic.role} topic {name!r} has cleanup.policy={policy}, but needs {wanted}: {why}")
    return problems


def _policy_parts(policy: str) -> set[str]:
    return {word.strip() for word in policy.split(",")}


def _unlisted(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """Returns words about topics that are not known before records come."""
    remarks = []
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and node.pattern is not None:
            found = matching_topics(topology, node, application.readable_topics(topology, settings, counts))
            names = ", ".join(found) or "no topic yet"
            remarks.append(f"source {node.name!r} reads all topics that match {repr_of(node.pattern.pattern)}: {names}")
        elif isinstance(node, SinkNode) and node.topic is None and not node.declared_topics:
            remarks.append(f"sink {node.name!r} chooses a topic for each record: its topics are not listed")
    return remarks


# Creates the topics that an application reads and writes and that do not exist.

log = logging.getLogger("streams.cli")

BROKERS_DEFAULT = -1


def create_missing(
    topology: Topology,
    settings: Mapping[str, Any],
    admin: Admin,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
) -> list[NewTopic]:
    """Creates the topics of the user's that a topology names and that do not exist; returns them.

    Topics that must have the same number of partitions get it: that of those that exist, or that the topology fixes.
    A topic that only a table reads is compacted. Nothing that exists is changed.

    :param partitions: of topics whose number nothing else fixes; the brokers' default if not given.
    :raises TopologyError: if topics that must have the same number of partitions have different ones.
    """
    from streams.kafka.ports import NewTopic

    existing = {name: info.partitions for name, info in admin.topics().items()}
    absent = [
        one
        for one in application.application_topics(topology, settings, existing)
        if one.is_external and one.name not in existing
    ]
    counts = _counts(topology, settings, existing, [one.name for one in absent], partitions)
    tables = table_topics(topology)
    new = [
        NewTopic(
            name=one.name,
            partitions=counts[one.name],
            replication_factor=replication_factor or BROKERS_DEFAULT,
            configs=tables[one.name].settings() if one.name in tables else {},
        )
        for one in absent
    ]
    admin.create_topics(new)
    return new


def make_topics(topology: Topology, config: StreamsConfig, clients: KafkaClients | None = None) -> None:
    """Creates the missing topics of an application that is about to start, and logs each.

    :param clients: makes the Kafka clients; librdkafka's if not given.
    :raises ConfigError: if a serde is missing; then nothing is created.
    """
    from streams.cli.cluster.connection import ClusterConnection

    check_serdes(topology, config.default_key_serde, config.default_value_serde)
    with ClusterConnection(config, clients).admin() as admin:
        made = create_missing(topology, config.dotted(), admin)
        names = [topic.name for topic in made]
        existing = admin.topics(names) if made else {}
        configs = admin.topic_settings(names) if made else {}
    for topic in made:
        log.info(made_line(topic, existing), extra={"topic": topic.name})
    for remark in table_remarks(topology, configs):
        log.warning(remark)


def made_line(topic: NewTopic, existing: Mapping[str, TopicInfo]) -> str:
    """Returns a line about a topic that was created."""
    info = existing.get(topic.name)
    count = topic.partitions if info is None else info.partitions
    words = [counted(count, "partition")]
    if topic.partitions == BROKERS_DEFAULT:
        words[0] += " (the brokers' default)"
    words += [f"{name}={value}" for name, value in topic.configs.items()]
    return f"created topic {topic.name} with {', '.join(words)}"


def _counts(
    topology: Topology,
    settings: Mapping[str, Any],
    existing: Mapping[str, int],
    names: list[str],
    partitions: int | None,
) -> dict[str, int]:
    """Returns the number of partitions of each topic to create; groups that share a topic are one."""
    prefix = internal.topic_prefix(settings)
    fixed = {f"{prefix}-{name}": topic.partitions for name, topic in topology.repartition_topics.items()}
    counts = dict.fromkeys(names, BROKERS_DEFAULT if partitions is None else partitions)
    for group in _joined(copartitioned(topology, settings, existing)):
        known = {count for name in group if (count := existing.get(name, fixed.get(name))) is not None}
        if len(known) > 1:
            has = ", ".join(f"{name!r} has {existing[name]}" for name in sorted(group) if name in existing)
            raise TopologyError(
                f"topics that are joined or grouped together need the same number of partitions: {has}. Repartition one"
                " side, or create the topics with the same number"
            )
        counts.update((name, count) for name in group if name in counts for count in known)
    return counts


def _joined(groups: list[tuple[str, ...]]) -> list[set[str]]:
    """Returns groups that have no topic in common, made of those that have."""
    found: list[set[str]] = []
    for group in groups:
        whole, apart = set(group), []
        for other in found:
            if other & whole:
                whole |= other
            else:
                apart.append(other)
        found = [*apart, whole]
    return found


_EXAMPLES = """
examples:
  streams topics app.py
  streams topics app.py --create --partitions 6 --replication-factor 3
  streams topics app.py --json | jq '.topics[] | select(.exists | not)'
"""
_TITLES = ("TOPIC", "USE", "PARTITIONS", "REPLICAS", "CLEANUP", "NOTE")


def add_parser(commands: Any, help_text: str) -> None:
    parser = add_with_examples(
        commands,
        "topics",
        help_text,
        _EXAMPLES,
        "Lists the topics that the topology of APP reads and writes, and its internal topics: whether they exist,"
        " their partitions, and what is missing or wrong. --create creates the missing topics that APP reads and"
        " writes; it never changes or deletes a topic. Exit status: 1 if a topic is missing or wrong, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    parser.add_argument("--create", action="store_true", help="create the missing topics that APP reads and writes")
    add_creation_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run, lambda arguments: not arguments.create))


def add_creation_options(parser: Any) -> None:
    """Adds the options that say how topics are created."""
    parser.add_argument(
        "--partitions",
        type=positive,
        metavar="N",
        help="partitions of created topics (default: that of the topics that they are joined with, otherwise the"
        " brokers' num.partitions)",
    )
    parser.add_argument(
        "--replication-factor",
        type=positive,
        metavar="N",
        help="replicas of created topics (default: the brokers' default.replication.factor)",
    )


def positive(text: str) -> int:
    """Reads a number of an option, at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None) -> int:
    """Prints the topics; returns the exit status.

    :param clients: makes the Kafka clients; librdkafka's if not given.
    """
    if not arguments.create and (arguments.partitions or arguments.replication_factor):
        raise CannotRun("--partitions and --replication-factor need --create")
    target = target_of(arguments)
    target.known_topology()
    made = []
    with ClusterConnection(target.config, clients, read_only=not arguments.create).admin() as admin:
        if arguments.create:
            made = create_missing(
                target.known_topology(),
                target.settings,
                admin,
                partitions=arguments.partitions,
                replication_factor=arguments.replication_factor,
            )
        found = found_topics(target, admin)
    if arguments.json:
        say(json_text({**_as_json(target, found), "created": [one.name for one in made]}))
    else:
        for topic in made:
            say(made_line(topic, found.existing))
        if made:
            say()
        table(_TITLES, [_row(one, found) for one in found.topics])
        for line in _words(target, found):
            say(line)
    return FAILED if found.problems else CLEAN


def found_topics(target: Target, admin: Admin) -> FoundTopics:
    """Asks the cluster for the topics of an application."""
    topology = target.known_topology()
    existing = admin.topics()
    own = application.application_topics(
        topology, target.settings, {name: info.partitions for name, info in existing.items()}
    )
    configs = admin.topic_settings([one.name for one in own if one.name in existing])
    return find_topics(topology, target.settings, existing, configs)


def _words(target: Target, found: FoundTopics) -> list[str]:
    """Returns the lines below the table."""
    lines = []
    if found.groups:
        lines += ["", *(f"same number of partitions: {', '.join(group)}" for group in found.groups)]
    if found.remarks:
        lines += ["", *(f"note: {one}" for one in found.remarks)]
    if found.problems:
        lines += ["", *(f"problem: {one}" for one in found.problems)]
    if found.missing:
        lines.append(f"to create the missing topics: streams topics {target.app} --create")
    return lines


def _row(one: application.ApplicationTopic, found: FoundTopics) -> tuple[str, ...]:
    info = found.existing.get(one.name)
    expected = "" if one.expected is None else str(one.expected)
    replicas = "" if info is None or info.replication_factor is None else str(info.replication_factor)
    return (
        one.name,
        ", ".join(one.uses),
        f"({expected})" if info is None and expected else "-" if info is None else str(info.partitions),
        replicas,
        found.policies.get(one.name, ""),
        found.notes.get(one.name, ""),
    )


def _as_json(target: Target, found: FoundTopics) -> dict[str, Any]:
    topics = []
    for one in found.topics:
        info = found.existing.get(one.name)
        topics.append(
            {
                "name": one.name,
                "uses": list(one.uses),
                "by": list(one.by),
                "external": one.is_external,
                "exists": info is not None,
                "partitions": None if info is None else info.partitions,
                "expected_partitions": one.expected,
                "replication_factor": None if info is None else info.replication_factor,
                "cleanup_policy": found.policies.get(one.name),
            }
        )
    return {
        "application_id": target.config.application_id,
        "topics": topics,
        "copartitioned": [list(group) for group in found.groups],
        "problems": list(found.problems),
        "remarks": list(found.remarks),
    }
