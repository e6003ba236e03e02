"""Replaying recorded calls on a store.

A trace is replayed on a harness: something that holds one store in a task, runs each call as if while a record is
processed, tells what went to the changelog, and can restore a second store from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from golden_support.idle_removals import without_idle_removals
from golden_support.store_calls import StoreCalls, has_call
from golden_support.store_queries import run_query

__all__ = ["Change", "Harness", "LogRecord", "calls_not_built", "expected_trace", "replay_trace"]

LogRecord = tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]]]
"""Key, value, timestamp in ms and headers of a changelog record."""

Change = tuple[str, Any, Any, int]
"""Key, new value, old value and timestamp in ms of a change that a cache forwarded; values are plain."""

SKIPPED = "(not built)"
FLUSH = "flush_cache"
QUERY = "query"


class Harness(Protocol):
    """One store in a task."""

    def run(self, timestamp: int, offset: int, call: Callable[[Any], Any]) -> Any:
        """The result of ``call(store)``, made while a record of "input", partition 0, with this timestamp and offset
        and the one header ``input`` = 01 is processed."""
        ...

    def query(self, query: Any) -> Any:
        """What the store gives for a query; an iterator is not closed yet.

        :raises UnknownQueryType: if stores of its kind cannot be asked this.
        """
        ...

    def flush_cache(self) -> None: ...

    def take_changelog(self) -> Sequence[LogRecord]:
        """What was logged since the last time."""
        ...

    def take_forwarded(self) -> Sequence[Change]:
        """What the cache forwarded since the last time."""
        ...

    def restored(self, records: Sequence[LogRecord]) -> Harness:
        """A new store of the same kind, restored from a changelog."""
        ...

    def close(self) -> None: ...


def calls_not_built(trace: Mapping[str, Any]) -> set[str]:
    """Calls of a trace that have no counterpart here yet; their results are not compared."""
    kind = trace["store"]["kind"]
    return {op["op"] for op in trace["ops"] if not _is_built(kind, op)}


def _is_built(kind: str, op: Mapping[str, Any]) -> bool:
    return op["op"] in (FLUSH, QUERY) or has_call(kind, op)


def expected_trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded trace in the form of `replay_trace`. Where a cached store returned something else than the same store
    without a cache, the latter counts: it is a defect of the library's caches."""
    kind, trace = trace["store"]["kind"], without_idle_removals(trace)
    ops = [
        {
            "op": op["op"],
            "args": op["args"],
            "result": _expected_result(kind, op),
            "forwarded": [_change(change) for change in op.get("forwarded", ())],
        }
        for op in trace["ops"]
    ]
    document: dict[str, Any] = {"ops": ops, "contents": [_uncached(read) for read in trace["contents"]]}
    if "changelog" in trace:
        document["changelog"] = trace["changelog"]
        document["restored"] = [_plain(read["result"]) for read in trace["restored"]]
    return document


def _expected_result(kind: str, op: Mapping[str, Any]) -> Any:
    if not _is_built(kind, op):
        return SKIPPED
    if op["op"] == QUERY:  # of ranges they read below the cache by design
        return _plain(op["result"])
    return _uncached(op)


def _uncached(read: Mapping[str, Any]) -> Any:
    return _plain(read.get("uncached_result", read["result"]))


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    """A change with the timestamp under which operators forward it: that of the new value where it has one, else that
    of the record that made it (semantics 76)."""
    shown = {"key": change["key"], "new": change["new"], "old": change["old"], "timestamp": change["timestamp"]}
    if isinstance(change["new"], dict):
        shown |= {"new": change["new"]["value"], "timestamp": change["new"]["timestamp"]}
    if isinstance(change["old"], dict):
        shown["old"] = change["old"]["value"]
    return shown


def _plain(result: Any) -> Any:
    """A result in which any of Java's exceptions is just an error."""
    if isinstance(result, dict) and "error" in result:
        return {"error": True}
    return [_plain(item) for item in result] if isinstance(result, list) else result


def replay_trace(trace: Mapping[str, Any], harness: Harness) -> dict[str, Any]:
    """What happens here when the calls of a trace are repeated, in the form of `expected_trace`."""
    calls = StoreCalls(trace["store"]["kind"])
    ops, changelog, logged = [], [], []
    for i, op in enumerate(trace["ops"]):
        result: Any = SKIPPED
        if op["op"] == FLUSH:
            result = harness.flush_cache()
        elif _is_built(trace["store"]["kind"], op):
            result = _run(harness, calls, op, i)
        forwarded = [
            {"key": key, "new": new, "old": old, "timestamp": timestamp}
            for key, new, old, timestamp in harness.take_forwarded()
        ]
        ops.append({"op": op["op"], "args": op["args"], "result": result, "forwarded": forwarded})
        for record in harness.take_changelog():
            logged.append(record)
            changelog.append(_shown(i, record))
    calls.close_iterators()
    document: dict[str, Any] = {"ops": ops, "contents": _contents(harness, calls, trace["contents"])}
    if "changelog" in trace:
        document["changelog"] = changelog
        restored = harness.restored(logged)
        try:
            document["restored"] = _contents(restored, calls, trace["restored"])
        finally:
            restored.close()
    return document


def _contents(harness: Harness, calls: StoreCalls, reads: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [_run(harness, calls, read, 0) for read in reads]


def _run(harness: Harness, calls: StoreCalls, op: Mapping[str, Any], offset: int) -> Any:
    if op["op"] == QUERY:
        return run_query(harness.query, op["args"])
    call = calls.prepare(op["op"], op["args"])
    return harness.run(op.get("record_timestamp", 0), offset, call)


def _shown(op: int, record: LogRecord) -> dict[str, Any]:
    key, value, timestamp, headers = record
    return {
        "op": op,
        "key_hex": key.hex(),
        "value_hex": None if value is None else value.hex(),
        "timestamp": timestamp,
        "headers": [[name, None if data is None else data.hex()] for name, data in headers],
    }
