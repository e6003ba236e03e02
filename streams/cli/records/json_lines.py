"""Records as lines of JSON: an object a line, with a `value`, and perhaps `topic`, `key`, `timestamp` and `headers`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from processor_api.forms.json_values import bytes_as_json, bytes_of_json, parsed_json
from processor_api.forms.times import iso, time_ms
from processor_api.record import HeaderList
from processor_api.texts import repr_of, shown
from streams.cli.output.terminal import json_text

NAMES = ("topic", "key", "value", "timestamp", "headers")
"""The fields of a record, in the order in which they are printed."""
PLACE = ("partition", "offset")
"""Fields that say where a record was, as `streams consume` prints it; only a trial of several partitions reads one."""
_KNOWN = frozenset((*NAMES, *PLACE))
MOST_SHOWN = 80
"""Characters of what was given, in the text of an error."""


class NotARecord(ValueError):
    """A JSON object that has not the fields of a record; the text is a sentence."""


@dataclass(frozen=True)
class GivenRecord:
    """A record that was given, not yet in the bytes of its topic."""

    place: str
    """Where it was given, such as ``orders.csv:3``."""
    value: Any
    """A string if ``is_text``, otherwise a value of JSON; ``None`` is a null value."""
    key: Any = None
    is_text: bool = False
    key_is_text: bool = False
    topic: str | None = None
    timestamp_ms: int | None = None
    headers: HeaderList | None = None
    partition: int = -1
    """The partition that it was in; -1 if that is not known."""


@dataclass(frozen=True)
class BadRecord:
    """A line or row that is not a record, with the reason as a sentence."""

    place: str
    reason: str


# ---------------------------------------------------------------------- reading


def text_lines(name: str, lines: Iterable[bytes]) -> Iterator[tuple[str, str | None]]:
    """Yields the place of each line that is not empty, and its text; ``None`` if it is not UTF-8.

    :param name: of the file, for the places.
    """
    for number, line in enumerate(lines, 1):
        text: str | None
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            text = None
        if text is None or text.strip():
            yield f"{name}:{number}", text


def json_object(text: str) -> dict[str, Any]:
    """Returns the JSON object that a line is.

    :raises ValueError: if it is none; the text is a sentence.
    """
    found = parsed_json(text)
    if not isinstance(found, dict):
        raise ValueError('expected a JSON object such as {"key": "ann", "value": 3}')
    return found


def is_record(found: Mapping[str, Any]) -> bool:
    """Returns whether a JSON object has no other fields than those of a record."""
    return found.keys() <= _KNOWN


def record_of(place: str, found: Mapping[str, Any]) -> GivenRecord:
    """Returns the record that a JSON object is.

    :raises NotARecord: if it has no value, or fields that no record has.
    :raises ValueError: if one of its fields is wrong; the text is a sentence.
    """
    strange = [name for name in found if name not in _KNOWN]
    if strange:
        raise NotARecord(f"a record does not have {shown(', '.join(map(repr, strange)))}; it has {', '.join(NAMES)}")
    if "value" not in found:
        raise NotARecord('a record needs a "value", which may be null')
    topic, timestamp = found.get("topic"), found.get("timestamp")
    if topic is not None and not isinstance(topic, str):
        raise ValueError(f"the topic must be a string, got {_quoted(topic)}")
    return GivenRecord(
        place,
        found["value"],
        found.get("key"),
        topic=topic,
        timestamp_ms=None if timestamp is None else time_ms(timestamp),
        headers=headers_of_json(found.get("headers")),
        partition=partition if type(partition := found.get("partition")) is int else -1,
    )


def headers_of_json(given: Any) -> HeaderList | None:
    """Returns headers from a JSON object of names and values, or from a list of such pairs, in which names may repeat.

    :raises ValueError: if they are neither; the text is a sentence.
    """
    if given is None:
        return None
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise ValueError(
            'the headers must be an object such as {"source": "web"} or a list of pairs of a name and a value, got'
            f" {_quoted(given)}"
        )
    found: HeaderList = []
    for name, value in pairs:
        try:
            found.append((name, None if value is None else bytes_of_json(value)))
        except ValueError as error:
            raise ValueError(f"the header {repr_of(name, MOST_SHOWN)} is {_quoted(value)}: {error}") from None
    return found


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)


def _quoted(given: Any) -> str:
    return shown(json.dumps(given, ensure_ascii=False, default=str), MOST_SHOWN)


def header_of_text(text: str) -> tuple[str, bytes | None]:
    """Reads ``name=value`` of an option.

    :raises ValueError: if there is no name; the text is a sentence.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is not a header: give name=value")
    return name, value.encode()


# ---------------------------------------------------------------------- printing


def headers_as_json(headers: Sequence[tuple[str, bytes | None]]) -> Any:
    """Returns headers as :func:`headers_of_json` reads them: an object, or a list of pairs where a name repeats."""
    pairs = [(name, None if value is None else bytes_as_json(value)) for name, value in headers]
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else [list(pair) for pair in pairs]


def record_line(
    topic: str,
    key: Any,
    value: Any,
    timestamp_ms: int,
    headers: HeaderList | None,
    place: tuple[int, int] | None = None,
) -> str:
    """Returns a record as a line of JSON, which :func:`record_of` reads.

    :param key: as JSON has it, as is ``value``.
    :param timestamp_ms: left out if it is negative: then the record has none.
    :param place: the partition and the offset of a record that was consumed.
    """
    fields: dict[str, Any] = {"topic": topic}
    if place is not None:
        fields |= zip(PLACE, place, strict=True)
    fields |= {"key": key, "value": value}
    if timestamp_ms >= 0:
        fields["timestamp"] = iso(timestamp_ms)
    if headers:
        fields["headers"] = headers_as_json(headers)
    return json_text(fields)


def writable(stream: TextIO, line: str) -> str:
    """Returns a line of JSON as a stream can write it: where its encoding lacks a character all that are not of ASCII
    are escaped, as are halves of surrogates."""
    try:
        line.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(json.loads(line))
    return line
