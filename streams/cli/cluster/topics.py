"""`streams topics`: the topics of an application, and those of them that are missing or wrong."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from streams.cli.cluster.connection import Connection, Target, target_of
from streams.cli.cluster.create_topics import create_missing, made_line
from streams.cli.cluster.topology_topics import FoundTopics, find_topics
from streams.cli.command_parser import add_with_examples
from streams.cli.output.failures import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import json_text, say, table
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.kafka.topics.application import ApplicationTopic, application_topics

if TYPE_CHECKING:
    from streams.kafka.ports import Admin, KafkaClients

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
        "Lists the topics that the topology of APP reads and writes, and those that the application makes"
        " for itself: which exist, with how many partitions, and what is missing or wrong. --create makes the missing"
        " ones; it never changes or deletes one. Exit status: 1 if a topic is missing or wrong, else 0.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    parser.add_argument("--create", action="store_true", help="create the missing topics that APP reads and writes")
    add_creation_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings_options(parser)
    parser.set_defaults(command=run)


def add_creation_options(parser: Any) -> None:
    """Adds the options that say how topics are created."""
    parser.add_argument(
        "--partitions",
        type=positive,
        metavar="N",
        help="partitions of created topics (default: as many as the topics that they are joined with, else the"
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
        raise argparse.ArgumentTypeError(f"must be a number from 1, got {text}")
    return number


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None) -> int:
    """Prints the topics; returns the exit status.

    :param clients: makes the Kafka clients; librdkafka's if not given.
    """
    if not arguments.create and (arguments.partitions or arguments.replication_factor):
        raise CannotRun("--partitions and --replication-factor say how --create makes topics: give that too")
    target = target_of(arguments)
    target.known_topology()
    made = []
    with Connection(target.config, clients).admin() as admin:
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
    own = application_topics(topology, target.settings, {name: info.partitions for name, info in existing.items()})
    configs = admin.topic_settings([one.name for one in own if one.name in existing])
    policies = {name: settings["cleanup.policy"] for name, settings in configs.items() if "cleanup.policy" in settings}
    return find_topics(topology, target.settings, existing, policies)


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
        lines.append(f"create what is missing: streams topics {target.app} --create")
    return lines


def _row(one: ApplicationTopic, found: FoundTopics) -> tuple[str, ...]:
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
