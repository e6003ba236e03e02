"""The records that a person gives to a trial: lines of text, JSON objects, and steps of time between them.

A line is a record as a JSON object (:mod:`streams.cli.records.json_lines`); or a step of time, `@+5m` or
`@2025-01-01T12:00:00Z`; or a value as it is, with its key before a separator. Where a topology reads several topics,
the topic is before both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.forms.times import duration_ms, time_ms
from processor_api.texts import shown
from streams.cli.records.json_lines import (
    BadRecord,
    GivenRecord,
    NotARecord,
    is_record,
    json_object,
    record_of,
    text_lines,
)


@dataclass(frozen=True)
class TimeStep:
    """A step of the wall clock: by a number of ms, or to a point in time."""

    place: str
    by_ms: int | None = None
    to_ms: int | None = None


Item = GivenRecord | TimeStep | BadRecord


def record_of_row(place: str, found: Mapping[str, Any]) -> GivenRecord:
    """Returns the record that an object or a row of a table is.

    :raises ValueError: if it is none; the text says how to give values as a whole.
    """
    try:
        return record_of(place, found)
    except NotARecord as error:
        raise ValueError(f"{error}. With --values each object or row is a whole value") from None


@dataclass(frozen=True)
class LineReader:
    """Reads lines as a person types them, and lines of JSON."""

    has_topics: bool
    """Whether a line that is not a JSON object begins with its topic."""
    separator: str = "\t"
    only_json: bool = False
    """Whether every line is JSON, as in a file of JSON lines."""
    rows: TypedRowReader | None = None
    """Reads JSON objects that are not records: each is a value as a whole."""

    def items(self, name: str, source: Iterable[bytes]) -> Iterator[Item]:
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
            if self.rows is not None and (self.rows.values or not (is_record(found) or "value" in found)):
                return self.rows.record(place, found)
            return record_of_row(place, found)
        except ValueError as error:
            return BadRecord(place, str(error))

    def _object(self, line: str) -> dict[str, Any] | None:
        """Returns a line as a JSON object if it is to be read as one."""
        if self.only_json:
            return json_object(line)
        if line.lstrip().startswith("{"):
            try:
                found = json_object(line)
            except ValueError:
                return None
            if "value" in found and is_record(found):
                return found
        return None

    def _text(self, place: str, line: str) -> GivenRecord:
        fields = line.split(self.separator, 2 if self.has_topics else 1)
        topic = fields.pop(0) if self.has_topics and len(fields) > 1 else None
        key = fields.pop(0) if len(fields) > 1 else None
        return GivenRecord(place, fields[0], key, is_text=True, key_is_text=True, topic=topic)


@dataclass(frozen=True)
class TypedRowReader:
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
                raise ValueError(f"it does not have field {name!r}; it has {shown(', '.join(map(repr, fields)))}")
        time = None if self.time_field is None else fields[self.time_field]
        return GivenRecord(
            place,
            dict(fields),
            None if self.key_field is None else fields[self.key_field],
            timestamp_ms=None if time is None else time_ms(time),
        )
