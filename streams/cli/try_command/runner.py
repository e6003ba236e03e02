"""Runs `streams try`: takes records from where they are given, and prints what comes of each."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from processor_api.errors import StreamsError
from processor_api.forms.times import short_iso
from processor_api.topology.warnings import warnings_of
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.failures import described, place_of
from streams.cli.output.terminal import counted_were, say_error
from streams.cli.output.waiting_notice import standard_input
from streams.cli.records.files import items_of_file, merged
from streams.cli.records.generate import made_up
from streams.cli.records.input_lines import Item, LineReader, TimeStep, TypedRowReader
from streams.cli.records.json_lines import BadRecord, GivenRecord
from streams.cli.run.signals import on_stop_signals
from streams.cli.settings_options import given_settings
from streams.cli.topology_function import load_topology
from streams.cli.try_command.output import (
    JsonLines,
    RowKeys,
    chosen_serdes,
    printer_of,
    show_columns,
    show_steps,
    show_tables,
)
from streams.cli.try_command.partitioned import (
    PartitionedRun,
    PlacedRecord,
    Placing,
    hidden_things,
    outputs_of,
    task_rows,
)
from streams.cli.try_command.session import Refused, Session, Topics
from streams.config import StreamsConfig
from streams.serdes.values import as_text
from streams.testing.settings import with_defaults

MOST_BAD = 10
"""Records that do not fit, after which the rest is not read."""
MOST_PARTITIONS = 100
_STANDARD_INPUT = "-"
_LEFT_OUT = ("max.task.idle.ms", "state.dir")
"""Settings without a meaning in a trial: nothing more comes while it waits, and its state is in a temporary folder."""


def run_trial(arguments: argparse.Namespace) -> int:
    """Runs `streams try`; returns the exit status."""
    _check_options(arguments)
    config = _config(arguments)
    topology = load_topology(arguments.topology, lambda: config)
    with (
        on_stop_signals(_interrupt),
        Session(topology, config, start_ms=arguments.start, trace=arguments.trace) as session,
    ):
        for warning in warnings_of(topology):
            _say(f"warning: {warning}")
        topic = _chosen_topic(arguments.topic, session.topics)
        for line in chosen_serdes(session.topology):
            say_error(line)
        kind = _Trial if arguments.partitions is None else _PartitionedTrial
        return kind(arguments, session, topic).run(_items(arguments, session, topic))


def _check_options(arguments: argparse.Namespace) -> None:
    """Checks the options of several partitions."""
    partitions, workers = arguments.partitions, arguments.workers
    if partitions is None and (workers is not None or arguments.crc32):
        raise CannotRun(
            f"{'--crc32' if workers is None else '--workers'} needs --partitions: one partition is one task"
        )
    if partitions is None:
        return
    if partitions > MOST_PARTITIONS:
        raise CannotRun(
            f"--partitions must be at most {MOST_PARTITIONS}, got {partitions}; a few partitions show the same effects"
        )
    if workers is not None and workers > partitions:
        raise CannotRun(
            f"--workers {workers} is more than --partitions {partitions}: a topic has one task per partition, so the"
            " other workers would be idle"
        )
    for option in ("trace", "tables", "advance"):
        if getattr(arguments, option):
            raise CannotRun(f"--{option} works with one partition only: remove --partitions")


def _interrupt(number: signal.Signals) -> None:
    """Ends the command where it is, so that the state of the topology is removed."""
    raise KeyboardInterrupt


def _config(arguments: argparse.Namespace) -> StreamsConfig:
    """Returns the configuration: the settings that are given, without those that mean nothing here."""
    given = given_settings(arguments, derives_id=True).settings
    StreamsConfig.of(with_defaults(given))  # also what is left out must be right
    kept = {name: value for name, value in given.items() if name.replace("_", ".") not in _LEFT_OUT}
    return StreamsConfig.of(with_defaults(kept))


def _chosen_topic(named: str | None, topics: Topics) -> str | None:
    """Returns the topic of records that do not say one."""
    if named is None:
        return topics.only
    if not topics.reads(named):
        raise CannotRun(f"--topic: the topology does not read topic {named!r}; it reads {topics.list_read()}")
    return named


# ---------------------------------------------------------------------- input


def _items(arguments: argparse.Namespace, session: Session, topic: str | None) -> Iterable[Item]:
    topics = session.topics
    rows = TypedRowReader(arguments.values, arguments.key_field, arguments.time_field)
    if not arguments.separator:
        raise CannotRun("--separator must not be empty")
    by_object = rows if rows != TypedRowReader() else None
    lines = LineReader(has_topics=topic is None, separator=arguments.separator, rows=by_object)
    if arguments.generate is not None:
        if arguments.inputs:
            raise CannotRun("--generate does not work with --input: remove one of the two")
        wanted = topics.read if arguments.topic is None else [arguments.topic]
        if not wanted:
            raise CannotRun(f"give --topic: the topology reads {topics.list_read()}, and records need a topic")
        return made_up(arguments.generate, arguments.seed, {name: topics.serdes_read(name) for name in wanted})
    if not arguments.inputs:
        return _standard_input(arguments, session, lines)
    return _files(arguments, session, lines, rows)


def _files(arguments: argparse.Namespace, session: Session, lines: LineReader, rows: TypedRowReader) -> Iterable[Item]:
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
        raise CannotRun(f"--input {given}: the topology does not read topic {topic!r}; it reads {topics.list_read()}")
    return topic, file


def _with_topic(items: Iterable[Item], topic: str) -> Iterator[Item]:
    for item in items:
        yield replace(item, topic=topic) if isinstance(item, GivenRecord) and item.topic is None else item


def _standard_input(arguments: argparse.Namespace, session: Session, lines: LineReader) -> Iterator[Item]:
    """Yields what is typed, or comes through a pipe, while the wall clock runs."""
    for item in lines.items("line", standard_input(lambda: _introduce(arguments, session, lines))):
        session.let_pass()
        yield item


def _introduce(arguments: argparse.Namespace, session: Session, lines: LineReader) -> None:
    topics, then = session.topics, ", a tab, " if lines.separator == "\t" else lines.separator
    if lines.has_topics:
        form = f"TOPIC{then}VALUE; or TOPIC{then}KEY{then}VALUE"
        reads = topics.list_read()
    else:
        form, reads = f"VALUE; or KEY{then}VALUE", arguments.topic or topics.only or topics.list_read()
        if topics.reads(reads):
            key_serde, value_serde = topics.serdes_read(reads)
            reads += f" (key {key_serde.name}, value {value_serde.name})"
    writes = ", ".join(topics.written) or "no topic by name"
    say_error(f"reads {as_text(reads)}; writes {as_text(writes)}")
    say_error(f"Type a record and press Enter: {form}.")
    whole = '{"key": ..., "value": ..., "timestamp": "2025-01-01T12:00:00Z", "headers": {}}'
    say_error(f"A complete record as JSON: {whole}.")
    say_error("@+5m lets five minutes pass. Ctrl-D ends.")


# ---------------------------------------------------------------------- running


class _Trial:
    """One run of a topology, with what it prints."""

    def __init__(self, arguments: argparse.Namespace, session: Session, topic: str | None) -> None:
        self._arguments = arguments
        self._session = session
        self._topic = topic
        self._printer = printer_of(arguments.format, session.topics.written)
        self._traces_to = sys.stderr if isinstance(self._printer, JsonLines) else sys.stdout
        self._bad = 0

    def run(self, items: Iterable[Item]) -> int:
        """Gives the records to the topology; returns the exit status."""
        for item in items:
            if not self._take(item):
                return FAILED
            if self._bad >= MOST_BAD and not _is_typed(self._arguments):
                _say(f"error: {MOST_BAD} records were skipped, so the rest is not read")
                break
        if self._arguments.advance is not None and not self._take(TimeStep("--advance", self._arguments.advance)):
            return FAILED
        if self._arguments.tables:
            session = self._session
            show_tables(self._printer, session.stores, session.topology, session.config)
        sys.stdout.flush()
        self._say_what_is_left()
        return FAILED if self._bad else CLEAN

    def _take(self, item: Item) -> bool:
        """Takes a record or a step of time, and prints what comes of it; returns whether the topology continues."""
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
            _say(f"error: {where}: skipped: {error}")
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
            topology = self._session.topology
            show_steps(self._traces_to, steps, RowKeys(topology, self._session.config), topology.call_of)
        self._printer.show(self._session.outputs())

    def _say_what_is_left(self) -> None:
        """Says what was dropped, and what is held back until stream time advances."""
        session = self._session
        if session.dropped:
            why = dict.fromkeys(f"{drop.text} at {drop.call or drop.node}" for drop in session.drops if drop.dropped)
            more = "" if self._arguments.trace or not why else f": {'; '.join(why)} (--trace shows which)"
            _say(f"{counted_were(session.dropped, 'record')} dropped{more}")
        for drop in session.drops:
            if not drop.dropped and not drop.expected:
                who = f"{drop.call} at {drop.made_at}" if drop.call and drop.made_at else drop.node
                _say(f"{counted_were(drop.count, 'record')} without a result at {who}: {drop.text}; {drop.remedy}")
        waiting = session.held_back
        for held in waiting:
            who = held.node if held.call is None else f"{held.node}, {held.call} at {held.made_at},"
            until = "" if held.next_ms is None else f" until a record of {short_iso(held.next_ms)} or later reaches it"
            _say(f"{who} holds back {held.amount}{until}")
        if waiting:
            _say("Only records advance stream time: give a record of that time, for example in a line after @+5m.")


class _PartitionedTrial:
    """One run of a topology on several partitions, beside one on a single partition, with what differs."""

    def __init__(self, arguments: argparse.Namespace, session: Session, topic: str | None) -> None:
        self._arguments = arguments
        self._session = session
        self._topic = topic
        for name in arguments.crc32:
            if not session.topics.reads(name):
                raise CannotRun(
                    f"--crc32: the topology does not read topic {name!r}; it reads {session.topics.list_read()}"
                )
        self._placing = Placing(arguments.partitions, arguments.crc32)
        self._bad = 0

    def run(self, items: Iterable[Item]) -> int:
        """Reads all records, and runs the topology on them; returns the exit status."""
        records = list(self._records(items))
        try:
            with PartitionedRun(self._session, self._placing, records, self._arguments.workers or 1) as run:
                self._pipe_all(records)  # First, because it ends where a topology with a cycle would not.
                run.run()
                self._show(run)
        except StreamsError as error:
            _say(f"error: {described(error)}{'' if error.__cause__ is None else place_of(error.__cause__)}")
            return FAILED
        return FAILED if self._bad else CLEAN

    def _pipe_all(self, records: Iterable[PlacedRecord]) -> None:
        """Runs the same on one partition."""
        for topic, _, (key, value, timestamp, headers, _) in records:
            self._session.pipe(topic, key, value, timestamp, headers)

    def _records(self, items: Iterable[Item]) -> Iterator[PlacedRecord]:
        for item in items:
            try:
                if isinstance(item, TimeStep):
                    self._session.step(item)  # for records without a timestamp; tasks go by those of records
                else:
                    yield self._placed(item)
            except Refused as error:
                self._bad += 1
                _say(f"error: {item.place}: skipped: {error}")
                if self._bad >= MOST_BAD and not _is_typed(self._arguments):
                    _say(f"error: {MOST_BAD} records were skipped, so the rest is not read")
                    return

    def _placed(self, item: GivenRecord | BadRecord) -> PlacedRecord:
        if isinstance(item, BadRecord):
            raise Refused(item.reason)
        partitions = self._placing.partitions
        if item.partition >= partitions:
            raise Refused(
                f"partition {item.partition} is out of range: --partitions {partitions} allows 0 to {partitions - 1}"
            )
        return self._placing.place(*self._session.in_bytes(item, self._topic), item.partition)

    def _show(self, run: PartitionedRun) -> None:
        printer = printer_of(self._arguments.format, [f"{one}-0" for one in self._session.topics.written])
        printer.show(outputs_of(run, self._session))
        sys.stdout.flush()
        show_columns(sys.stderr if isinstance(printer, JsonLines) else sys.stdout, task_rows(run))
        found = list(hidden_things(run, self._session))
        for text in found:
            _say(f"hidden by one partition: {text}")
        if not found:
            _say("one partition hides nothing of these records")


def _is_typed(arguments: argparse.Namespace) -> bool:
    """Returns whether a person types the records, and sees what is wrong with each."""
    reads = _STANDARD_INPUT in arguments.inputs or not (arguments.inputs or arguments.generate)
    return reads and sys.stdin is not None and sys.stdin.isatty()


def _say(text: str) -> None:
    sys.stdout.flush()
    say_error(text)
    sys.stderr.flush()
