"""`streams dlq replay`: sends dead letters back to where they came from, each once (semantics 178, 179)."""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

from streams.cli.changes_nothing import changes_nothing, dry_run
from streams.cli.command_parser import add_with_examples
from streams.cli.dlq.options import add_letter_options, dead_letters_of, filter_of
from streams.cli.output.causes import CLEAN, FAILED
from streams.cli.output.terminal import counted, counted_were, say

if TYPE_CHECKING:
    from processor_api.clock import Clock
    from streams.dead_letters import ReplayReport
    from streams.kafka.ports import KafkaClients

_EXAMPLES = """
examples:
  streams dlq replay app.py --dry-run
  streams dlq replay app.py --error KeyError --rate 100
  streams dlq replay app.py --partition 0 --offset 17
"""


def add_parser(commands: Any) -> None:
    parser = add_with_examples(
        commands,
        "replay",
        "send dead letters back to their source topics",
        _EXAMPLES,
        "Sends dead letters back to the topic and partition that they came from, with their key, value, headers and"
        " timestamp. The same transaction stores what was sent in the group <application.id>~dlq-replay, so the"
        " command never sends a letter twice. It ends at the end of the dead letters when it started. Exit status: 1"
        " if a matching dead letter cannot be sent, otherwise 0.",
    )
    add_letter_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent, and send nothing")
    parser.add_argument("--rate", metavar="N", type=_rate, default=math.inf, help="send at most N records per second")
    parser.add_argument(
        "--max-replays",
        metavar="N",
        type=_count,
        default=3,
        help="skip records that have failed again after this many replays (default: %(default)s)",
    )
    parser.add_argument(
        "--first",
        action="store_true",
        help="state that nothing was replayed before: also send letters that are so old that the brokers could have"
        " deleted the record of it",
    )
    parser.set_defaults(command=changes_nothing(run, dry_run))


def _rate(text: str) -> float:
    number = float(text.removesuffix("/s"))
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return number


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None, clock: Clock | None = None) -> int:
    """Sends the letters; returns the exit status."""
    wanted, most, first = filter_of(arguments), arguments.max_replays, arguments.first
    told: list[ReplayReport] = []
    with dead_letters_of(arguments, clients, clock) as (_, queue):
        if arguments.dry_run:
            plan = queue.plan_replay(wanted, max_replays=most, first=first)
            _say(plan, "would be sent", most)
            return FAILED if plan.left else CLEAN

        def keep_last(report: ReplayReport) -> None:
            told[:] = [report]

        try:
            done = queue.replay(wanted, max_replays=most, rate=arguments.rate, first=first, progress=keep_last)
        finally:
            for report in told:
                _say(report, "sent", most)
            sys.stdout.flush()
    return FAILED if done.left else CLEAN


def _say(report: ReplayReport, verb: str, max_replays: int) -> None:
    from streams.dead_letters.replay import failed_again

    topics = ", ".join(f"{count} to {topic}" for topic, count in sorted(report.topics.items()))
    say(f"{counted(report.count, 'dead letter')} {verb}{': ' if topics else ''}{topics}")
    for reason, count in sorted(report.left.items()):
        option = " (--max-replays)" if reason == failed_again(max_replays) else ""
        say(f"{counted_were(count, 'dead letter')} not sent: {reason}{option}")
