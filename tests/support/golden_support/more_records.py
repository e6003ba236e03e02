"""The records that come here beside those that Java was recorded to send, computed from the recording alone.

Java loses two kinds of records (entries with ``more = true`` in ``tests/golden/differences.toml``):

* **Final results** of windows that have expired in the store before they are sent on. All of them are computed here:
  when a record looks for windows that have closed (`_Looks`), those that were not sent go out in the order of their
  starts and keys, with the last value and time of their rows in the changelog, and the headers of that record.
* **Removals** of sessions that only a cache still shows when a record joins them. The recorded result of that record
  covers them: each session that is there and within a new one of its key has to be removed right before that is put,
  in the changelog, in the results, and in the changelog of a suppression that still holds it.

Nothing of what happens here is looked at: what is expected is exact, in its keys, values, times, headers and order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import unpack
from typing import Any

from golden_support.compare import explain
from golden_support.difference_rules import CHANGELOG_KEPT_LONGER_MS

__all__ = ["beside", "with_more"]

Record = dict[str, Any]
Steps = Sequence[Mapping[str, Any]]

BOUNDS = re.compile(r"(TimeWindows|SlidingWindows)\.of\w+AndGrace\(ms\((\d+)\), ms\((\d+)\)\)")
STORE = re.compile(r'\bwin\("([\w-]+)"')
OUTPUT = re.compile(r'\.to\("([\w-]+)"')
EMIT_INTERVAL = "__emit.interval.ms.kstreams.windowed.aggregation__"
BUFFER = "-sup-store-changelog"


def beside(some: Sequence[Any], all_of_them: Sequence[Any]) -> list[int] | None:
    """Returns the places of what comes beside some records, which come in their order; ``None`` if one is missing."""
    places, due = [], list(some)
    for place, record in enumerate(all_of_them):
        if due and not explain(due[0], record):
            del due[0]
        else:
            places.append(place)
    return None if due else places


def with_more(case: Mapping[str, Any], run: Mapping[str, Any], steps: Steps) -> list[dict[str, Any]]:
    """The recorded steps of a run, in the form of `expected_run`, with what Java loses of them.

    :param case: the recording, which tells the topology in Java.
    """
    if "SessionWindows" in case["java"]:
        sessions = _Sessions(case)
        return [sessions.step(step, given.get("in", {})) for step, given in zip(steps, run["steps"], strict=True)]
    return list(_with_final_results(case, run, steps))


# ---------------------------------------------------------------------------- final results


@dataclass
class _Final:
    """The windows of one store whose results are sent on when they close."""

    output: str
    size: int
    sliding: bool
    rows: dict[tuple[int, str], tuple[Any, int]] = field(default_factory=dict)
    """By start and key: the value and time of the row."""
    sent: set[tuple[int, str]] = field(default_factory=set)

    def log(self, records: Sequence[Record], changelog: str) -> None:
        for record in records:
            if record["topic"] == changelog:
                key = bytes.fromhex(record["key_hex"])
                row = unpack(">qi", key[-12:])[0], key[:-12].decode()
                if record["value_hex"] is None:
                    self.rows.pop(row, None)
                else:
                    self.rows[row] = record["value_hex"], record["timestamp"]

    def close(self, until: int, types: Mapping[str, str], headers: Any) -> Iterator[Record]:
        """Yields the results of those that end by then and were not sent; the end of a sliding window is in it."""
        for (start, key), (value, time) in sorted(self.rows.items()):
            if start + self.size + self.sliding <= until and (start, key) not in self.sent:
                self.sent.add((start, key))
                yield {
                    "topic": self.output,
                    "key": _shown(types["key"], key, start, start + self.size),
                    "value": _value(types["value"], value),
                    "timestamp": time,
                    "headers": headers,
                }


def _with_final_results(case: Mapping[str, Any], run: Mapping[str, Any], steps: Steps) -> Iterator[dict[str, Any]]:
    stores = [f"parity-{name}-changelog" for name in STORE.findall(case["java"])]
    looks = _Looks(case, run["start_time_ms"])
    windows = {
        store: _Final(output, looks.size, looks.sliding)
        for store, output in zip(stores, OUTPUT.findall(case["java"]), strict=True)
    }
    for step, given in zip(steps, run["steps"], strict=True):
        until = looks.step(given)
        out: list[Record] = []
        for changelog, final in windows.items():
            if until is not None:
                out += final.close(until, case["topics"][final.output], given["in"].get("headers", []))
            final.log(step["internal"], changelog)
        # A recorded result that is not among them is wrong, or they are: then it has to be seen.
        yield dict(step) if beside(step["out"], out) is None else {**step, "out": out}


class _Looks:
    """When it is looked for windows that have closed: before a record is put, if the wall clock has gone on for the
    interval since the last look; and before that, if the record would make the store delete what was not sent."""

    def __init__(self, case: Mapping[str, Any], start_time_ms: int) -> None:
        found = BOUNDS.search(case["java"])
        assert found is not None, f"{case['case']} has no windows with a size and a grace period"
        self.sliding, self.size, self._grace = found[1] == "SlidingWindows", int(found[2]), int(found[3])
        self._kept = next(
            int(about["configs"]["retention.ms"]) - CHANGELOG_KEPT_LONGER_MS
            for about in case["internal_topics"].values()
            if "retention.ms" in about["configs"]
        )
        self._segment = max(self._kept // 2, 60_000)
        self._interval = case["config"].get(EMIT_INTERVAL, 0)  # what the test driver makes of it, if it is not set
        self._clock, self._next = start_time_ms, 0
        self._stream_time = self._last = -1

    def step(self, given: Mapping[str, Any]) -> int | None:
        """Returns up to which time windows are closed, if it is looked for them."""
        self._clock += given.get("advance_wall_clock_ms", 0)
        record = given.get("in")
        if record is None or record["key"] is None or (self.sliding and record["value"] is None):
            return None
        time = record["timestamp"]
        self._stream_time = max(self._stream_time, time)
        closed = self._stream_time - self._grace
        if self.sliding and (time < self.size or time + self.size < closed):
            return None
        put = time + 1 if self.sliding else time
        low = 0 if self._last < 0 else max(0, self._last - self.size + (not self.sliding))
        if self._clock >= self._next:
            self._next = self._clock + self._interval
        elif (put - self._kept) // self._segment <= low // self._segment:
            return None
        if closed <= self._last:
            return None
        self._last = max(self._last, closed)
        return closed


# ---------------------------------------------------------------------------- removals of sessions


class _Sessions:
    """The sessions that are there, as the changelog has them and what Java forgets to remove is removed."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        (self._log,) = (
            topic for topic in case["internal_topics"] if not topic.endswith(BUFFER) and "changelog" in topic
        )
        self._types = {topic: types for topic, types in case["topics"].items() if topic.startswith("output")}
        self._has_headers = case["config"].get("dsl.store.format", "").lower() == "headers"
        self._suppressed = any(topic.endswith(BUFFER) for topic in case["internal_topics"])
        self._there: dict[str, Any] = {}
        """By keys in the changelog: the headers of the rows."""

    def step(self, step: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        internal, out = list(step["internal"]), list(step["out"])
        for record in [one for one in internal if one["topic"] == self._log]:
            key = record["key_hex"]
            if record["value_hex"] is None:
                self._there.pop(key, None)
                continue
            for lost in sorted(other for other in self._there if other != key and _covers(key, other)):
                if not any(one["topic"] == self._log and one["key_hex"] == lost for one in internal):
                    self._remove(lost, key, internal, out, given)
            self._there[key] = record["headers"]
        return {**step, "internal": internal, "out": out}

    def _remove(self, lost: str, by: str, internal: list[Record], out: list[Record], given: Mapping[str, Any]) -> None:
        """Adds the removal of a session before the one that it is part of."""
        headers = given.get("headers", [])
        kept = self._there.pop(lost)
        place = _place(internal, self._log, "key_hex", by, lambda key: _bounds(key) < _bounds(lost))
        removal = {"topic": self._log, "key_hex": lost, "value_hex": None, "timestamp": given["timestamp"]}
        internal.insert(place, {**removal, "headers": headers if self._has_headers else []})
        if self._suppressed:
            # It has closed, so the suppression lets it through in the same step, and it has no result.
            internal.append({**removal, "topic": f"parity{BUFFER}", "timestamp": None, "headers": []})
            internal.sort(key=lambda one: (one["topic"], one["key_hex"] if one["topic"].endswith(BUFFER) else ""))
            return
        for topic, types in self._types.items():
            place = _place(
                out, topic, "key", _session_shown(types["key"], by), lambda key: _start(key) < _bounds(lost)[0]
            )
            out.insert(place, {
                "topic": topic,
                "key": _session_shown(types["key"], lost),
                "value": None,
                "timestamp": _bounds(lost)[1],
                "headers": kept if self._has_headers else headers,
            })  # fmt: skip


def _place(records: Sequence[Record], topic: str, name: str, by: Any, before: Callable[[Any], bool]) -> int:
    """The place of a removal: among those right before the session that covers them all, in the order of time."""
    places = (n for n, one in enumerate(records) if one["topic"] == topic and one[name] == by)
    place = next(places, len(records))
    value = "value_hex" if name == "key_hex" else "value"
    while place and records[place - 1]["topic"] == topic and records[place - 1][value] is None:
        if before(records[place - 1][name]):
            break
        place -= 1
    return place


def _start(shown: Any) -> int:
    return int(shown["start"] if isinstance(shown, Mapping) else shown.rpartition("@")[2].partition("-")[0])


def _bounds(session: str) -> tuple[int, int]:
    """The start and the end of a session: its key is the key of its records, its end and its start."""
    end, start = unpack(">qq", bytes.fromhex(session)[-16:])
    return start, end


def _covers(session: str, other: str) -> bool:
    (start, end), (other_start, other_end) = _bounds(session), _bounds(other)
    return session[:-32] == other[:-32] and start <= other_start and other_end <= end


def _session_shown(kind: str, session: str) -> Any:
    return _shown(kind, bytes.fromhex(session[:-32]).decode(), *_bounds(session))


def _shown(kind: str, key: str, start: int, end: int) -> Any:
    """The key of a window as a topic has it: with a serde of windows, or as text."""
    return {"key": key, "start": start, "end": end} if "windowed" in kind else f"{key}@{start}-{end}"


def _value(kind: str, data: str) -> Any:
    raw = bytes.fromhex(data)
    return unpack(">q", raw)[0] if kind == "long" else raw.decode()
