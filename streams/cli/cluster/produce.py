"""`streams produce`: writes records to a topic, with the serdes of a topology."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from processor_api.clock import SystemClock
from processor_api.errors import StreamsError
from processor_api.forms.times import time_ms
from processor_api.record import HeaderList, Headers
from processor_api.serde import Serde
from processor_api.texts import shown
from streams.cli.cluster.connection import ClusterConnection, Target, target_of
from streams.cli.cluster.topic_formats import TopicFormat, format_of
from streams.cli.command_parser import CommandParser, add_with_examples
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.failures import described
from streams.cli.output.terminal import counted, counted_were, say, say_error
from streams.cli.output.waiting_notice import WaitingNotice, standard_input
from streams.cli.records.files import items_of_file
from streams.cli.records.input_lines import Item, LineReader, TimeStep, TypedRowReader
from streams.cli.records.json_lines import BadRecord, GivenRecord, header_of_text, json_object, record_of, text_lines
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.serdes.values import DoesNotFit, Fitted, fitted

if TYPE_CHECKING:
    from streams.kafka.ports import KafkaClients, Producer

ROOM_S = 0.1
AWAY = "_MSG_TIMED_OUT"
"""The client's name of the failure of a record that no broker took in time."""
_EXAMPLES = """
examples:
  streams produce app.py orders --key ann --value '{"item": "tea", "amount": 2}'
  streams produce app.py orders '{"key": "ann", "value": {"item": "tea", "amount": 2}}'
  streams produce app.py orders --file orders.jsonl
  streams consume app.py orders | streams produce app.py orders-copy
  streams produce --topic lines --value-serde string --value hello --bootstrap-servers localhost:9092

a line is VALUE, KEY<tab>VALUE, or a JSON object with all parts of a record:
{"key": ..., "value": ..., "timestamp": "2026-01-31T12:00:00Z", "headers": {"name": "text"}}.
Only value is needed; null deletes. timestamp is ISO 8601 or ms since 1970. Bytes are text, or {"base64": "..."}.
"""


def add_parser(commands: Any, help_text: str) -> None:
    parser = add_with_examples(
        commands,
        "produce",
        help_text,
        _EXAMPLES,
        "Writes records to TOPIC with the serdes that the topology of APP has for it, to the partitions that the"
        " application would choose. Records are arguments, or the lines of --file or of standard input. It ends when"
        " every record is delivered. Exit status: 1 if a record could not be delivered or read, otherwise 0.",
    )
    add_topic_arguments(parser)
    parser.add_argument("records", metavar="RECORD", nargs="*", help="a record as a JSON object")
    parser.add_argument(
        "--file", metavar="FILE", type=Path, help="a file of records: JSON or text lines, .csv or .parquet"
    )
    parser.add_argument("--key", metavar="KEY", help="the key of one record; with --value, instead of an object")
    parser.add_argument("--value", metavar="VALUE", help="the value of one record; text as it is, otherwise JSON")
    parser.add_argument(
        "--timestamp", metavar="TIME", help="timestamp of the record, ISO 8601 or ms since 1970 (default: now)"
    )
    parser.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="header of the record; repeatable"
    )
    parser.add_argument("--partition", metavar="N", type=int, help="write all records to this partition")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help="seconds to try to deliver a record (default: 30, or producer.delivery.timeout.ms)",
    )
    add_serde_options(parser)
    add_settings_options(parser)
    parser.set_defaults(command=run)


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number <= 1_000_000:  # also not a number
        raise argparse.ArgumentTypeError(f"must be more than 0 and at most 1000000, got {text}")
    return number


def add_topic_arguments(parser: CommandParser) -> None:
    """Adds APP and TOPIC, or ``--topic`` without an application."""
    parser.intermixed = True
    parser.add_argument("topology", metavar="APP", nargs="?", help=APP_HELP)
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="a topic of the application, or a store")
    parser.add_argument("--topic", dest="other_topic", metavar="TOPIC", help="any topic, without an application")


def add_serde_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name serdes."""
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-serde",
            metavar="SERDE",
            help=f"serde of {part}s: string, long, json, or the import path of a serde (default: the topology's)",
        )


def format_and_target(arguments: argparse.Namespace) -> tuple[Target, TopicFormat]:
    """Returns the application of a command, and the format of the topic that was named.

    :raises CannotRun: if no topic was named, or two.
    """
    if arguments.other_topic is not None and arguments.topology is not None:
        raise CannotRun(f"--topic {arguments.other_topic} works only without an application: remove one of the two")
    topic = arguments.other_topic or arguments.topic
    if topic is None and arguments.topology is not None:
        raise CannotRun(
            f"specify a topic too; `streams topics {arguments.topology}` lists the topics of the application"
        )
    if topic is None:
        raise CannotRun("specify the application and a topic, such as app.py orders, or only a topic by --topic")
    target = target_of(arguments)
    return target, format_of(target, topic, arguments.key_serde, arguments.value_serde)


class _Encoded(NamedTuple):
    """A record as it is written."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: HeaderList
    partitions: Collection[int] | None
    """The partitions that the application's own partitioner chose; ``None`` for Kafka's default."""


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None) -> int:
    """Writes the records; returns the exit status."""
    _check_one_source(arguments)
    target, form = format_and_target(arguments)
    if form.key_serde is None or form.value_serde is None:
        raise CannotRun(
            f"topic {form.topic!r} is an internal topic of the application: other records there corrupt its state."
            " Write to an input topic"
        )
    connection = ClusterConnection(target.config, clients)
    with connection.admin() as admin:
        info = admin.topics([form.topic]).get(form.topic)
    if info is None:
        hint = f": streams topics {target.app} --create creates it" if target.app is not None else ""
        raise CannotRun(f"topic {form.topic!r} does not exist{hint}")
    if arguments.partition is not None and not 0 <= arguments.partition < info.partitions:
        raise CannotRun(
            f"--partition {arguments.partition}: topic {form.topic!r} has partitions 0 to {info.partitions - 1}"
        )
    encode = _Encoder(form, info.partitions, arguments.partition)
    if arguments.file is not None or arguments.records or arguments.value is not None:
        for _ in encode.all(_placed(arguments)):  # all of them can be written, or nothing is
            pass
    timeout_ms = connection.delivery_timeout_ms(arguments.timeout)
    with connection.producer(form.topic, timeout_ms) as producer:
        sender = _RecordSender(producer, form.topic, connection.servers, timeout_ms / 1000)
        failure: CannotRun | None = None
        is_typed = _is_typed(arguments)
        try:
            for record in encode.all(_placed(arguments)):
                sender.send(record)
                if is_typed:
                    sender.finish()  # an interactive user sees the outcome
                if sender.failed:
                    break
        except CannotRun as error:
            failure = error
        sender.finish()
    if sender.delivered or not (failure or sender.failed):
        say(sender.summary())
        sys.stdout.flush()
    if sender.failed:
        raise StreamsError(sender.failure() + ("" if failure is None else f"; and {failure}"))
    if failure is not None:
        raise failure
    return CLEAN


def _check_one_source(arguments: argparse.Namespace) -> None:
    single = arguments.key is not None or arguments.value is not None
    given = [single, arguments.file is not None, bool(arguments.records)]
    if sum(given) > 1:
        raise CannotRun("records must be given in one way only: as arguments, by --key and --value, or by --file")
    if single and arguments.value is None:
        raise CannotRun('--key needs --value; to delete a key, give the record \'{"key": ..., "value": null}\'')
    if not single and (arguments.timestamp is not None or arguments.header):
        raise CannotRun("--timestamp and --header need --value; in a JSON object they are fields")


def _is_typed(arguments: argparse.Namespace) -> bool:
    """Returns whether a person types the records."""
    given = arguments.file is not None or arguments.records or arguments.value is not None
    return not given and sys.stdin is not None and sys.stdin.isatty()


_Reader = Callable[[], GivenRecord]
_Placed = tuple[str, _Reader]
"""Where a record was given, and what reads it."""


def _placed(arguments: argparse.Namespace) -> Iterator[_Placed]:
    if arguments.value is not None:
        yield "the record", lambda: _single(arguments)
    elif arguments.records:
        for number, text in enumerate(arguments.records, 1):
            yield _line(f"record {number}", text)
    elif arguments.file is not None:
        yield from _of_file(arguments.file)
    else:
        yield from _typed()


def _line(place: str, text: str | None) -> _Placed:
    def read() -> GivenRecord:
        if text is None:
            raise ValueError("it is not UTF-8")
        return record_of(place, json_object(text))

    return place, read


def _of_file(path: Path) -> Iterator[_Placed]:
    """Yields the records of a file, in each form that `streams try --input` reads."""
    for item in items_of_file(path, LineReader(has_topics=False), TypedRowReader()):
        yield item.place, partial(_record_of, item)


def _record_of(item: Item) -> GivenRecord:
    """Returns the record that an item of a file is.

    :raises ValueError: if it is none.
    """
    if isinstance(item, BadRecord):
        raise ValueError(item.reason)
    if isinstance(item, TimeStep):
        raise ValueError("a step of time works only in `streams try`: here each record has its own timestamp")
    return item


def _typed() -> Iterator[_Placed]:
    """Yields the records on standard input, one a line: JSON objects, or text as `streams try` reads it."""
    forms = 'VALUE, KEY<tab>VALUE, or {"key": "ann", "value": 3}'
    lines = standard_input(lambda: say_error(f"type one record per line: {forms}; Ctrl-D ends the input"))
    reader = LineReader(has_topics=False)
    try:
        for place, text in text_lines("line", lines):
            if text is None or text.lstrip().startswith(("{", "[")):
                yield _line(place, text)
            else:
                yield place, partial(_record_of, reader.item(place, text))
    except OSError as error:
        raise CannotRun(f"standard input cannot be read: {error.strerror or error}") from None


def _single(arguments: argparse.Namespace) -> GivenRecord:
    return GivenRecord(
        "the record",
        arguments.value,
        arguments.key,
        is_text=True,
        key_is_text=True,
        timestamp_ms=None if arguments.timestamp is None else time_ms(arguments.timestamp),
        headers=[header_of_text(text) for text in arguments.header],
    )


@dataclass(frozen=True)
class _Encoder:
    """Makes bytes of records, and chooses their partitions."""

    form: TopicFormat
    partitions: int
    only: int | None

    def all(self, records: Iterable[_Placed]) -> Iterator[_Encoded]:
        """Yields records as they are written.

        :raises CannotRun: at the first that cannot be, with its place.
        """
        for place, read in records:
            where = f"{place}, topic {self.form.topic}"
            try:
                yield self._encoded(where, read())
            except ValueError as error:
                raise CannotRun(f"{where}: {shown(str(error))}") from None

    def _encoded(self, where: str, given: GivenRecord) -> _Encoded:
        headers = Headers(given.headers or ())
        key = self._part("key", self.form.key_serde, given.key, headers, is_text=given.key_is_text)
        value = self._part("value", self.form.value_serde, given.value, headers, is_text=given.is_text)
        chosen: Collection[int] | None = None
        if self.only is not None:
            chosen = (self.only,)
        elif self.form.partitioner is not None:
            chosen = self._chosen(where, key.value, value.value, headers)
        return _Encoded(key.data, value.data, given.timestamp_ms, headers, chosen)

    def _part(self, part: str, serde: Serde[Any] | None, given: Any, headers: Headers, *, is_text: bool) -> Fitted:
        assert serde is not None  # otherwise the topic is internal, and not written
        try:
            return fitted(serde, given, is_text=is_text, headers=headers)
        except DoesNotFit as error:
            raise ValueError(f"its {part} {error}") from error

    def _chosen(self, where: str, key: Any, value: Any, headers: HeaderList) -> Collection[int] | None:
        assert self.form.partitioner is not None
        try:
            found = self.form.partitioner(self.form.topic, key, value, headers, self.partitions)
        except Exception as error:
            raise CannotRun(f"{where}: the topic's partitioner fails: {described(error)}") from error
        if found is not None and not all(0 <= one < self.partitions for one in found):
            raise CannotRun(
                f"{where}: the topic's partitioner chose partitions {sorted(found)}, but the topic has"
                f" {self.partitions} partitions"
            )
        return found


class _RecordSender:
    """Writes records and follows their deliveries.

    :param servers: the addresses of the brokers, for notices and errors.
    :param timeout_s: how long the producer tries to deliver a record.
    """

    def __init__(self, producer: Producer, topic: str, servers: str, timeout_s: float) -> None:
        self._producer, self._topic = producer, topic
        self._servers, self._timeout_s = servers, timeout_s
        self._notice: WaitingNotice | None = None
        self._clock = SystemClock()
        self._spans: dict[int, tuple[int, int, int]] = {}
        """The first and last offset of the records in each partition, and how many there are."""
        self.failed = 0
        self.reasons: dict[str, None] = {}

    def send(self, record: _Encoded) -> None:
        """Writes a record to each of its partitions."""
        timestamp = self._clock.time_ms() if record.timestamp_ms is None else record.timestamp_ms
        timestamp = timestamp or self._producer.zero_timestamp_ms
        for partition in (-1,) if record.partitions is None else record.partitions:
            self._produce(record, partition, timestamp)
        self._producer.poll(0)

    def _produce(self, record: _Encoded, partition: int, timestamp: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, partition, self._delivered, None, timestamp, record.headers
                )
                return
            except BufferError:  # there is room again when some are delivered, or their time is over
                with self._waiting():
                    while not self._producer.poll(ROOM_S):
                        pass
            except (StreamsError, TypeError):
                raise
            except Exception as error:
                self._producer.refused(error, self._topic)

    def _delivered(self, error: Any, message: Any) -> None:
        if self._notice is not None:
            self._notice.answered()
        if error is not None:
            self.failed += 1
            away = f"no broker at {self._servers} accepted them within {self._timeout_s:g} s"
            self.reasons.setdefault(away if error.name() == AWAY else shown(str(error)))
            return
        partition, offset = message.partition(), message.offset()
        first, last, count = self._spans.get(partition, (offset, offset, 0))
        self._spans[partition] = (min(first, offset), max(last, offset), count + 1)

    def finish(self) -> None:
        """Waits until each record is delivered, or has failed, and says while it waits."""
        with self._waiting():
            self._producer.flush()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        what = f"a broker at {self._servers} to take the records, for {self._timeout_s:g} s at most"
        with WaitingNotice(what) as self._notice:
            yield
        self._notice = None

    def failure(self) -> str:
        """Returns how many records were not delivered, and why."""
        return (
            f"{counted_were(self.failed, 'record')} not delivered to topic {self._topic!r}: {'; '.join(self.reasons)}"
        )

    @property
    def delivered(self) -> int:
        """The number of records that were delivered."""
        return sum(count for _, _, count in self._spans.values())

    def summary(self) -> str:
        """Returns how many records were written, and where."""
        text = f"{counted(self.delivered, 'record')} written to {self._topic}"
        places = [
            f"partition {partition} at offset {first}"
            if first == last
            else f"partition {partition} at offsets {first} to {last}"
            for partition, (first, last, _) in sorted(self._spans.items())
        ]
        return f"{text}: {'; '.join(places)}" if places else text
