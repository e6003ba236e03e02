"""Records that come here beside those that Java was recorded to send: which of them are right.

Java loses the results of windows that expire before they are sent on, and the removals of sessions that only a cache
still shows. So a record that was not recorded is right in two cases only:

* it is the result of a window, the first one sent of it, with the value and time that its changelog has last;
* it removes what was there: the last record of its key, in the same topic, had a value; or, from the buffer of a
  suppression, whose changelog tells what a commit has left, the key of a row that is rightly removed in the same step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import pack
from typing import Any

from golden_support.compare import explain

__all__ = ["beside", "with_more"]

FIELDS = ("out", "internal")
Steps = Sequence[Mapping[str, Any]]


def beside(some: Sequence[Any], all_of_them: Sequence[Any]) -> list[int] | None:
    """Returns the places of what comes beside some records, which come in their order; ``None`` if one is missing."""
    places, due = [], list(some)
    for place, record in enumerate(all_of_them):
        if due and not explain(due[0], record):
            del due[0]
        else:
            places.append(place)
    return None if due else places


def with_more(expected: Steps, actual: Steps) -> Iterator[dict[str, Any]]:
    """Yields the expected steps with those records of ours beside them that are right."""
    sent = _Sent(expected)
    for step, ours in zip(expected, actual, strict=False):
        changed = dict(step)
        sent.log(ours["internal"])
        for field in FIELDS:
            places = beside(step[field], ours[field])
            right = sent.follow(field, ours[field], frozenset(places or ()))
            if places is not None and right:
                changed[field] = ours[field]
        yield changed


class _Sent:
    """What was sent so far."""

    def __init__(self, expected: Steps) -> None:
        self._recorded = {_name(record) for step in expected for record in step["out"] if _value(record) is not None}
        self._last: dict[tuple[str, str, str], Any] = {}
        """By field and name: the value of the last record."""
        self._rows: dict[str, list[tuple[Any, Any]]] = {}
        """By key in changelogs: values and times, of all of them."""

    def log(self, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            if record["topic"].endswith("-changelog"):
                self._rows.setdefault(record["key_hex"], []).append((record["value_hex"], record["timestamp"]))

    def follow(self, field: str, records: Sequence[Mapping[str, Any]], added: frozenset[int]) -> bool:
        """Returns whether the added ones are right."""
        right, removed = True, set()
        for place, record in enumerate(records):
            name, value = (field, *_name(record)), _value(record)
            if place in added:
                removes = value is None and (self._last.get(name) is not None or _of_buffer(record) in removed)
                if removes:
                    removed.add(name[2])
                right = right and (removes or (field == "out" and self._is_lost_result(record, name)))
            self._last[name] = value
        return right

    def _is_lost_result(self, record: Mapping[str, Any], name: tuple[str, str, str]) -> bool:
        if record["value"] is None or name in self._last or name[1:] in self._recorded:
            return False
        rows = self._rows.get(_row_of_window(record["key"]), [])
        return bool(rows) and rows[-1] == (_hex(record["value"]), record["timestamp"])


def _name(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["topic"], str(record.get("key_hex", record.get("key")))


def _value(record: Mapping[str, Any]) -> Any:
    return record["value_hex"] if "value_hex" in record else record["value"]


def _of_buffer(record: Mapping[str, Any]) -> str | None:
    """The key of a row of a suppression's buffer; ``None`` of another record."""
    return str(record["key_hex"]) if record["topic"].endswith("-sup-store-changelog") else None


def _row_of_window(key: Any) -> str:
    """The key of a window in its changelog: of one that a topic has, or of text such as ``a@10-20``."""
    if isinstance(key, Mapping):
        text, start = str(key["key"]), int(key["start"])
    else:
        text, _, bounds = str(key).partition("@")
        start = int(bounds.partition("-")[0])
    return (text.encode() + pack(">qi", start, 0)).hex()


def _hex(value: Any) -> str:
    return (pack(">q", value) if isinstance(value, int) else str(value).encode()).hex()
