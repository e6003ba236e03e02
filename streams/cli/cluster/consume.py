"""`streams consume`: prints the records of a topic, with the serdes of a topology."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.forms.json_values import as_json
from processor_api.forms.times import iso
from processor_api.record import Headers
from processor_api.task_id import TopicPartition
from processor_api.texts import shown
from processor_api.timestamps import ConsumedRecord
from streams.cli.changes_nothing import changes_nothing
from streams.cli.cluster.connection import ClusterConnection, Target, lines_said
from streams.cli.cluster.positions import start_of, start_offsets
from streams.cli.cluster.produce import add_serde_options, add_topic_arguments, format_and_target
from streams.cli.cluster.topic_formats import TopicFormat
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import GAP, say, say_error
from streams.cli.records.json_lines import headers_as_json, record_line, writable
from streams.cli.settings_options import add_settings_options
from streams.kafka.cluster_clients import partitions_of
from streams.kafka.partition_reading import PartitionReading
from streams.kafka.producing.zero_timestamps import as_written
from streams.kafka.topics.left_behind import CHANGELOG
from streams.serdes.values import as_text

if TYPE_CHECKING:
    from streams.kafka.ports import KafkaClients

_EXAMPLES = """
examples:
  streams consume app.py counts
  streams consume app.py counts --from=-5 --follow
  streams consume app.py counts --where key=ann --where value.amount=3
  streams consume app.py counts-store --format json | jq .value
  streams consume --topic lines --value-serde string --bootstrap-servers localhost:9092

TOPIC is a topic that the topology reads or writes, an internal one of the application, or the name of a store for its
changelog.
"""


def add_parser(commands: Any, help_text: str) -> None:
    parser = add_with_examples(
        commands,
        "consume",
        help_text,
        _EXAMPLES,
        "Prints the records of TOPIC, read by the serdes that the topology of APP has for it: aligned text on a"
        " terminal, otherwise one JSON object per line. It joins no group and commits nothing, so it does not disturb"
        " the application. A record that cannot be read prints one line on standard error. Exit status: 1 if a record"
        " could not be read, otherwise 0.",
    )
    add_topic_arguments(parser)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        default="beginning",
        help="beginning, end, an offset, -N for the last N offsets of each partition, or an ISO 8601 time"
        " (default: %(default)s)",
    )
    parser.add_argument("--follow", action="store_true", help="print new records as they arrive, until Ctrl-C")
    parser.add_argument(
        "--where",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="only records with key=..., value=..., value.NAME=... or headers.NAME=...; repeatable, a record must"
        " match all",
    )
    parser.add_argument("--limit", metavar="N", type=_limit, help="end after N records")
    parser.add_argument("--partition", metavar="N", type=int, help="only this partition")
    parser.add_argument(
        "--uncommitted", action="store_true", help="also print records of open and of aborted transactions"
    )
    parser.add_argument("--format", choices=("text", "json"), help="text, or one JSON object per line")
    add_serde_options(parser)
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def _limit(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None) -> int:
    """Prints the records; returns the exit status."""
    start, conditions = start_of(arguments.start), [_condition(text) for text in arguments.where]
    target, form = format_and_target(arguments)
    connection = ClusterConnection(target.config, clients, read_only=True)
    with connection.admin() as admin:
        existing = admin.topics([form.topic])
    partitions = partitions_of([form.topic], existing)
    if not partitions:
        raise CannotRun(f"topic {form.topic!r} does not exist{_creation_hint(target, form.topic)}")
    if arguments.partition is not None:
        only = TopicPartition(form.topic, arguments.partition)
        if only not in partitions:
            raise CannotRun(
                f"--partition {only.partition}: topic {form.topic!r} has partitions 0 to {len(partitions) - 1}"
            )
        partitions = [only]
    as_lines = (arguments.format or ("text" if sys.stdout.isatty() else "json")) == "json"
    output = _ConsumedOutput(form, conditions, _json_line if as_lines else _TextLines())
    with ExitStack() as stack:
        consumer = stack.enter_context(connection.consumer(committed=not arguments.uncommitted))
        ends = consumer.end_offsets(partitions)
        starts = start_offsets(start, consumer, partitions, ends)
        reading = PartitionReading(consumer, starts, None if arguments.follow else ends)
        if arguments.limit != 0:
            if arguments.follow:
                stack.enter_context(lines_said("streams.kafka.client"))
            try:
                for messages in reading.batches():
                    if not output.write(messages, arguments.limit):
                        break
            except KeyboardInterrupt:
                if not arguments.follow:
                    raise
    if not output.found and not arguments.follow and arguments.limit != 0 and sys.stdout.isatty():
        what = "no such record" if conditions else "no record"
        say_error(
            f"topic {form.topic!r} has {what} there now; results are written at a commit, and --follow waits for them"
        )
    return FAILED if output.unreadable else CLEAN


def _creation_hint(target: Target, topic: str) -> str:
    """Returns how a topic that does not exist comes to be."""
    if target.app is None:
        return ""
    if topic.startswith(f"{target.config.application_id}-"):
        return f": the application creates it when it starts, streams run {target.app}"
    return f": streams topics {target.app} --create creates it"


# ------------------------------------------------------------------ conditions


@dataclass(frozen=True)
class _Condition:
    """A demand of ``--where``: a field, and what it must be."""

    path: tuple[str, ...]
    text: str

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Returns whether a record has the value in the field."""
        found: Any = fields
        for name in self.path:
            if not isinstance(found, dict) or name not in found:
                return False
            found = found[name]
        if self.path == ("key",) and isinstance(found, dict) and found.keys() == {"key", "start", "end"}:
            found = found["key"]  # of a key in a window
        if isinstance(found, str):
            return found == self.text
        try:
            return bool(found == json.loads(self.text)) and type(found) is type(json.loads(self.text))
        except ValueError:
            return False


def _condition(text: str) -> _Condition:
    field, equals, value = text.partition("=")
    path = tuple(field.split("."))
    if not equals or path[0] not in ("key", "value", "headers") or not all(path):
        raise CannotRun(f"--where {text!r}: give key=..., value=..., value.NAME=... or headers.NAME=...")
    return _Condition(path, value)


# ------------------------------------------------------------------ printing


class _ConsumedOutput:
    """Prints records, and the places of those that cannot be read."""

    def __init__(self, form: TopicFormat, conditions: list[_Condition], line: Callable[[ConsumedRecord], str]) -> None:
        self._form, self._conditions, self._line = form, conditions, line
        self._printed = 0
        self.unreadable = 0

    @property
    def found(self) -> bool:
        """Whether there was any record, of which all that can be read are printed."""
        return bool(self._printed or self.unreadable)

    def write(self, messages: list[Any], limit: int | None) -> bool:
        """Prints records; returns whether more may follow."""
        for message in messages:
            row = self._read(message)
            if row is None:
                continue
            say(self._line(row))
            self._printed += 1
            if limit is not None and self._printed >= limit:
                sys.stdout.flush()
                return False
        sys.stdout.flush()
        return True

    def _read(self, message: Any) -> ConsumedRecord | None:
        self._form.headers.now = Headers(message.headers() or ())
        key, is_key = self._part(message, "key", message.key(), self._form.read_key)
        value, is_value = self._part(message, "value", message.value(), self._form.read_value)
        if not (is_key and is_value):
            self.unreadable += 1
            return None
        times, headers = [message.timestamp()[1]], [message.headers()]
        if message.topic().endswith(CHANGELOG):
            times, headers = as_written(times, headers)
        if self._conditions:
            named = dict(headers_as_json(headers[0] or []))
            if not all(one.holds({"key": key, "value": value, "headers": named}) for one in self._conditions):
                return None
        place = (message.topic(), message.partition(), message.offset())
        return ConsumedRecord(*place, times[0], key, value, headers[0])

    def _part(self, message: Any, part: str, data: bytes | None, read: Callable[[bytes], Any]) -> tuple[Any, bool]:
        if data is None:
            return None, True
        try:
            return read(data), True
        except Exception as error:
            place = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
            why = shown(f"{type(error).__name__}: {' '.join(str(error).split())}", 300)
            sys.stdout.flush()
            say_error(f"cannot be read: the {part} of {place}: {why}; the bytes: {shown(as_text(as_json(data)), 200)}")
            return None, False


def _json_line(row: ConsumedRecord) -> str:
    line = record_line(row.topic, row.key, row.value, row.timestamp, row.headers, (row.partition, row.offset))
    return writable(sys.stdout, line)


class _TextLines:
    """Lines of text in columns, which grow to the widest cell so far."""

    def __init__(self) -> None:
        self._widths = [0, 0, 0]

    def __call__(self, row: ConsumedRecord) -> str:
        cells = [f"{row.partition}@{row.offset}", str(iso(row.timestamp)), as_text(row.key)]
        self._widths = [max(width, min(len(cell), 60)) for width, cell in zip(self._widths, cells, strict=True)]
        padded = [cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)]
        line = GAP.join([*padded, as_text(row.value)])
        return f"{line}{GAP}{as_text(headers_as_json(row.headers))}" if row.headers else line
