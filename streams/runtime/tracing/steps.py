"""The steps of a followed record: as values, and as lines of the log ``streams.trace``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.texts import MOST_VALUE, repr_of, shown
from streams.config.secrets import MASK, is_secret

log = logging.getLogger("streams.trace")

DEPTH_MAX = 5
"""Lists and mappings inside of each other in which secrets are looked for."""


class _Absent:
    def __repr__(self) -> str:
        return ""


ABSENT: Any = _Absent()
"""Stands for a key or a value that a step does not have, where ``None`` is one."""


class Texts:
    """Key, value and old value of a step as text: cut, on one line, with secrets masked. Made at once, since a value
    may be changed in place later."""

    __slots__ = ("key", "old", "value")

    def __init__(self, key: Any, value: Any, old: Any) -> None:
        self.key = value_text(key)
        self.value = value_text(value)
        self.old = value_text(old)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One step of a followed record: a line of the log, and a row of the test driver's table."""

    record: str
    """The id of the record: ``topic-partition@offset`` of where it was read first."""
    step: str
    """The name of the step: ``read``, ``process``, ``put``, ... (docs/following-a-record.md has all of them)."""
    node: str | None
    """The node in which it happened."""
    place: str | None
    """The store, or the topic partition with the offset if that is known."""
    key: Any
    """``None`` also where the step has none; so are `value` and `old`."""
    value: Any
    old: Any
    """The value that the store had before a put."""
    note: str
    us: int
    """Microseconds since the record was read in this task."""
    time_ms: int
    """The wall clock."""
    task: str
    texts: Texts
    """Key, value and old value as they were then; of what the step does not have, an empty text."""


def log_step(step: TraceStep) -> None:
    """Writes a step to the log ``streams.trace``."""
    texts = step.texts
    fields = {
        "record": shown(step.record),
        "node": step.node,
        "place": None if step.place is None else shown(step.place),
        "key": texts.key,
        "value": texts.value,
        "old": texts.old,
        "note": step.note,
    }
    given: dict[str, Any] = {name: text for name, text in fields.items() if text}
    log.info(step.step, extra={**given, "us": step.us, "time_ms": step.time_ms, "task": step.task})


def value_text(value: Any) -> str:
    """A key or a value from data as Python writes it, on one line of at most `MOST_VALUE` characters, with what is a
    secret by its name masked."""
    if type(value) in (str, bytes) and len(value) > MOST_VALUE:
        return shown(f"{value[:MOST_VALUE]!r}... ({len(value) - MOST_VALUE} more)", MOST_VALUE + 50)
    try:
        masked = _masked(value, DEPTH_MAX)
    except Exception as error:  # of a user's class; what it holds is not shown unmasked
        return f"<{type(value).__name__}, whose repr() raises {type(error).__name__}>"
    return repr_of(masked)


class _Text:
    """Has a given repr."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _masked(value: Any, depth: int) -> Any:
    """Returns the object whose repr is shown, with secrets masked."""
    if depth == 0 or value is None or isinstance(value, (str, bytes, int, float)):
        return value
    if isinstance(value, Mapping):
        return {name: _masked_field(str(name), each, depth) for name, each in value.items()}
    names = _field_names(value)
    if names is not None:
        parts = (f"{name}={_masked_field(name, getattr(value, name, None), depth)!r}" for name in names)
        return _Text(f"{type(value).__name__}({', '.join(parts)})")
    if type(value) in (list, tuple):
        return type(value)(_masked(each, depth - 1) for each in value)
    return value


def _masked_field(name: str, value: Any, depth: int) -> Any:
    return _Text(MASK) if value and is_secret(name) else _masked(value, depth - 1)


def _field_names(value: Any) -> list[str] | None:
    """Returns the fields of named tuples, dataclasses and models; of the last two only where a name is that of a
    secret, since they may have a repr of their own."""
    if isinstance(value, tuple):
        return list(value._fields) if hasattr(value, "_fields") else None
    fields = getattr(type(value), "__dataclass_fields__", None) or getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping) and any(is_secret(str(name)) for name in fields):
        return list(fields)
    return None
