"""What Java loses is computed from its recordings, so that each record of ours that is wrong or missing is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.java_names import config_of
from golden_support.more_records import beside, with_more
from golden_support.recordings import read_json
from golden_support.replay import expected_run, replay
from golden_support.session import GOLDEN
from golden_support.topologies import load_topologies

TOPOLOGIES = load_topologies(GOLDEN / "topologies", None)
CASES = (
    "window-emit-final-time-jump",
    "window-emit-final-time-jump.memory",
    "window-hopping-emit-final",
    "sliding-emit-final",
    "sliding-emit-final-no-throttle",
    "session-count",
    "session-zero-gap",
    "headers-store-session-count",
    "suppress-window-close-session",
)
"""Recordings from which Java has lost records of each kind."""
PARTS = ("out", "internal")


def recorded(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    case = read_json(GOLDEN / "recordings" / "topologies" / f"{name}.json.gz")
    return case, case["runs"]


def expected(case: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    known = expected_run(run)
    return {**known, "steps": with_more(case, run, known["steps"])}


def wrong(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The record with one thing in it that is wrong."""
    yield {**record, "headers": [*record.get("headers", []), ["more", "00"]]}
    yield {**record, "timestamp": (record["timestamp"] or 0) + 1}
    yield {**record, "topic": f"{record['topic']}-other"}
    if "key_hex" in record:
        yield {**record, "key_hex": "7a" + record["key_hex"][2:]}
        yield {**record, "value_hex": "7a" * 8 if record["value_hex"] is None else None}
    else:
        key = record["key"]
        yield {**record, "key": {**key, "key": "z"} if isinstance(key, dict) else f"z{key}"}
        yield {**record, "value": 77 if record["value"] is None else None}


def corrupted(run: dict[str, Any], numbers: list[int]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The run with one record of these steps that is wrong, missing or there twice: its place, and the run."""
    for number in numbers:
        step = run["steps"][number]
        for part in PARTS:
            for place, record in enumerate(step.get(part, ())):
                for others in ([], [record, record], *([one] for one in wrong(record))):
                    steps = list(run["steps"])
                    steps[number] = {**step, part: [*step[part][:place], *others, *step[part][place + 1 :]]}
                    yield (number, part, place, others), {**run, "steps": steps}


@pytest.mark.parametrize("name", CASES)
def test_what_java_loses_is_computed_and_every_other_record_is_noticed(name: str) -> None:
    """Both where our result is corrupted and where the recording is."""
    case, runs = recorded(name)
    run = max(runs, key=lambda each: len(lost_steps(case, each)))
    lost = lost_steps(case, run)
    assert lost
    run = {**run, "steps": run["steps"][: lost[:3][-1] + 1]}
    actual = replay(case, run, TOPOLOGIES[case["case"]], config_of(case["config"]))
    whole = expected(case, run)
    assert not noticed(whole, actual)
    seen = 0
    for place, other in corrupted(actual, lost[:3]):
        assert noticed(whole, other), ("result", place)
        seen += 1
    for place, other in corrupted(run, lost[:3]):
        # A result that is not recorded is one more that Java has lost.
        if place[3]:
            assert noticed(expected(case, other), actual), ("recording", place)
            seen += 1
    assert seen > 10


def lost_steps(case: dict[str, Any], run: dict[str, Any]) -> list[int]:
    """The numbers of the steps in which Java loses records."""
    pairs = zip(expected(case, run)["steps"], expected_run(run)["steps"], strict=True)
    return [number for number, (ours, java) in enumerate(pairs) if any(ours[part] != java[part] for part in PARTS)]


def noticed(wanted: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether steps that both have differ."""
    pairs = zip(wanted["steps"], found["steps"], strict=False)
    return any(one[part] != other[part] for one, other in pairs for part in PARTS)


def test_every_entry_has_a_case_here() -> None:
    """No recording is compared by what is computed for it without a test that each corruption is noticed."""
    import tomllib

    tables = tomllib.loads((GOLDEN / "differences.toml").read_text(encoding="utf-8"))["topology"]
    patterns = [table["case"] for table in tables if table.get("more")]
    names = [recorded(name)[0]["case"] for name in CASES]
    kinds = {pattern: any(fnmatchcase(name, pattern) for name in names) for pattern in patterns}
    unlike = sorted(pattern for pattern, found in kinds.items() if not found)
    assert unlike == ["cogroup-session-windows", "session-[ar]*"], "these lose nothing in the project's own recordings"


def test_records_keep_their_order() -> None:
    assert beside([1, 3], [1, 2, 3]) == [1]
    assert beside([3, 1], [1, 2, 3]) is None
    assert explain([1], [1]) == ""
