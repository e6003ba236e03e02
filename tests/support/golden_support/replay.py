"""Replaying the runs of a recorded topology on the test driver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from golden_support import calls
from golden_support.store_contents import read_store
from golden_support.typed_values import TypedValue, typed_value
from state_support.forgetful_versions import forget_deletions
from streams.testing import TopologyTestDriver

__all__ = ["expected_run", "raw_record", "replay", "start_driver", "start_forgetful_driver"]

DROPPED = "dropped-records-total"
NOT_RECORDED = {"__streams.errors.stacktrace": "(not recorded)"}
OURS = "__streams.errors.node"
"""A header that Kafka Streams does not write."""
PREFIX = "parity-"

RawRecord = tuple[str, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]
"""``(topic, key, value, timestamp_ms, headers)``"""


class _Topics:
    """The serdes of a case's topics, and the order in which its outputs are listed."""

    def __init__(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        self._order = {topic: i for i, topic in enumerate(topics)}
        self._serdes = {
            topic: (typed_value(types["key"]), typed_value(types["value"])) for topic, types in topics.items()
        }

    def serdes(self, topic: str) -> tuple[TypedValue, TypedValue] | None:
        return self._serdes.get(topic)

    def is_internal(self, topic: str) -> bool:
        return topic.startswith(PREFIX) and topic not in self._serdes

    def position(self, topic: str) -> tuple[int, str]:
        return self._order.get(topic, len(self._order)), topic


def expected_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded run in the form in which `replay` reports: with what a recording leaves out when it is empty."""
    steps = [
        {
            "out": [{**record, "headers": record.get("headers", [])} for record in step.get("out", ())],
            "internal": _by_key(
                [{**record, "headers": record.get("headers", [])} for record in step.get("internal", ())],
                _of_buffers(run),
            ),
            "calls": step.get("calls", []),
            "dropped": step.get("dropped", 0),
            "throws": "throws" in step,
        }
        for step in run["steps"]
    ]
    document: dict[str, Any] = {"steps": steps}
    if "stores" in run:
        document |= {"stores": run["stores"], "metrics": run["metrics"]}
    return document


def start_driver(topology: Any, config: Any, initial_wall_clock_time: int) -> Any:
    """The driver that recordings are replayed on."""
    return TopologyTestDriver(topology, config, initial_wall_clock_time=initial_wall_clock_time)


def start_forgetful_driver(topology: Any, config: Any, initial_wall_clock_time: int) -> Any:
    """The same, whose versioned stores forget deletions where Java's do."""
    driver = start_driver(topology, config, initial_wall_clock_time)
    for store in driver.get_all_state_stores().values():
        forget_deletions(store)
    return driver


def replay(
    case: Mapping[str, Any],
    run: Mapping[str, Any],
    build: Callable[[Any], Any],
    config: Any,
    driver_of: Callable[[Any, Any, int], Any] = start_driver,
) -> dict[str, Any]:
    """What happens here when a run's steps are repeated, in the form of `expected_run`.

    An error in a step that was not recorded to fail is raised, with the step in its notes.
    """
    topics = _Topics(case["topics"])
    steps: list[dict[str, Any]] = []
    document: dict[str, Any] = {"steps": steps}
    topology = build(config)
    calls.take()
    with contextlib.ExitStack() as stack:
        try:
            driver = driver_of(topology, config, run["start_time_ms"])
            stack.callback(driver.close)
        except Exception as error:
            steps.append({"out": [], "internal": [], "calls": calls.take(), "dropped": 0, "throws": error})
            return _settle(document, run)
        dropped, clock_ms = 0, run["start_time_ms"]
        for step in run["steps"]:
            clock_ms += step.get("advance_wall_clock_ms", 0)
            failure: Exception | None = None
            try:
                _do(driver, step, topics)
            except Exception as error:  # compared below: a step may have to fail
                failure = error
            out, internal = _produced(driver.take_produced(), topics)
            internal = _by_key(_without_given_times(internal, step, clock_ms), _of_buffers(run))
            now = int(driver.metrics()[DROPPED])
            steps.append({
                "out": out,
                "internal": internal,
                "calls": calls.take(),
                "dropped": 0 if failure else now - dropped,
                "throws": failure,
            })  # fmt: skip
            dropped = now
            if failure:
                break
        else:
            if "stores" in run:
                document["stores"] = _stores(driver, run["stores"])
                document["metrics"] = {DROPPED: dropped}
    return _settle(document, run)


def _of_buffers(run: Mapping[str, Any]) -> set[str]:
    """The changelogs of suppressions: there, records of a commit come in the order of a hash set, each key once."""
    records = [record for step in run["steps"] for record in step.get("internal", ())]
    return {record["topic"] for record in records if record.get("headers") == [["v", "03"]]} | {
        record["topic"] for record in records if record["value_hex"] is None and record["timestamp"] is None
    }


def _by_key(records: list[dict[str, Any]], topics: set[str]) -> list[dict[str, Any]]:
    """In each step's part of these topics."""
    return sorted(
        records, key=lambda record: (record["topic"], str(record["key_hex"]) if record["topic"] in topics else "")
    )


def _without_given_times(
    internal: list[dict[str, Any]], step: Mapping[str, Any], wall_clock_ms: int
) -> list[dict[str, Any]]:
    """Where Java gives a record no time and leaves it to the producer, it is the wall clock's here."""
    untimed = {record["topic"] for record in step.get("internal", ()) if record["timestamp"] is None}
    return [
        {**record, "timestamp": None}
        if (record["topic"] in untimed and record["timestamp"] == wall_clock_ms)
        else record
        for record in internal
    ]


def _settle(document: dict[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """An expected error becomes ``True``; an unexpected one is raised with the step that caused it."""
    for i, step in enumerate(document["steps"]):
        failure = step["throws"]
        if failure is not None and "throws" not in run["steps"][i]:
            failure.add_note(f"in step {i}: {_shown(run['steps'][i])}")
            raise failure
        step["throws"] = failure is not None
    return document


def _shown(step: Mapping[str, Any]) -> Any:
    return step.get("in", {name: value for name, value in step.items() if name == "advance_wall_clock_ms"})


def _do(driver: Any, step: Mapping[str, Any], topics: _Topics) -> None:
    if "advance_wall_clock_ms" in step:
        driver.advance_wall_clock_time(step["advance_wall_clock_ms"])
        return
    driver.pipe_raw(*_raw(step["in"], topics))


def raw_record(case: Mapping[str, Any], step: Mapping[str, Any]) -> RawRecord:
    """The record of a step, as bytes."""
    return _raw(step["in"], _Topics(case["topics"]))


def _raw(record: Mapping[str, Any], topics: _Topics) -> RawRecord:
    if "key_hex" in record or "value_hex" in record:
        key, value = _unhex(record.get("key_hex")), _unhex(record.get("value_hex"))
    else:
        serdes = topics.serdes(record["topic"])
        if serdes is None:
            raise ValueError(f"the recording does not tell the serdes of topic {record['topic']!r}")
        key, value = serdes[0].to_bytes(record["key"]), serdes[1].to_bytes(record["value"])
    headers = [(name, _unhex(data)) for name, data in record.get("headers", ())]
    return record["topic"], key, value, record["timestamp"], headers


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _produced(produced: Mapping[str, Any], topics: _Topics) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    out = [
        _record(topic, record, topics.serdes(topic))
        for topic in sorted(produced, key=topics.position)
        if not topics.is_internal(topic)
        for record in produced[topic]
    ]
    internal = [
        _record(topic, record, None)
        for topic in sorted(produced)
        if topics.is_internal(topic)
        for record in produced[topic]
    ]
    return out, internal


def _record(topic: str, record: Any, serdes: tuple[TypedValue, TypedValue] | None) -> dict[str, Any]:
    if serdes is None:
        shown = {"key_hex": _hex(record.key), "value_hex": _hex(record.value)}
    else:
        shown = {"key": serdes[0].from_bytes(record.key), "value": serdes[1].from_bytes(record.value)}
    headers = [[name, NOT_RECORDED.get(name, _hex(value))] for name, value in record.headers or () if name != OURS]
    return {"topic": topic, **shown, "timestamp": record.timestamp, "headers": headers}


def _stores(driver: Any, recorded: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found = {
        name: read_store(driver.get_state_store(name), recorded[name])
        for name in recorded
        if name in driver.get_all_state_stores()
    }
    return found | {name: "not recorded" for name in driver.get_all_state_stores() if name not in recorded}
