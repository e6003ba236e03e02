"""The schemas of the serdes of a store, as they are kept with its rows, and their comparison with those of now.

The row in a store's engine is JSON: ``{"key": ["built-in", "string"], "value": ["json-schema", "{...}"]}``, with
``null`` where nothing is known of a serde (frozen on disk; further names are left alone).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from processor_api.serde import Serde, SerdeSchema

PARTS = ("key", "value")

KeptSchema = tuple[str, str]
"""The kind and the text of a schema."""


class KeptSchemas(NamedTuple):
    """The schemas by which the rows of a store were written; ``None`` for a serde of which nothing was known."""

    key: KeptSchema | None
    value: KeptSchema | None

    def write(self) -> bytes:
        """Returns the row that keeps them."""
        return json.dumps({"key": self.key, "value": self.value}, separators=(",", ":")).encode()


def kept_by(key: Serde[Any], value: Serde[Any]) -> KeptSchemas:
    """Returns the schemas of two serdes."""
    return KeptSchemas(
        *(None if (found := serde.schema) is None else (found.kind, found.text) for serde in (key, value))
    )


def read_kept(row: bytes | None) -> KeptSchemas | None:
    """Returns the schemas that a row keeps; ``None`` without one, or if it is not readable: the rows tell then."""
    try:
        found = json.loads(row or b"null")
        return None if found is None else KeptSchemas(*(_pair(found[part]) for part in PARTS))
    except (ValueError, KeyError, TypeError):
        return None


def _pair(found: Any) -> KeptSchema | None:
    if found is None:
        return None
    kind, text = found
    if not isinstance(kind, str) or not isinstance(text, str):
        raise TypeError("a schema is two texts")
    return kind, text


class Fit(enum.Enum):
    """The relation of rows that another version of an application has written to the serdes of this one."""

    SAME = "same"
    COMPATIBLE = "compatible"
    """Rows have another form, which is read all the same."""
    UNKNOWN = "unknown"
    """Only the rows can tell."""
    INCOMPATIBLE = "incompatible"


class Comparison(NamedTuple):
    """The result for the keys or for the values of a store."""

    part: str
    """``key`` or ``value``."""
    fit: Fit
    problems: tuple[str, ...] = ()
    """Whatever of the rows could not be read, in words."""


def compare(kept: KeptSchemas | None, key: Serde[Any], value: Serde[Any]) -> list[Comparison]:
    """Compares the schemas of rows with those of the serdes that will read them.

    :param kept: ``None`` if nothing is known of the rows.
    """
    former = KeptSchemas(None, None) if kept is None else kept
    found = []
    for part, old, now in zip(PARTS, former, (key.schema, value.schema), strict=True):
        if kept is not None and old is None and now is None:
            found.append(Comparison(part, Fit.SAME))  # as far as anybody can tell
        elif old is None or now is None:
            found.append(Comparison(part, Fit.UNKNOWN))
        else:
            found.append(_compare(part, old, now))
    return found


def _compare(part: str, old: KeptSchema, now: SerdeSchema) -> Comparison:
    kind, text = old
    if kind == now.kind and text == now.text:
        return Comparison(part, Fit.SAME)
    problems: Sequence[str] | None = now.problems(kind, text)
    if problems is None:
        return Comparison(part, Fit.UNKNOWN)
    if not problems and part == "key" and now.form(text) != now.form(now.text):
        problems = ("equal keys may have other bytes: the fields of a key, their order and their types must stay",)
    return Comparison(part, Fit.INCOMPATIBLE if problems else Fit.COMPATIBLE, tuple(problems))
