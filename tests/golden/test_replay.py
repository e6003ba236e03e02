"""Replaying notices everything that a recording tells: held against a driver that plays a recording back."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from golden_support import calls
from golden_support.compare import explain
from golden_support.replay import expected_run, replay

CASE: dict[str, Any] = {
    "topics": {
        "input": {"key": "string", "value": "string"},
        "second": {"key": "string", "value": "long"},
        "first": {"key": "bytes", "value": "string"},
    }
}
RUN: dict[str, Any] = {
    "name": "scenario:all",
    "start_time_ms": 100_000,
    "steps": [
        {
            "in": {"topic": "input", "key": "a", "value": None, "timestamp": 5, "headers": [["h", "00"], ["n", None]]},
            "out": [
                {"topic": "second", "key": "a", "value": 7, "timestamp": 5, "headers": [["h", "00"], ["n", None]]},
                {"topic": "second", "key": None, "value": None, "timestamp": 4},
                {"topic": "first", "key": "00ff", "value": "x", "timestamp": 5},
                {"topic": "dynamic", "key_hex": "61", "value_hex": None, "timestamp": 5},
            ],
            "internal": [
                {"topic": "parity-a-changelog", "key_hex": "61", "value_hex": "62", "timestamp": None},
                {"topic": "parity-b-repartition", "key_hex": None, "value_hex": "", "timestamp": 3},
            ],
            "calls": ["one", "two"],
            "dropped": 2,
        },
        {"advance_wall_clock_ms": 10, "out": []},
        {"in": {"topic": "input", "key_hex": None, "value_hex": "010203", "timestamp": 6}, "out": [], "dropped": 1},
    ],
    "stores": {
        "plain": {"kind": "kv", "entries": [{"key": "a", "value": "1"}, {"key": "b", "value": None}]},
        "timed": {"kind": "timestamped-kv", "entries": [{"key": "a", "value": 1, "timestamp": 9}]},
        "other": {"kind": "unread"},
    },
    "metrics": {"dropped-records-total": 3},
}
THROWING: dict[str, Any] = {
    "name": "scenario:throws",
    "start_time_ms": 0,
    "steps": [
        {"in": {"topic": "input", "key": "a", "value": "b", "timestamp": 5}, "out": [], "dropped": 1},
        {
            "in": {"topic": "input", "key": "a", "value": "r", "timestamp": 5},
            "out": [{"topic": "first", "key": "00", "value": "x", "timestamp": 5}],
            "calls": ["before"],
            "throws": ["StreamsException"],
        },
    ],
}


class Sent(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: list[tuple[str, bytes | None]] | None


class Timed(NamedTuple):
    value: Any
    timestamp: int


class Rows:
    """A store that can only be listed."""

    def __init__(self, rows: list[tuple[Any, Any]]) -> None:
        self._rows = rows

    def all(self) -> Rows:
        return self

    def __enter__(self) -> list[tuple[Any, Any]]:
        return self._rows

    def __exit__(self, *error: object) -> None:
        pass


class Playback:
    """A driver that does what a recorded run says, whatever it is given."""

    def __init__(self, run: Mapping[str, Any], config: Any, initial_wall_clock_time: int) -> None:
        self.start = initial_wall_clock_time
        self.piped: list[tuple[Any, ...]] = []
        self._run = run
        self._steps = iter(run["steps"])
        self._dropped = 0
        self._produced: dict[str, list[Sent]] = {}
        self.closed = False

    def pipe_raw(self, *record: Any) -> None:
        self.piped.append(record)
        self._next()

    def advance_wall_clock_time(self, ms: int) -> None:
        self.piped.append((ms,))
        self._next()

    def _next(self) -> None:
        step = next(self._steps)
        produced = defaultdict(list)
        for record in step.get("out", []) + step.get("internal", []):
            headers = [(name, data and bytes.fromhex(data)) for name, data in record.get("headers", [])]
            produced[record["topic"]].append(Sent(*_raw(record), record["timestamp"], headers or None))
        self._produced = dict(reversed(produced.items()))
        for line in step.get("calls", []):
            calls.call(line)
        self._dropped += step.get("dropped", 0)
        if "throws" in step:
            raise RuntimeError("thrown")

    def take_produced(self) -> dict[str, list[Sent]]:
        return self._produced

    def metrics(self) -> dict[str, float]:
        return {"dropped-records-total": float(self._dropped)}

    def get_all_state_stores(self) -> dict[str, Any]:
        return {name: self.get_state_store(name) for name in self._run["stores"]}

    def get_state_store(self, name: str) -> Rows:
        recorded = self._run["stores"][name]
        timed = recorded["kind"] == "timestamped-kv"
        return Rows([
            (row["key"], Timed(row["value"], row["timestamp"]) if timed else row["value"])
            for row in recorded.get("entries", [])
        ])  # fmt: skip

    def close(self) -> None:
        self.closed = True


def _raw(record: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
    if "key_hex" in record:
        return tuple(None if record[n] is None else bytes.fromhex(record[n]) for n in ("key_hex", "value_hex"))  # type: ignore[return-value]
    key, value = record["key"], record["value"]
    as_bytes = bytes.fromhex if record["topic"] == "first" else str.encode
    return key and as_bytes(key), value.to_bytes(8, "big") if isinstance(value, int) else value and value.encode()


def replayed(recorded: dict[str, Any], played: dict[str, Any]) -> tuple[str, Playback]:
    """The report of replaying one run on a driver that plays another."""
    drivers: list[Playback] = []

    def start(topology: Any, config: Any, start_ms: int) -> Playback:
        drivers.append(Playback(topology, config, start_ms))
        return drivers[0]

    actual = replay(CASE, recorded, lambda config: played, None, start)
    return explain(expected_run(recorded), actual), drivers[0]


def test_a_faithful_driver_passes() -> None:
    """Inputs arrive as bytes, in order, and the driver is closed."""
    report, driver = replayed(RUN, RUN)
    assert report == ""
    assert driver.piped == [
        ("input", b"a", None, 5, [("h", b"\x00"), ("n", None)]), (10,), ("input", None, b"\x01\x02\x03", 6, []),
    ]  # fmt: skip
    assert (driver.start, driver.closed) == (100_000, True)
    assert replayed(THROWING, THROWING)[0] == ""


def _at(*path: Any, value: Any) -> Callable[[Any], None]:
    def change(run: Any) -> None:
        for step in path[:-1]:
            run = run[step]
        run[path[-1]] = value

    return change


def _swap_out(run: Any) -> None:
    out = run["steps"][0]["out"]
    out[0], out[1] = out[1], out[0]


@pytest.mark.parametrize(
    "change",
    [
        _at("steps", 0, "out", 0, "value", value=8),
        _at("steps", 0, "out", 0, "timestamp", value=6),
        _at("steps", 0, "out", 0, "headers", value=[]),
        _at("steps", 0, "out", 1, "key", value="b"),
        _at("steps", 0, "out", 3, "value_hex", value="00"),
        _at("steps", 0, "out", value=[]),
        _swap_out,
        _at("steps", 0, "internal", 0, "timestamp", value=0),
        _at("steps", 0, "internal", 1, "value_hex", value=None),
        _at("steps", 0, "internal", value=[]),
        _at("steps", 0, "calls", value=["two", "one"]),
        _at("steps", 0, "dropped", value=1),
        _at("steps", 1, "out", value=[{"topic": "second", "key": "a", "value": 7, "timestamp": 5}]),
        _at("steps", 2, "dropped", value=2),
        _at("stores", "plain", "entries", value=[]),
        _at("stores", "timed", "entries", 0, "timestamp", value=8),
        _at("stores", "new", value={"kind": "unread"}),
    ],
)
def test_anything_else_than_recorded_is_noticed(change: Callable[[Any], None]) -> None:
    """Records, their order on a topic, headers, calls, drops, stores."""
    played = copy.deepcopy(RUN)
    change(played)
    assert replayed(RUN, played)[0] != ""


def test_a_store_that_is_not_there_is_noticed() -> None:
    """By its name."""
    played = copy.deepcopy(RUN)
    del played["stores"]["timed"]
    assert "/stores/timed" in replayed(RUN, played)[0]


def test_an_error_that_was_not_recorded_is_raised() -> None:
    """With the step that it happened in."""
    calm = copy.deepcopy(THROWING)
    del calm["steps"][1]["throws"]
    calm |= {"stores": {}, "metrics": {"dropped-records-total": 1}}
    with pytest.raises(RuntimeError, match="thrown") as caught:
        replayed(calm, THROWING)
    assert caught.value.__notes__ == [f"in step 1: {calm['steps'][1]['in']}"]


def test_a_recorded_error_that_does_not_come_is_noticed() -> None:
    """And so is what was sent, or reported, before an error."""
    calm = copy.deepcopy(THROWING)
    del calm["steps"][1]["throws"]
    assert "/steps/1/throws: expected true, got false" in replayed(THROWING, calm | {"stores": {}})[0]
    silent = copy.deepcopy(THROWING)
    silent["steps"][1] |= {"out": [], "calls": []}
    assert len(replayed(THROWING, silent)[0].splitlines()) == 2
