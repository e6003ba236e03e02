"""Keys and values of one serde as a person gives and sees them.

What is given always goes through the serde in both directions, so that a record that the application could not read is
refused. What a value is in JSON its serde says (:meth:`Serde.to_json`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from processor_api.errors import outage_behind
from processor_api.forms.json_values import as_json
from processor_api.serde import CurrentHeaders, Headers, Serde
from processor_api.texts import error_text, printable, shown

MOST_SHOWN = 80
"""Characters of a key or value in the text of an error."""


# ---------------------------------------------------------------------- what is given


class DoesNotFit(ValueError):
    """A key or value that its serde cannot write; the text is the reason."""


class Fitted(NamedTuple):
    """A key or value that was given, as its serde takes it."""

    value: Any
    """The object that the serde writes."""
    data: bytes | None
    """Its bytes; ``None`` for null."""


def fitted(serde: Serde[Any], given: Any, *, is_text: bool, headers: Headers | None = None) -> Fitted:
    """Returns a key or value as its serde takes and writes it.

    :param given: a text that was typed, or a value of JSON. ``None`` is null, and so is the typed text ``null`` where
        the values of the serde are not strings.
    :param headers: those of the record, to which the serde may add some.
    :raises DoesNotFit: if the serde does not write it.
    :raises UnreachableError: if a service that the serde needs is away.
    """
    try:
        value = None if given is None else serde.from_text(given) if is_text else serde.from_json(given)
        if value is None:
            return Fitted(None, None)
        return Fitted(value, serde.with_headers(Headers() if headers is None else headers).serialize(value))
    except Exception as error:  # the serde may be the user's
        if (outage := outage_behind(error)) is not None:
            raise outage from error.__cause__
        why = f"does not fit the serde {serde.name!r}: {_reason(error)}"
        raise DoesNotFit(f"{_quoted(given, is_text)} {why}") from error


def _quoted(given: Any, is_text: bool) -> str:
    text = given if is_text else json.dumps(given, ensure_ascii=False, default=str)
    text = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
    return repr(text) if is_text else shown(text)


def _reason(error: BaseException) -> str:
    """Returns why a serde refused something, on one line."""
    title = getattr(error, "title", "")
    text = " ".join(error_text(error).removeprefix(f"no valid {title}: ").split())
    return shown(text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}")


# ---------------------------------------------------------------------- what is shown


def json_reader(serde: Serde[Any], headers: CurrentHeaders | None = None) -> Callable[[bytes], Any]:
    """Returns the function that reads bytes by a serde, and returns what JSON has for the object.

    The function raises what the serde raises for bytes that it cannot read. What it returns, :func:`fitted` takes. Of
    bytes that are JSON themselves it returns that, with fields that a model does not know.

    :param headers: those of the record whose bytes are read, for a serde that takes headers.
    """
    read = (serde if headers is None else headers.handed_to(serde)).deserialize
    if not serde.writes_json:
        return lambda data: serde.to_json(read(data))

    def shown(data: bytes) -> Any:
        read(data)  # which refuses what the application could not read
        return as_json(json.loads(data))

    return shown


def as_text(value: Any) -> str:
    """Returns a value of JSON as a cell of a table: a text without quotes where it is clear, all else as JSON. No
    terminal obeys anything in it."""
    if isinstance(value, str):
        clear = value and value.isprintable() and value != "null" and value.strip() == value
        return value if clear else printable(json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict) and value.keys() == {"key", "start", "end"}:
        window = f"{value['start']}/{value['end']}".replace(".000Z", "Z")
        return f"{as_text(value['key'])} @ {window}"
    return printable(json.dumps(value, ensure_ascii=False))
