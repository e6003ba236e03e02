"""`streams dlq list` and `streams dlq show`: the causes of dead letters, and one letter with all that it has."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from processor_api.forms.json_values import as_json
from processor_api.forms.times import iso, short_iso
from processor_api.handlers import without_origin
from processor_api.record import Headers
from processor_api.texts import shown
from streams.cli.changes_nothing import changes_nothing
from streams.cli.cluster.connection import Target
from streams.cli.cluster.topic_formats import format_of
from streams.cli.command_parser import add_with_examples
from streams.cli.dlq.options import add_letter_options, add_queue_options, dead_letters_of, filter_of
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.failures import indented
from streams.cli.output.terminal import counted, json_text, say, say_lines, table
from streams.cli.records.json_lines import headers_as_json
from streams.cli.topology_function import APP_HELP
from streams.serdes.values import as_text

if TYPE_CHECKING:
    from streams.dead_letters import DeadLetter, DeadLetterGroup
    from streams.kafka.ports import KafkaClients

MOST_TEXT = 100
"""Characters of the text of an error in a table."""
_PLACE = ("topic", "partition", "offset")
_HEADINGS = ("COUNT", "LEFT", "FIRST", "LAST", "ERROR", "TOPIC", "NODE", "AT", "TEXT")


def add_parser(commands: Any) -> None:
    """Adds the parsers of both."""
    listing = add_with_examples(
        commands,
        "list",
        "list dead letters by their cause",
        "\nexamples:\n  streams dlq list app.py\n  streams dlq list app.py --topic orders --since 2026-01-31 --json\n",
        "Lists dead letters by their cause: the class of the error, its text without quoted parts and numbers, the"
        " topic of the record, and the node that failed. COUNT is the number of dead letters, LEFT the number not"
        " replayed yet; AT and TEXT are of the last one.",
    )
    add_letter_options(listing)
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    listing.set_defaults(command=changes_nothing(run_list))
    show = add_with_examples(
        commands,
        "show",
        "show one dead letter",
        "\nexamples:\n  streams dlq show app.py 0:17\n  streams dlq show app.py 0:17 --json | jq -r .stacktrace\n",
        "Shows one dead letter: its source, the error, and its key, value and headers, read by the serdes that the"
        " topology has for its source topic.",
    )
    show.add_argument("topology", metavar="APP", help=APP_HELP)
    show.add_argument(
        "place", metavar="PARTITION:OFFSET", help="partition:offset of the dead letter, as `streams dlq list` prints it"
    )
    show.add_argument("--json", action="store_true", help="print one JSON object")
    add_queue_options(show)
    show.set_defaults(command=changes_nothing(run_show))


# ---------------------------------------------------------------------- list


def run_list(arguments: argparse.Namespace, *, clients: KafkaClients | None = None) -> int:
    """Prints the causes, the most frequent first; returns the exit status."""
    wanted = filter_of(arguments)
    with dead_letters_of(arguments, clients) as (_, queue):
        listed = queue.groups(wanted)
    if arguments.json:
        say(json_text({"topic": queue.topic, "causes": [_cause_as_json(one) for one in listed]}))
    elif not table(_HEADINGS, map(_row, listed)):
        say(f"topic {queue.topic!r} has no matching dead letters")
    return CLEAN


def _row(one: DeadLetterGroup) -> tuple[Any, ...]:
    last = one.last
    place = f"{last.partition}:{last.offset}"
    text = shown(" ".join(last.message.split()), MOST_TEXT)
    known = (last.exception or "-", last.topic or "-", last.node or "-")
    return (one.count, one.left, short_iso(one.first_ms), short_iso(one.last_ms), *known, place, text)


def _cause_as_json(one: DeadLetterGroup) -> dict[str, Any]:
    last = one.last
    return {
        "count": one.count,
        "left": one.left,
        "first": iso(one.first_ms),
        "last": iso(one.last_ms),
        "exception": last.exception or None,
        "message": last.message,
        "topic": last.topic or None,
        "node": last.node or None,
        "partition": last.partition,
        "offset": last.offset,
    }


# ---------------------------------------------------------------------- show


def run_show(arguments: argparse.Namespace, *, clients: KafkaClients | None = None) -> int:
    """Prints a letter; returns the exit status."""
    place = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,18})", arguments.place)
    if place is None:
        raise CannotRun(
            f"{arguments.place!r} is not the position of a dead letter: give partition and offset, such as 0:17"
        )
    with dead_letters_of(arguments, clients) as (target, queue):
        letter = queue.letter(int(place[1]), int(place[2]))
    read_key, read_value = _readers(target, letter)
    fields = {
        "dead_letter": {"topic": queue.topic, "partition": letter.partition, "offset": letter.offset},
        "timestamp": iso(letter.timestamp),
        "from": {"topic": letter.topic or None, "partition": letter.source_partition, "offset": letter.source_offset},
        "origin": None if letter.origin is None else dict(zip(_PLACE, letter.origin, strict=True)),
        "node": letter.node or None,
        "exception": letter.exception or None,
        "message": letter.message,
        "replays": letter.replays,
        "key": _part(letter.key, read_key),
        "value": _part(letter.value, read_value),
        "headers": headers_as_json(without_origin(letter.headers)),
        "added_headers": _added(letter),
    }
    if arguments.json:
        say(json_text(fields | {"stacktrace": letter.stacktrace}))
        return CLEAN
    known = _place(letter.topic, letter.source_partition, letter.source_offset)
    lines = {
        "dead letter": _place(queue.topic, letter.partition, letter.offset),
        "time": str(fields["timestamp"]),
        "from": known if letter.topic else "unknown: no record was being read",
        "node": letter.node or "not known",
        "error": f"{letter.exception or 'not known'}: {letter.message}",
        "replayed": counted(letter.replays, "time"),
        "key": as_text(fields["key"]),
        "value": as_text(fields["value"]),
        "headers": as_text(fields["headers"]),
    }
    if letter.origin is not None:
        lines["from"] += f", made from {_place(*letter.origin)}"
    if letter.added_headers:
        lines["added"] = as_text(fields["added_headers"])
    for name, text in lines.items():
        say(f"{name:<13}{text}")
    if letter.stacktrace:
        say()
        say_lines(indented(letter.stacktrace, "  "))  # no text in it looks like a line of ours
    return CLEAN


def _place(topic: str, partition: int, offset: int) -> str:
    return f"{topic}, partition {partition}, offset {offset}"


def _added(letter: DeadLetter) -> Any:
    """Returns the headers that nodes had added to the record before it failed."""
    try:
        return json.loads(letter.added_headers or "null")
    except ValueError:
        return letter.added_headers


def _readers(target: Target, letter: DeadLetter) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    """Returns how the key and value of a letter are read: as bytes, if the topology does not read its topic."""
    try:
        form = format_of(target, letter.topic)
    except CannotRun:
        return as_json, as_json
    form.headers.now = Headers(letter.headers or ())
    return form.read_key, form.read_value


def _part(data: bytes | None, read: Callable[[bytes], Any]) -> Any:
    if data is None:
        return None
    try:
        return read(data)
    except Exception:  # of the serde, which may be why it is a dead letter
        return as_json(data)
