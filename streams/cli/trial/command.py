"""`streams try`: runs a topology on records that are typed, in a file, or made up, without Kafka."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streams.cli.failures import CLEAN, FAILED, CannotRun, described, place_of
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.signals import on_stop_signals
from streams.cli.topology_function import APP_HELP, load_topology

if TYPE_CHECKING:
    from streams.cli.trial.lines import Item, LineReader, RowReader
    from streams.cli.trial.session import Session, Topics
    from streams.config import StreamsConfig

__all__ = ["add_parser", "run"]

MOST_BAD = 10
"""Records that do not fit, after which the rest is not read."""
_STANDARD_INPUT = "-"
_LEFT_OUT = ("max.task.idle.ms", "state.dir")
"""Settings without a meaning in a trial: nothing more comes while it waits, and its state is in a temporary folder."""

_EXAMPLES = """
examples:
  streams try app.py                               type records, one a line, and Ctrl-D at the end
  echo "to be or not to be" | streams try app.py
  streams try app.py --input orders=orders.csv --input customers=customers.jsonl --tables
  streams try app.py --generate 20 --trace

lines:
  VALUE, or KEY<tab>VALUE; where several topics are read TOPIC<tab>VALUE or TOPIC<tab>KEY<tab>VALUE
  {"topic": "orders", "key": "ann", "value": 3, "timestamp": "2025-01-01T12:00:00Z", "headers": {"source": "web"}}
  @+5m     lets five minutes pass; @2025-01-01T12:00:00Z goes to that time

Exit status: 0 at the end of the input, 1 if records do not fit or the topology fails, 2 if it cannot run as asked.
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "try",
        help="run a topology on records that you type, have in a file, or have made up, without Kafka",
        description="Runs the topology of APP in this process, without Kafka, and prints what it writes: as a table on"
        " a terminal, as JSON lines elsewhere. Nothing is kept.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    given = parser.add_argument_group("records", "from standard input unless something else is given")
    given.add_argument(
        "--input",
        dest="inputs",
        metavar="[TOPIC=]FILE",
        action="append",
        default=[],
        help="a file of lines, JSON lines (.jsonl), CSV (.csv) or Parquet (.parquet), or - for standard input; may be"
        " repeated: then records are merged by their timestamps",
    )
    given.add_argument("--generate", type=_positive, metavar="N", help="make up N records for each topic that is read")
    given.add_argument("--seed", type=int, default=0, metavar="N", help="make up others (default: %(default)s)")
    given.add_argument("--topic", metavar="TOPIC", help="the topic of records that do not say one")
    given.add_argument("--separator", default="\t", metavar="TEXT", help="what ends the key of a line (default: a tab)")
    given.add_argument("--values", action="store_true", help="JSON objects and rows are values, never records")
    given.add_argument("--key-field", metavar="NAME", help="the field or column of such a value that is the key")
    given.add_argument("--time-field", metavar="NAME", help="the one that is the timestamp")
    time = parser.add_argument_group("time", "records without a timestamp get that of the wall clock")
    time.add_argument(
        "--start", metavar="TIME", type=_time, help="the wall clock at the start, which then stands still"
    )
    time.add_argument("--advance", metavar="DURATION", type=_duration, help="lets that pass at the end, such as 5m")
    shown = parser.add_argument_group("output")
    shown.add_argument("--format", choices=("text", "json"), help="text on a terminal, json elsewhere if not given")
    shown.add_argument("--trace", action="store_true", help="print the way of each record, node by node")
    shown.add_argument("--tables", action="store_true", help="print the stores at the end")
    add_settings_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from streams.cli.trial.session import Session

    config = _config(arguments)
    topology = load_topology(arguments.topology, lambda: config)
    with (
        on_stop_signals(_interrupt),
        Session(topology, config, start_ms=arguments.start, trace=arguments.trace) as session,
    ):
        topic = _chosen_topic(arguments.topic, session.topics)
        return _Trial(arguments, session, topic).run(_items(arguments, session, topic))


def _interrupt(number: signal.Signals) -> None:
    """Ends the command where it is, so that the state of the topology is removed."""
    raise KeyboardInterrupt


def _config(arguments: argparse.Namespace) -> StreamsConfig:
    """Returns the configuration: the settings that are given, without those that mean nothing here."""
    from streams.config import StreamsConfig
    from streams.testing.settings import with_defaults

    given = given_settings(arguments, derives_id=True).settings
    StreamsConfig.of(with_defaults(given))  # also what is left out has to be right
    kept = {name: value for name, value in given.items() if name.replace("_", ".") not in _LEFT_OUT}
    return StreamsConfig.of(with_defaults(kept))


def _chosen_topic(named: str | None, topics: Topics) -> str | None:
    """Returns the topic of records that do not say one."""
    if named is None:
        return topics.only
    if not topics.reads(named):
        raise CannotRun(f"--topic: the topology reads no topic {named!r}; it reads {topics.list_read()}")
    return named


# ---------------------------------------------------------------------- input


def _items(arguments: argparse.Namespace, session: Session, topic: str | None) -> Iterable[Item]:
    from streams.cli.trial.generate import made_up
    from streams.cli.trial.lines import LineReader, RowReader

    topics = session.topics
    rows = RowReader(arguments.values, arguments.key_field, arguments.time_field)
    if not arguments.separator:
        raise CannotRun("--separator must not be empty")
    by_object = rows if rows != RowReader() else None
    lines = LineReader(has_topics=topic is None, separator=arguments.separator, rows=by_object)
    if arguments.generate is not None:
        if arguments.inputs:
            raise CannotRun("--generate and --input exclude each other: make records up, or read them")
        wanted = topics.read if arguments.topic is None else [arguments.topic]
        if not wanted:
            raise CannotRun(f"give --topic: the topology reads {topics.list_read()}, and records need a topic")
        return made_up(arguments.generate, arguments.seed, {name: topics.serdes_read(name) for name in wanted})
    if not arguments.inputs:
        return _standard_input(arguments, session, lines)
    return _files(arguments, session, lines, rows)


def _files(arguments: argparse.Namespace, session: Session, lines: LineReader, rows: RowReader) -> Iterable[Item]:
    from dataclasses import replace

    from streams.cli.trial.files import items_of_file, merged

    sources: list[Iterable[Item]] = []
    for given in arguments.inputs:
        topic, file = _named_input(given, session.topics)
        reader = lines if topic is None else replace(lines, has_topics=False)
        if file == _STANDARD_INPUT:
            items: Iterable[Item] = _standard_input(arguments, session, reader)
        else:
            items = items_of_file(Path(file), reader, rows)
        sources.append(items if topic is None else _with_topic(items, topic))
    return sources[0] if len(sources) == 1 else merged(sources)


def _named_input(given: str, topics: Topics) -> tuple[str | None, str]:
    """Returns the topic, if one is given, and the file."""
    topic, equals, file = given.partition("=")
    if not equals or (not topics.reads(topic) and Path(given).exists()):
        return None, given
    if not topics.reads(topic):
        raise CannotRun(f"--input {given}: the topology reads no topic {topic!r}; it reads {topics.list_read()}")
    return topic, file


def _with_topic(items: Iterable[Item], topic: str) -> Iterator[Item]:
    from dataclasses import replace

    from streams.cli.trial.lines import GivenRecord

    for item in items:
        yield replace(item, topic=topic) if isinstance(item, GivenRecord) and item.topic is None else item


def _standard_input(arguments: argparse.Namespace, session: Session, lines: LineReader) -> Iterator[Item]:
    """Yields what is typed, or comes through a pipe, while the wall clock goes on."""
    if sys.stdin is None:  # it is closed
        return
    if sys.stdin.isatty():
        _introduce(arguments, session, lines)
    for item in lines.items("line", sys.stdin.buffer):
        session.let_pass()
        yield item


def _introduce(arguments: argparse.Namespace, session: Session, lines: LineReader) -> None:
    from streams.cli.trial.forms import as_text

    topics = session.topics
    key = "KEY, a tab, VALUE" if lines.separator == "\t" else f"KEY{lines.separator}VALUE"
    if lines.has_topics:
        form = "TOPIC, a tab, VALUE; or TOPIC, a tab, KEY, a tab, VALUE"
        reads = topics.list_read()
    else:
        form, reads = f"VALUE; or {key}", arguments.topic or topics.only or topics.list_read()
        if topics.reads(reads):
            key_serde, value_serde = topics.serdes_read(reads)
            reads += f" (key {key_serde.name}, value {value_serde.name})"
    writes = ", ".join(topics.written) or "no topic by name"
    sys.stderr.write(
        f"reads {as_text(reads)}; writes {as_text(writes)}\n"
        f"Type a record and Enter: {form}.\n"
        'A record as JSON has all: {"key": ..., "value": ..., "timestamp": "2025-01-01T12:00:00Z", "headers": {}}.\n'
        "@+5m lets five minutes pass. Ctrl-D ends.\n"
    )
    sys.stderr.flush()


# ---------------------------------------------------------------------- running


class _Trial:
    """One run of a topology, with what it prints."""

    def __init__(self, arguments: argparse.Namespace, session: Session, topic: str | None) -> None:
        from streams.cli.trial.output import JsonLines, printer_of

        self._arguments = arguments
        self._session = session
        self._topic = topic
        self._printer = printer_of(arguments.format, session.topics.written)
        self._traces_to = sys.stderr if isinstance(self._printer, JsonLines) else sys.stdout
        self._bad = 0

    def run(self, items: Iterable[Item]) -> int:
        """Gives the records to the topology; returns the exit status."""
        from streams.cli.trial.lines import TimeStep

        for item in items:
            if not self._take(item):
                return FAILED
            if self._bad >= MOST_BAD:
                _say(f"error: {MOST_BAD} records were left out, so the rest is not read")
                break
        if self._arguments.advance is not None and not self._take(TimeStep("--advance", self._arguments.advance)):
            return FAILED
        if self._arguments.tables:
            from streams.cli.trial.tables import show_tables

            show_tables(self._printer, self._session.stores)
        sys.stdout.flush()
        self._say_what_is_left()
        return FAILED if self._bad else CLEAN

    def _take(self, item: Item) -> bool:
        """Takes a record or a step of time, and prints what comes of it; returns whether the topology goes on."""
        from processor_api.errors import StreamsError
        from streams.cli.trial.lines import BadRecord, TimeStep
        from streams.cli.trial.session import Refused

        failure: StreamsError | None = None
        try:
            if isinstance(item, BadRecord):
                raise Refused(item.reason)
            if isinstance(item, TimeStep):
                self._session.step(item)
            else:
                self._session.give(item, self._topic)
        except Refused as error:
            self._bad += 1
            topic = getattr(item, "topic", None) or self._topic
            where = f"{item.place}, topic {topic}" if topic else item.place
            _say(f"error: {where}: left out: {error}")
            return True
        except StreamsError as error:
            failure = error
        self._show()
        if failure is not None:
            place = "" if failure.__cause__ is None else place_of(failure.__cause__)
            _say(f"error: {item.place}: {described(failure)}{place}")
        return failure is None

    def _show(self) -> None:
        steps = self._session.take_trace()
        if steps:
            from streams.cli.trial.steps import RowKeys, show_steps

            show_steps(self._traces_to, steps, RowKeys(self._session.topology, self._session.config))
        self._printer.show(self._session.outputs())

    def _say_what_is_left(self) -> None:
        """Says what was dropped, and what is held back until stream time goes on."""
        from streams.cli.trial.held_back import held_back
        from streams.cli.trial.times import iso

        session = self._session
        if session.dropped:
            why = "" if self._arguments.trace else ", such as those without a key: --trace shows where and why"
            _say(f"{_count(session.dropped, 'record')} dropped{why}")
        waiting = held_back(session.topology, session.stores)
        for held in waiting:
            due = str(iso(held.due_ms)).replace(".000Z", "Z")
            _say(f"{held.node} holds back {held.what} until a record of {due} or later reaches it")
        if waiting:
            _say("Stream time moves only with records: give one of that time, in a line behind @+5m for instance.")


def _say(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _count(number: int, noun: str) -> str:
    return f"1 {noun} was" if number == 1 else f"{number} {noun}s were"


# ---------------------------------------------------------------------- options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _duration(text: str) -> int:
    from streams.cli.trial.times import duration_ms

    try:
        return duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _time(text: str) -> int:
    from streams.cli.trial.times import time_ms

    try:
        return time_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
