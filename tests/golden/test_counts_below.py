"""Counts below a table of sessions may differ from Java's only by the removals that Java forgets."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from golden_support.changed import changed, without
from golden_support.compare import explain
from golden_support.counts_below import GROUPS, SESSIONS, with_counts_of_more_removals
from golden_support.java_names import config_of
from golden_support.recordings import read_json
from golden_support.replay import expected_run, replay
from golden_support.session import GOLDEN
from golden_support.topologies import load_topologies

NAME = "session-groupby-downstream"
CASE: dict[str, Any] = read_json(GOLDEN / "recordings" / "topologies" / f"{NAME}.json.gz")
RUN = next(run for run in CASE["runs"] if run["name"] == "random:seed=1")
FIRST = 17
"""The first step in which Java forgets a removal."""


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    build = load_topologies(GOLDEN / "topologies", None)[NAME]
    return replay(CASE, RUN, build, config_of(CASE["config"]))


def difference(ours: dict[str, Any], recorded: dict[str, Any] | None = None) -> str:
    expected = recorded or expected_run(RUN)
    return explain(with_counts_of_more_removals(CASE, RUN, expected, ours), ours)


def records(document: dict[str, Any], step: int, topic: str) -> list[dict[str, Any]]:
    return [record for record in document["steps"][step]["internal"] if record["topic"] == topic]


def test_removals_and_what_follows_from_them_are_right(ours: dict[str, Any]) -> None:
    recorded = expected_run(RUN)
    assert explain(recorded["steps"][:FIRST], ours["steps"][:FIRST]) == ""
    assert explain(recorded["steps"][FIRST], ours["steps"][FIRST]) != ""
    assert explain(recorded["stores"], ours["stores"]) != ""
    assert difference(ours) == ""


def test_anything_else_is_noticed(ours: dict[str, Any]) -> None:
    """Each field of each record, drop, call and row, before and behind the first removal; and records that are gone."""
    places = [("steps", step, part) for step in range(FIRST - 2, FIRST + 4) for part in ("internal", "out")]
    looked_at = 0
    for place in (*places, ("stores", "by-n-counts", "entries"), ("stores", "counts", "entries"), ("metrics",)):
        for where, other in changed(ours, *place):
            assert difference(other) != "", where
            looked_at += 1
    for place in (*places, ("stores", "by-n-counts", "entries"), ("stores", "counts", "entries")):
        for where, other in without(ours, *place):
            assert difference(other) != "", where
            looked_at += 1
    assert looked_at > 100


@pytest.mark.parametrize("step", [FIRST, FIRST + 1])
def test_a_removal_that_is_not_taken_out_of_its_group_is_wrong(ours: dict[str, Any], step: int) -> None:
    """With its count as Java has it."""
    wrong = copy.deepcopy(ours)
    gone = records(wrong, step, GROUPS)[0]
    wrong["steps"][step]["internal"].remove(gone)
    assert difference(wrong) != ""


def test_a_session_that_is_shown_is_not_removed_beside_those_recorded(ours: dict[str, Any]) -> None:
    """Also where all that is below follows: with the removal last of all, of the latest session."""
    step = len(ours["steps"]) - 1
    latest = next(record for record in reversed(records(ours, step, SESSIONS)) if record["value_hex"] is not None)
    wrong = copy.deepcopy(ours)
    wrong["steps"][step]["internal"].append({**latest, "value_hex": None})
    below = copy.deepcopy(wrong)
    count = int.from_bytes(bytes.fromhex(latest["value_hex"]), "big")
    below["steps"][step]["internal"].append({
        "topic": GROUPS,
        "key_hex": f"n{count}".encode().hex(),
        "value_hex": bytes.fromhex(latest["key_hex"])[:-16].hex() + "00",
        "timestamp": 1,
        "headers": [],
    })  # fmt: skip
    assert difference(wrong) != ""
    assert difference(below) != ""


def test_a_session_that_is_not_there_is_not_removed(ours: dict[str, Any]) -> None:
    removal = next(record for record in records(ours, FIRST, SESSIONS) if record["value_hex"] is None)
    wrong = copy.deepcopy(ours)
    wrong["steps"][FIRST + 1]["internal"].append(removal)
    assert difference(wrong) != ""


def test_no_session_comes_beside_those_recorded(ours: dict[str, Any]) -> None:
    added = next(record for record in records(ours, FIRST, SESSIONS) if record["value_hex"] is not None)
    wrong = copy.deepcopy(ours)
    wrong["steps"][FIRST]["internal"].append({**added, "key_hex": "7a" + added["key_hex"][2:]})
    assert difference(wrong) != ""


def test_a_recording_that_breaks_the_rules_is_expected_as_it_is(ours: dict[str, Any]) -> None:
    """Another count of Java's than its repartition topic says, and a group that its sessions do not say."""
    for topic, field, value in (
        ("parity-by-n-counts-changelog", "value_hex", "00000000000000ff"),
        (GROUPS, "key_hex", b"n9".hex()),
    ):
        recorded = expected_run(RUN)
        records(recorded, 3, topic)[0][field] = value
        assert difference(ours, recorded) != ""
