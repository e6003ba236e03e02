"""The rule for the matches of a record with itself gives what a join has, whatever of them was not recorded."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from golden_support.difference_rules import RULES
from golden_support.java_names import config_of
from golden_support.replay import expected_run, replay
from golden_support.session import GOLDEN
from golden_support.topologies import load_topologies

TOPOLOGIES = load_topologies(GOLDEN / "topologies", None)
STRINGS = {"key": "string", "value": "string"}
CASES = {"self-join-optimized": "all", "self-join-optimized-asymmetric": "single.store.self.join"}


def drawn(chance: Random) -> dict[str, Any]:
    """A run of records, each with a value of its own, some of them late by up to twice of what a store keeps."""
    steps, now = [], 100
    for number in range(40):
        now += chance.randrange(6)
        late = chance.randrange(60) if chance.random() < 0.4 else 0
        record = {"topic": "left", "key": chance.choice("ab"), "value": f"v{number}v", "timestamp": now - late}
        steps.append({"in": record})
    return {"name": "drawn", "start_time_ms": 0, "steps": steps}


def with_few_values(document: Any, names: dict[str, str]) -> Any:
    """The document with a few letters in place of the many values."""
    if isinstance(document, dict):
        return {name: with_few_values(value, names) for name, value in document.items()}
    if isinstance(document, list):
        return [with_few_values(value, names) for value in document]
    if isinstance(document, str):
        return re.sub("v[0-9]+v|V[0-9]+V", lambda found: names[found[0]], document)
    return document


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", CASES)
def test_a_record_meets_itself_beside_others_of_the_same_value(name: str, seed: int) -> None:
    """Also where others of the same value come before and behind it."""
    optimization = CASES[name]
    chance = Random(seed)
    case = {"case": name, "topics": {"left": STRINGS, "output": STRINGS}}
    run = drawn(chance)
    settings = config_of({"topology.optimization": optimization})
    steps = replay(case, run, TOPOLOGIES[name], settings)["steps"]
    recorded = [
        {**step, "out": [one for one in step["out"] if not is_of_itself(one) or chance.random() < 0.5]}
        for step in steps
    ]
    lost = sum(len(step["out"]) for step in steps) - sum(len(step["out"]) for step in recorded)
    assert lost > 0
    names: dict[str, str] = {}
    for number in range(40):
        names[f"v{number}v"] = letter = chance.choice("pq")
        names[f"V{number}V"] = letter.upper()
    few = with_few_values(run, names)
    rule = RULES["a record that is kept meets itself"]
    found = rule(with_few_values(recorded, names), few)
    assert [step["out"] for step in found] == [step["out"] for step in with_few_values(steps, names)]


def is_of_itself(record: dict[str, Any]) -> bool:
    left, _, right = record["value"].partition("+")
    return left == right


def test_a_match_of_a_record_that_has_expired_is_no_match() -> None:
    """Though one of another record of the same value is."""
    records = [("p", 100), ("p", 75), ("p", 69), ("p", 62)]
    steps = [{"in": {"topic": "left", "key": "a", "value": value, "timestamp": time}} for value, time in records]
    known = expected_run({"steps": steps})["steps"]
    for step, (_, time) in zip(known, records, strict=True):
        step["out"] = [{"topic": "output", "key": "a", "value": "p+p", "timestamp": time, "headers": []}]
    found = RULES["a record that is kept meets itself"](known, {"steps": steps})
    # The third meets the second, and the second it: both are in the window. Neither it nor the last meets itself.
    assert [len(step["out"]) for step in found] == [1, 1, 1, 0]
