"""Replaying a trace notices every result and changelog record: held against a store that is a dictionary."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.store_traces import Change, LogRecord, calls_not_built, expected_trace, replay_trace
from processor_api.stores.queries import KeyQuery
from streams.queries.answers import UnknownQueryType


class Rows:
    """Rows as they were when they were opened."""

    def __init__(self, rows: Iterable[tuple[str, Any]]) -> None:
        self._rows = list(rows)
        self._closed = False

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self

    def __next__(self) -> tuple[str, Any]:
        self._check()
        return self._rows.pop(0)

    def peek_next_key(self) -> str:
        self._check()
        return self._rows[0][0]

    def _check(self) -> None:
        if self._closed:
            raise ValueError("closed")
        if not self._rows:
            raise StopIteration

    def close(self) -> None:
        self._closed = True


class Model:
    """A key-value store."""

    def __init__(self, log: Callable[[str, Any], None]) -> None:
        self.rows: dict[str, Any] = {}
        self._log = log

    def put(self, key: str | None, value: Any) -> None:
        if key is None:
            raise ValueError("a key is needed")
        self.rows.pop(key, None)
        if value is not None:
            self.rows[key] = value
        self._log(key, value)

    def put_if_absent(self, key: str, value: Any) -> Any:
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def put_all(self, entries: Iterable[tuple[str, Any]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def get(self, key: str | None) -> Any:
        if key is None:
            raise ValueError("a key is needed")
        return self.rows.get(key)

    def delete(self, key: str) -> Any:
        before = self.get(key)
        self.put(key, None)
        return before

    def approximate_num_entries(self) -> int:
        return len(self.rows)

    def all(self) -> Rows:
        return self.range(None, None)

    def reverse_all(self) -> Rows:
        return self.reverse_range(None, None)

    def range(self, low: str | None, high: str | None) -> Rows:
        return Rows((k, v) for k, v in sorted(self.rows.items()) if (low or "") <= k and (high is None or k <= high))

    def reverse_range(self, low: str | None, high: str | None) -> Rows:
        return Rows(reversed(list(self.range(low, high))))

    def prefix_scan(self, prefix: str) -> Rows:
        return Rows((k, v) for k, v in sorted(self.rows.items()) if k.startswith(prefix))


class ModelHarness:
    """Holds a model; ``timestamped`` values bring their own timestamp to the changelog."""

    def __init__(self, timestamped: bool) -> None:
        self._timestamped = timestamped
        self._now = 0
        self._logged: list[LogRecord] = []
        self.store = Model(self._log)
        self.closed = False

    def _log(self, key: str, value: Any) -> None:
        timestamp = value.timestamp if self._timestamped and value is not None else self._now
        raw = value.value if self._timestamped and value is not None else value
        self._logged.append((key.encode(), None if raw is None else raw.encode(), timestamp, []))

    def run(self, timestamp: int, offset: int, call: Callable[[Any], Any]) -> Any:
        self._now = timestamp
        return call(self.store)

    def query(self, query: Any) -> Any:
        if not isinstance(query, KeyQuery):
            raise UnknownQueryType("a model answers queries of keys")
        return self.store.get(query.key)

    def flush_cache(self) -> None:
        self.take_changelog()

    def take_forwarded(self) -> Sequence[Change]:
        return ()

    def take_changelog(self) -> Sequence[LogRecord]:
        logged, self._logged = self._logged, []
        return logged

    def restored(self, records: Sequence[LogRecord]) -> ModelHarness:
        from processor_api.stores.contracts import ValueAndTimestamp

        other = ModelHarness(self._timestamped)
        for key, value, timestamp, _ in records:
            text = None if value is None else value.decode()
            timed = self._timestamped and text is not None
            other.store.put(key.decode(), ValueAndTimestamp(text, timestamp) if timed else text)
        return other

    def close(self) -> None:
        self.closed = True


def _logged(op: int, key: str, value: str | None, timestamp: int) -> dict[str, Any]:
    data = None if value is None else value.encode().hex()
    return {"op": op, "key_hex": key.encode().hex(), "value_hex": data, "timestamp": timestamp, "headers": []}


TRACE: dict[str, Any] = {
    "name": "all",
    "store": {"kind": "kv", "engine": "memory", "logging": True, "caching": False},
    "ops": [
        {"op": "put", "args": {"key": "a", "value": "1"}, "record_timestamp": 5, "result": None},
        {"op": "put_if_absent", "args": {"key": "a", "value": "2"}, "record_timestamp": 6, "result": "1"},
        {
            "op": "put_all",
            "args": {"entries": [{"key": "b", "value": "2"}, {"key": "c", "value": "3"}]},
            "record_timestamp": 7,
            "result": None,
        },
        {"op": "get", "args": {"key": "b"}, "result": "2"},
        {"op": "get", "args": {"key": None}, "result": {"error": "NullPointerException"}},
        {"op": "open", "args": {"id": 1, "call": "range", "from": "a", "to": None}, "result": None},
        {"op": "delete", "args": {"key": "c"}, "record_timestamp": 8, "result": "3"},
        {"op": "has_next", "args": {"id": 1}, "result": True},
        {"op": "peek", "args": {"id": 1}, "result": "a"},
        {"op": "next", "args": {"id": 1}, "result": [["a", "1"]]},
        {
            "op": "next",
            "args": {"id": 1, "count": 9},
            "result": [["b", "2"], ["c", "3"], {"error": "NoSuchElementException"}],
        },
        {"op": "has_next", "args": {"id": 1}, "result": False},
        {"op": "peek", "args": {"id": 1}, "result": {"error": "NoSuchElementException"}},
        {"op": "close", "args": {"id": 1}, "result": None},
        {"op": "next", "args": {"id": 1}, "result": {"error": "IllegalStateException"}},
        {"op": "reverse_range", "args": {"from": "a", "to": "b"}, "result": [["b", "2"], ["a", "1"]]},
        {"op": "reverse_all", "args": {}, "result": [["b", "2"], ["a", "1"]]},
        {"op": "prefix_scan", "args": {"prefix": "b"}, "result": [["b", "2"]]},
        {"op": "approximate_num_entries", "args": {}, "result": 2},
        {"op": "query", "args": {"type": "KeyQuery", "key": "a"}, "result": "1"},
        {"op": "query", "args": {"type": "WindowKeyQuery", "key": "a", "from": 0, "to": 1},
         "result": {"failure": "UNKNOWN_QUERY_TYPE"}},
        {"op": "flush", "args": {}, "result": None},
        {"op": "all", "args": {}, "result": [["b", None]], "uncached_result": [["a", "1"], ["b", "2"]]},
    ],
    "contents": [{"op": "all", "args": {}, "result": [["a", "1"], ["b", "2"]]}],
    "changelog": [
        _logged(0, "a", "1", 5), _logged(2, "b", "2", 7), _logged(2, "c", "3", 7), _logged(6, "c", None, 8),
    ],
    "restored": [{"op": "all", "args": {}, "result": [["a", "1"], ["b", "2"]]}],
}  # fmt: skip

TIMESTAMPED: dict[str, Any] = {
    "name": "timestamps",
    "store": {"kind": "timestamped-kv", "engine": "memory", "logging": True, "caching": False},
    "ops": [
        {"op": "put", "args": {"key": "a", "value": "1", "timestamp": 3}, "record_timestamp": 5, "result": None},
        {"op": "get", "args": {"key": "a"}, "result": {"value": "1", "timestamp": 3}},
        {"op": "put", "args": {"key": "b", "value": None, "timestamp": 3}, "record_timestamp": 6, "result": None},
    ],
    "contents": [{"op": "all", "args": {}, "result": [["a", {"value": "1", "timestamp": 3}]]}],
    "changelog": [_logged(0, "a", "1", 3), _logged(2, "b", None, 6)],
    "restored": [{"op": "all", "args": {}, "result": [["a", {"value": "1", "timestamp": 3}]]}],
}


def replayed(trace: dict[str, Any]) -> str:
    harness = ModelHarness(trace["store"]["kind"] == "timestamped-kv")
    return explain(expected_trace(trace), replay_trace(trace, harness))


@pytest.mark.parametrize("trace", [TRACE, TIMESTAMPED], ids=lambda trace: trace["name"])
def test_a_store_that_does_the_same_passes(trace: dict[str, Any]) -> None:
    """Calls, iterators, changelog, contents and a second store restored from the changelog."""
    assert replayed(trace) == ""


def test_calls_that_are_not_built_are_named() -> None:
    """Their results are not compared."""
    assert calls_not_built(TRACE) == {"flush"}
    assert calls_not_built(TIMESTAMPED) == set()


@pytest.mark.parametrize("trace", [TRACE, TIMESTAMPED], ids=lambda trace: trace["name"])
def test_any_other_result_is_noticed(trace: dict[str, Any]) -> None:
    """At its own place; a call that is not built tells nothing."""
    for i, op in enumerate(trace["ops"]):
        other = copy.deepcopy(trace)
        other["ops"][i]["result"] = other["ops"][i]["uncached_result"] = "something else"
        report = replayed(other)
        assert (report == "") == (op["op"] == "flush")
        assert op["op"] == "flush" or report.startswith(f"/ops/{i}/result: ")


@pytest.mark.parametrize("field", ["key_hex", "value_hex", "timestamp", "op"])
def test_any_other_changelog_is_noticed(field: str) -> None:
    """And so are a missing record, other contents and another restored store."""
    other = copy.deepcopy(TRACE)
    other["changelog"][3][field] = 99
    assert replayed(other).startswith(f"/changelog/3/{field}: ")
    for part in ("contents", "restored"):
        other = copy.deepcopy(TRACE)
        other[part][0]["result"] = []
        assert replayed(other).startswith(f"/{part}/0: ")
    other = copy.deepcopy(TRACE)
    del other["changelog"][1]
    assert replayed(other).startswith("/changelog: ")
