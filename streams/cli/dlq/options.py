"""The options that say which dead letters a command is about."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from processor_api.errors import MissingTopicError
from processor_api.forms.times import time_ms
from streams.cli.cluster.connection import ClusterConnection, Target, lines_said, target_of
from streams.cli.output.causes import CannotRun
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.kafka.topics.application import DEAD_LETTERS, dead_letter_topic

if TYPE_CHECKING:  # pydantic is not needed to print the help
    from processor_api.clock import Clock
    from streams.dead_letters import DeadLetterQueue, LetterFilter
    from streams.kafka.ports import KafkaClients


def add_letter_options(parser: argparse.ArgumentParser) -> None:
    """Adds APP and the options that say which letters a command is about."""
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    group = parser.add_argument_group("filters", "a dead letter must match all of these")
    group.add_argument("--topic", metavar="TOPIC", help="dead letters from this topic")
    group.add_argument(
        "--error", metavar="TEXT", help="dead letters with this class of error, or with this in the text of the error"
    )
    group.add_argument("--node", metavar="NODE", help="dead letters of this node of the topology")
    group.add_argument("--since", metavar="TIME", help="dead letters at or after this time, ISO 8601 or ms since 1970")
    group.add_argument("--until", metavar="TIME", help="dead letters before this time")
    group.add_argument(
        "--partition", metavar="N", type=int, help="dead letters in this partition of the dead-letter topic"
    )
    group.add_argument("--offset", metavar="N", type=int, help="the dead letter at this offset; needs --partition")
    add_queue_options(parser)


def add_queue_options(parser: argparse.ArgumentParser) -> None:
    """Adds the option that names the topic of dead letters, and those of settings."""
    parser.add_argument("--queue", metavar="TOPIC", help=f"the dead-letter topic (default: {DEAD_LETTERS})")
    add_settings_options(parser)


def filter_of(arguments: argparse.Namespace) -> LetterFilter:
    """Returns which letters the options of :func:`add_letter_options` ask for.

    :raises CannotRun: if a time is none, or an offset has no partition.
    """
    from streams.dead_letters import LetterFilter

    if arguments.offset is not None and arguments.partition is None:
        raise CannotRun("--offset needs --partition: each partition has a record at that offset")
    return LetterFilter(
        topic=arguments.topic,
        error=arguments.error,
        node=arguments.node,
        since=_time("--since", arguments.since),
        until=_time("--until", arguments.until),
        partition=arguments.partition,
        offset=arguments.offset,
    )


def _time(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else time_ms(text)
    except ValueError as error:
        raise CannotRun(f"{option}: {error}") from None


@contextmanager
def dead_letters_of(
    arguments: argparse.Namespace, clients: KafkaClients | None, clock: Clock | None = None
) -> Iterator[tuple[Target, DeadLetterQueue]]:
    """Opens the dead letters of the application of a command; a context manager.

    :raises CannotRun: if no topic of them is named, or it does not exist.
    """
    from streams.dead_letters import DeadLetterQueue

    target = target_of(arguments)
    topic = arguments.queue or dead_letter_topic(target.settings)
    if topic is None:
        raise CannotRun(f"the settings of {target.app} do not have {DEAD_LETTERS}: give the topic by --queue")
    found = ClusterConnection(target.config, clients).clients
    queue = DeadLetterQueue(target.known_topology(), target.config, topic=topic, clients=found, clock=clock)
    with lines_said("streams.dlq"):
        try:
            yield target, queue
        except MissingTopicError as error:
            if error.topic != topic:
                raise
            raise CannotRun(
                f"topic {topic!r} does not exist: streams topics {target.app} --create creates it"
            ) from None
