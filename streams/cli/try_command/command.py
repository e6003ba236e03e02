"""`streams try`: runs a topology on records that are typed, in a file, or made up, without Kafka."""

from __future__ import annotations

import argparse
from typing import Any

from streams.cli.changes_nothing import changes_nothing
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP

_EXAMPLES = """
examples:
  streams try app.py                               type records, one a line, and Ctrl-D at the end
  echo "to be or not to be" | streams try app.py
  streams try app.py --input orders=orders.csv --input customers=customers.jsonl --tables
  streams try app.py --generate 20 --trace
  streams try app.py --input orders.jsonl --input customers.jsonl --partitions 4 --workers 2

lines:
  VALUE, or KEY<tab>VALUE; where several topics are read TOPIC<tab>VALUE or TOPIC<tab>KEY<tab>VALUE
  {"topic": "orders", "key": "ann", "value": 3, "timestamp": "2025-01-01T12:00:00Z", "headers": {"source": "web"}}
  @+5m     lets five minutes pass; @2025-01-01T12:00:00Z moves the clock to that time

Exit status: 0 at the end of the input, 1 if records do not fit or the topology fails, 2 if the arguments are wrong.
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "try",
        help="run a topology without Kafka, on records that you type, read from files, or generate",
        description="Runs the topology of APP in this process, without Kafka, and prints its output: as a table on a"
        " terminal, otherwise as JSON lines. It saves nothing.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    given = parser.add_argument_group("records", "by default from standard input")
    given.add_argument(
        "--input",
        dest="inputs",
        metavar="[TOPIC=]FILE",
        action="append",
        default=[],
        help="a file of lines, JSON lines (.jsonl), CSV (.csv) or Parquet (.parquet), or - for standard input;"
        " repeatable: records are merged by their timestamps",
    )
    given.add_argument("--generate", type=_positive, metavar="N", help="generate N records for each topic that is read")
    given.add_argument(
        "--seed", type=int, default=0, metavar="N", help="random seed for --generate (default: %(default)s)"
    )
    given.add_argument("--topic", metavar="TOPIC", help="topic of records without one")
    given.add_argument(
        "--separator",
        default="\t",
        metavar="TEXT",
        help="separator between the key and the value of a line (default: a tab)",
    )
    given.add_argument("--values", action="store_true", help="treat JSON objects and rows as values, never as records")
    given.add_argument("--key-field", metavar="NAME", help="field or column with the key")
    given.add_argument("--time-field", metavar="NAME", help="field or column with the timestamp")
    time = parser.add_argument_group("time", "records without a timestamp get the time of the wall clock")
    time.add_argument("--start", metavar="TIME", type=_time, help="start time of the wall clock, which then stops")
    time.add_argument("--advance", metavar="DURATION", type=_duration, help="let this time pass at the end, such as 5m")
    spread = parser.add_argument_group("partitions", "reports at the end what a single partition hides")
    spread.add_argument("--partitions", type=_positive, metavar="N", help="number of partitions of each topic")
    spread.add_argument("--workers", type=_positive, metavar="N", help="distribute the tasks among N workers")
    spread.add_argument(
        "--crc32",
        metavar="TOPIC",
        action="append",
        default=[],
        help="partition keys of TOPIC by CRC32, as librdkafka does by default; repeatable",
    )
    shown = parser.add_argument_group("output")
    shown.add_argument("--format", choices=("text", "json"), help="default: text on a terminal, otherwise json")
    shown.add_argument("--trace", action="store_true", help="print the path of each record, node by node")
    shown.add_argument("--tables", action="store_true", help="print the stores at the end")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run, needs_registry=False))


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from streams.cli.try_command.runner import run_trial

    return run_trial(arguments)


# ---------------------------------------------------------------------- options


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _duration(text: str) -> int:
    from processor_api.forms.times import duration_ms

    try:
        return duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _time(text: str) -> int:
    from processor_api.forms.times import time_ms

    try:
        return time_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
