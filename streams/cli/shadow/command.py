"""`streams shadow`: a new version beside the one in production, in memory or live."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from streams.cli.changes_nothing import changes_nothing
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CannotRun
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP

if TYPE_CHECKING:
    from streams.kafka.ports import KafkaClients

MOST_RECORDS = 1_000_000
_EXAMPLES = """
examples:
  streams shadow new.py --against app.py
  streams shadow new.py --against app.py --for 10m --json
  streams shadow new.py --against app.py --id shop-green
  streams shadow new.py --against app.py --id shop-green --promote
"""


def add_parser(commands: Any) -> None:
    parser = add_with_examples(
        commands,
        "shadow",
        "compare a new version with the one in production, and replace it",
        _EXAMPLES,
        "Reads the state of the application APP, and the input that arrives for a time, into memory. Then it runs APP"
        " and NEW on the same state and records, and prints the rows of tables and results that differ. It writes"
        " nothing to the cluster, and APP can run. It calls the functions of both versions, with all their effects"
        " outside of Kafka. With --id it handles a live shadow: NEW as its own application, with the setting"
        " shadow.of. Exit status: 1 if there are differences, a version fails, or the command is rejected, otherwise"
        " 0.",
    )
    parser.add_argument("new", metavar="NEW", help=f"the new version: {APP_HELP}")
    parser.add_argument("--against", dest="topology", metavar="APP", required=True, help="the version in production")
    parser.add_argument(
        "--for",
        dest="duration",
        metavar="DURATION",
        default="1m",
        help="how long to gather records, such as 10m; 0s for the records that APP has not read (default: %(default)s)",
    )
    live = parser.add_argument_group("a live shadow")
    live.add_argument(
        "--id",
        metavar="ID",
        help="application id of a live shadow of APP; compares its tables with those of APP. With it, --for is how"
        " long to wait until both are at the same offsets",
    )
    what = live.add_mutually_exclusive_group()
    what.add_argument(
        "--promote", action="store_true", help="move its state and offsets to APP; stop all workers first"
    )
    what.add_argument("--delete-topics", action="store_true", help="delete its shadow topics")
    live.add_argument(
        "--dry-run", action="store_true", help="print what --promote or --delete-topics would do, and change nothing"
    )
    parser.add_argument(
        "--limit", metavar="N", type=int, default=20, help="print N differences of each table and topic (default: 20)"
    )
    parser.add_argument(
        "--most-records",
        metavar="N",
        type=int,
        default=MOST_RECORDS,
        help="most records to read into memory (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run, _compares))


def _compares(arguments: argparse.Namespace) -> bool:
    """Returns whether a comparison is wanted, or a look at what a promotion would do."""
    return arguments.dry_run or not (arguments.promote or arguments.delete_topics)


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None, clock: Clock | None = None) -> int:
    """Does what the options ask for; returns the exit status."""
    from processor_api.forms.times import duration_ms
    from streams.cli.shadow import in_memory, live

    clock = clock or SystemClock()
    try:
        wait_s = duration_ms(arguments.duration) / 1000
    except ValueError as error:
        raise CannotRun(f"--for {error}") from None
    if arguments.id is not None:
        return live.run(arguments, wait_s, clients, clock)
    if arguments.promote or arguments.delete_topics or arguments.dry_run:
        raise CannotRun("--promote, --delete-topics and --dry-run need a live shadow: give its id by --id")
    return in_memory.run(arguments, wait_s, clients, clock)
