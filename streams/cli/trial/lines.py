"""The records that a person gives: lines of text, JSON objects, and steps of time between them.

A line is a record as a JSON object, which has a `value` and may have `topic`, `key`, `timestamp` and `headers`; or a
step of time, `@+5m` or `@2025-01-01T12:00:00Z`; or a value as it is, with its key before a separator. Where a topology
reads several topics, the topic is before both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from processor_api.record import HeaderList
from processor_api.texts import shown
from streams.cli.trial.forms import bytes_as_json, from_json_bytes
from streams.cli.trial.times import duration_ms, time_ms

__all__ = [
    "BadRecord",
    "GivenRecord",
    "Item",
    "LineReader",
    "RowReader",
    "TimeStep",
    "headers_to_json",
    "text_lines",
]

NAMES = ("topic", "key", "value", "timestamp", "headers")
"""The names of a record as a JSON object, in the order in which they are printed."""
PLACE = ("partition", "offset")
"""Names that say where a record was, as `streams consume` prints it; they are passed over."""
_KNOWN = frozenset((*NAMES, *PLACE))


@dataclass(frozen=True)
class GivenRecord:
    """A record that was given, not yet in the bytes of its topic."""

    place: str
    """Where it was given, such as ``orders.csv:3``."""
    value: Any
    """A text if ``is_text``, else a value of JSON; ``None`` is a null value."""
    key: Any = None
    is_text: bool = False
    key_is_text: bool = False
    topic: str | None = None
    timestamp_ms: int | None = None
    headers: HeaderList | None = None


@dataclass(frozen=True)
class TimeStep:
    """A step of the wall clock: by so many ms, or to a point in time."""

    place: str
    by_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True)
class BadRecord:
    """A line or row that is no record, with the reason as a sentence."""

    place: str
    reason: str


Item = GivenRecord | TimeStep | BadRecord


def text_lines(name: str, lines: Iterable[bytes]) -> Iterator[tuple[str, str | None]]:
    """Yields the place of each line that is not empty, and its text; ``None`` if it is not UTF-8."""
    for number, line in enumerate(lines, 1):
        text: str | None
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            text = None
        if text is None or text.strip():
            yield f"{name}:{number}", text


@dataclass(frozen=True)
class LineReader:
    """Reads lines as a person types them, and lines of JSON."""

    has_topics: bool
    """Whether a line that is no JSON object begins with its topic."""
    separator: str = "\t"
    only_json: bool = False
    """Whether every line is JSON, as in a file of JSON lines."""
    rows: RowReader | None = None
    """Reads JSON objects that are not records: each is a value as a whole."""

    def items(self, name: str, source: BinaryIO) -> Iterator[Item]:
        """Yields what the lines of a file are.

        :param name: of the file, for places.
        """
        for place, line in text_lines(name, source):
            yield BadRecord(place, "it is not UTF-8") if line is None else self.item(place, line)

    def item(self, place: str, line: str) -> Item:
        """Returns what a line is."""
        try:
            if line.startswith("@+"):
                return TimeStep(place, by_ms=duration_ms(line[2:].strip()))
            if line.startswith("@") and line[1:2].isdecimal():
                return TimeStep(place, to_ms=time_ms(line[1:].strip()))
            found = self._object(line)
            if found is None:
                return self._text(place, line)
            if self.rows is not None and (self.rows.values or not (found.keys() <= _KNOWN or "value" in found)):
                return self.rows.record(place, found)
            return record_of(place, found)
        except ValueError as error:
            return BadRecord(place, str(error))

    def _object(self, line: str) -> dict[str, Any] | None:
        """Returns a line as a JSON object if it is to be read as one."""
        found = None
        if self.only_json or line.lstrip().startswith("{"):
            try:
                found = json.loads(line, parse_constant=_refuse)
            except (ValueError, RecursionError) as error:
                if self.only_json:
                    raise ValueError(f"it is not JSON: {error}") from None
        if self.only_json and not isinstance(found, dict):
            raise ValueError('a JSON object is expected, such as {"key": "ann", "value": 3}')
        if isinstance(found, dict) and (self.only_json or ("value" in found and found.keys() <= _KNOWN)):
            return found
        return None

    def _text(self, place: str, line: str) -> GivenRecord:
        fields = line.split(self.separator, 2 if self.has_topics else 1)
        topic = fields.pop(0) if self.has_topics and len(fields) > 1 else None
        key = fields.pop(0) if len(fields) > 1 else None
        return GivenRecord(place, fields[0], key, is_text=True, key_is_text=True, topic=topic)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def record_of(place: str, found: Mapping[str, Any]) -> GivenRecord:
    """Returns the record that a JSON object is.

    :raises ValueError: if it is none; the text is a sentence.
    """
    strange = [name for name in found if name not in _KNOWN]
    if strange:
        raise ValueError(
            f"a record has no {shown(', '.join(map(repr, strange)))}; it has {', '.join(NAMES)}. With --values each"
            " object or row is a value as a whole"
        )
    if "value" not in found:
        raise ValueError('a record needs a "value", which may be null. With --values each object is a value as a whole')
    topic, timestamp = found.get("topic"), found.get("timestamp")
    if topic is not None and not isinstance(topic, str):
        raise ValueError(f"the topic is {topic!r}: a text is expected")
    return GivenRecord(
        place,
        found["value"],
        found.get("key"),
        topic=topic,
        timestamp_ms=None if timestamp is None else time_ms(timestamp),
        headers=headers_of(found.get("headers")),
    )


def headers_of(given: Any) -> HeaderList | None:
    """Returns headers from a JSON object of names and values, or from a list of such pairs, in which names may repeat.

    :raises ValueError: if they are neither.
    """
    if given is None:
        return None
    pairs = list(given.items()) if isinstance(given, dict) else given
    expected = 'the headers are no object such as {"source": "web"}, and no list of pairs of a name and a value'
    if not isinstance(pairs, list):
        raise ValueError(expected)
    found: HeaderList = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(expected)
        name, value = pair
        try:
            found.append((name, None if value is None else from_json_bytes(value)))
        except ValueError as error:
            raise ValueError(f"header {name!r} is {value!r}: {error}") from None
    return found


def headers_to_json(headers: HeaderList) -> Any:
    """Returns headers as :func:`headers_of` reads them."""
    pairs = [(name, None if value is None else bytes_as_json(value)) for name, value in headers]
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else [list(pair) for pair in pairs]


@dataclass(frozen=True)
class RowReader:
    """Reads objects and rows of tables whose fields are those of a value."""

    values: bool = False
    """Whether each is a value as a whole, also where it has the fields of a record."""
    key_field: str | None = None
    time_field: str | None = None

    def record(self, place: str, fields: Mapping[str, Any]) -> GivenRecord:
        """Returns the record of which these are the value's fields.

        :raises ValueError: if the field of the key or the time is not there, or is none.
        """
        for name in (self.key_field, self.time_field):
            if name is not None and name not in fields:
                raise ValueError(f"it has no field {name!r}; it has {shown(', '.join(map(repr, fields)))}")
        time = None if self.time_field is None else fields[self.time_field]
        return GivenRecord(
            place,
            dict(fields),
            None if self.key_field is None else fields[self.key_field],
            timestamp_ms=None if time is None else time_ms(time),
        )
