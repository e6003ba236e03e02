"""Counts of a table of sessions, where sessions are removed that Java forgets to remove.

Java reads a session that only the cache still shows as absent when it removes it, so neither the changelog nor what
follows below gets to know of the removal (``golden_support.more_records``). Below the table, rows are grouped by their
count (``n<count>``) and counted. Exactly this may differ from the recording, and nothing else:

* the changelog of sessions has, beside the recorded records in their order, removals of sessions that the recorded
  store does not show any more: they end longer before the latest end of all sessions than the store keeps them;
* each record of the repartition topic is what the changelog of sessions says, record by record: the row's old value is
  taken out of its group, then the new one put in, at the end of the session, with the headers of the step's record;
* counts, their times, what is sent of them and what their store has in the end is what the repartition topic says.

The recording is held against the same two rules, except that it may lack removals. If it breaks one, or ours does, what
was recorded is expected, and the difference is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack, unpack
from typing import Any

from golden_support.compare import explain
from golden_support.difference_rules import CHANGELOG_KEPT_LONGER_MS
from golden_support.more_records import beside

__all__ = ["with_counts_of_more_removals"]

SESSIONS, GROUPS, COUNTS = "parity-counts-changelog", "parity-by-n-repartition", "parity-by-n-counts-changelog"
OLD, NEW = "00", "01"
Records = list[Mapping[str, Any]]


def with_counts_of_more_removals(
    case: Mapping[str, Any], run: Mapping[str, Any], expected: dict[str, Any], actual: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what is expected where removals come beside those recorded; what was recorded, if one is not right."""
    retention = int(case["internal_topics"][SESSIONS]["configs"]["retention.ms"]) - CHANGELOG_KEPT_LONGER_MS
    inputs, recorded, ours = run["steps"], expected["steps"], actual["steps"]
    if len(ours) != len(recorded) or not _are_removals_right(inputs, recorded, ours, retention):
        return expected
    java, here = _Below(), _Below()
    steps = []
    for given, step, our_step in zip(inputs, recorded, ours, strict=True):
        headers = given.get("in", {}).get("headers", [])
        groups = java.groups(_of(step, SESSIONS), headers)
        missing = beside(_of(step, GROUPS), groups)
        if missing is None or not all(groups[place]["value_hex"].endswith(OLD) for place in missing):
            return expected
        if explain([*_of(step, COUNTS), *step["out"]], _both(java.counts(_of(step, GROUPS)))):
            return expected
        sessions = _of(our_step, SESSIONS)
        groups = here.groups(sessions, headers)
        logged, sent = here.counts(groups)
        steps.append({**step, "internal": [*logged, *groups, *sessions], "out": sent})
    if explain(expected["stores"]["by-n-counts"]["entries"], java.entries()):
        return expected
    stores = {**expected["stores"], "by-n-counts": {"kind": "timestamped-kv", "entries": here.entries()}}
    return {**expected, "steps": steps, "stores": stores}


def _of(step: Mapping[str, Any], topic: str) -> Records:
    return [record for record in step["internal"] if record["topic"] == topic]


def _both(parts: tuple[Records, Records]) -> Records:
    return [*parts[0], *parts[1]]


def _are_removals_right(
    inputs: Sequence[Mapping[str, Any]], recorded: Sequence[Mapping[str, Any]], ours: Sequence[Any], retention_ms: int
) -> bool:
    """Whether ours has the recorded changelog of sessions, and beside it removals of expired sessions only."""
    latest = -1
    there: set[str] = set()
    for given, step, our_step in zip(inputs, recorded, ours, strict=True):
        sessions = _of(our_step, SESSIONS)
        latest = max([latest, *(_end(record["key_hex"]) for record in _of(step, SESSIONS))])
        added = beside(_of(step, SESSIONS), sessions)
        if added is None:
            return False
        for place, record in enumerate(sessions):
            key, removes = record["key_hex"], record["value_hex"] is None
            if place in added:
                removal = {"topic": SESSIONS, "key_hex": key, "value_hex": None, "headers": []}
                if record != {**removal, "timestamp": given.get("in", {}).get("timestamp")}:
                    return False
                if key not in there or _end(key) > latest - retention_ms:
                    return False
            there = there - {key} if removes else there | {key}
    return True


def _end(session: str) -> int:
    """The end of a session: its key is the key of its records, its end and its start."""
    return int(unpack(">q", bytes.fromhex(session)[-16:-8])[0])


class _Below:
    """What is below a table of sessions, computed from the records of its changelog."""

    def __init__(self) -> None:
        self._sessions: dict[str, int] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        """By group: the count and its time."""

    def groups(self, sessions: Records, headers: Any) -> Records:
        """What the repartition topic gets of records of the changelog of sessions."""
        found: Records = []
        for session in sessions:
            key = bytes.fromhex(session["key_hex"])[:-16].hex()
            old = self._sessions.pop(session["key_hex"], None)
            new = None if session["value_hex"] is None else unpack(">q", bytes.fromhex(session["value_hex"]))[0]
            if new is not None:
                self._sessions[session["key_hex"]] = new
            for count, mark in ((old, OLD), (new, NEW)):
                if count is not None:
                    found.append({
                        "topic": GROUPS,
                        "key_hex": f"n{count}".encode().hex(),
                        "value_hex": key + mark,
                        "timestamp": _end(session["key_hex"]),
                        "headers": headers,
                    })  # fmt: skip
        return found

    def counts(self, groups: Records) -> tuple[Records, Records]:
        """What the changelog of counts gets of records of the repartition topic, and what is sent."""
        logged: Records = []
        sent: Records = []
        for record in groups:
            name = bytes.fromhex(record["key_hex"]).decode()
            count, time = self._counts.get(name, (0, -1))
            count += 1 if record["value_hex"].endswith(NEW) else -1
            time = max(time, record["timestamp"])
            self._counts[name] = count, time
            value = {"value_hex": pack(">q", count).hex(), "timestamp": time, "headers": []}
            logged.append({"topic": COUNTS, "key_hex": record["key_hex"], **value})
            output = {"topic": "output", "key": name, "value": count, "timestamp": time}
            sent.append({**output, "headers": record["headers"]})
        return logged, sent

    def entries(self) -> list[dict[str, Any]]:
        """What the store of counts has."""
        return [
            {"key": name, "value": count, "timestamp": time} for name, (count, time) in sorted(self._counts.items())
        ]
