"""Records as lines of JSON: one object a line, with ``key``, ``value``, ``timestamp`` and ``headers``.

`streams consume` writes such lines, with ``topic``, ``partition`` and ``offset`` in front, and `streams produce` reads
them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from processor_api.record import HeaderList
from streams.cli.cluster.record_values import BASE64, as_json, iso_time, time_ms

__all__ = ["GivenRecord", "header_of_text", "headers_as_json", "record_line", "record_of_line"]

_FIELDS = ("key", "value", "timestamp", "headers")
_PLACE = ("topic", "partition", "offset")
"""Fields that say where a record was; they are passed over when it is written."""


class GivenRecord(NamedTuple):
    """A record as it was given, with its key and value as JSON has them."""

    key: Any
    value: Any
    timestamp_ms: int | None
    """``None`` for the time at which it is written."""
    headers: HeaderList


def record_of_line(line: str) -> GivenRecord:
    """Reads a record from a line.

    :raises ValueError: with what is wrong.
    """
    try:
        found = json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        raise ValueError(f'is no JSON ({error}): give an object a line, such as {{"key": "ann", "value": 3}}') from None
    if not isinstance(found, dict):
        raise ValueError(f'is no object, but {json.dumps(found)}: give one, such as {{"key": "ann", "value": 3}}')
    unknown = sorted(found.keys() - {*_FIELDS, *_PLACE})
    if unknown:
        raise ValueError(f"has the unknown field {unknown[0]!r}; a record has {', '.join(_FIELDS)}")
    if "value" not in found:
        raise ValueError('has no field "value"; give null for a deletion')
    timestamp = found.get("timestamp")
    return GivenRecord(
        found.get("key"),
        found["value"],
        None if timestamp is None else time_ms(timestamp),
        _headers(found.get("headers")),
    )


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _headers(given: Any) -> HeaderList:
    if given is None:
        return []
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise ValueError(f'has wrong headers {json.dumps(given)}: give an object, such as {{"trace": "7"}}, or pairs')
    return [(name, _header_value(name, value)) for name, value in pairs]


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)


def _header_value(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and value.keys() == {BASE64}:
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (TypeError, ValueError):
            pass
    raise ValueError(f'has the header {name!r} with {json.dumps(value)}: give a text, null or {{"{BASE64}": "..."}}')


def header_of_text(text: str) -> tuple[str, bytes | None]:
    """Reads ``name=value`` of an option.

    :raises ValueError: if there is no name.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is no header: give name=value")
    return name, value.encode()


def headers_as_json(headers: Sequence[tuple[str, bytes | None]]) -> Any:
    """Returns headers as an object, or as pairs where a name comes twice."""
    pairs = [(name, as_json(value)) for name, value in headers]
    return dict(pairs) if len({name for name, _ in pairs}) == len(pairs) else [list(pair) for pair in pairs]


def record_line(
    topic: str, partition: int, offset: int, timestamp_ms: int, key: Any, value: Any, headers: HeaderList | None
) -> str:
    """Returns the line of a consumed record, whose key and value are what JSON can write."""
    fields: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset}
    if timestamp_ms >= 0:
        fields["timestamp"] = iso_time(timestamp_ms)
    fields |= {"key": key, "value": value}
    if headers:
        fields["headers"] = headers_as_json(headers)
    text = json.dumps(fields, ensure_ascii=False)
    return text if _is_writable(text) else json.dumps(fields)


def _is_writable(text: str) -> bool:
    """Returns whether a text has no half of a surrogate, which UTF-8 cannot write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
