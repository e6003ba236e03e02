"""What is known of the form of values that a serde writes, and whether another version of it reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class SerdeSchema(NamedTuple):
    """The schema of what a serde writes, and how it is compared with that of rows that are there already."""

    kind: str
    """The language of the text, such as ``json-schema`` or ``avro``."""
    text: str
    """What the serde writes; equal schemas have equal texts in each process."""
    problems: Callable[[str, str], Sequence[str] | None]
    """Takes the kind and the text of an older schema, and returns in words what of its rows this serde could not read,
    by field: nothing if it reads all, ``None`` if only the rows can tell."""


def other_kind(former: str, text: str, now: str) -> list[str]:
    """Returns what is wrong with rows that were written by a serde of another kind.

    :param former: the kind of their schema, whose text names the serde if the kind is ``built-in``.
    :param now: what reads them.
    """
    return [f"they are written as {text if former == 'built-in' else former}, and read as {now}"]
