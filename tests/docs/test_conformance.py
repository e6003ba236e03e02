"""The page of conformance has a line for each rule, and what it names exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"
RECORDINGS = ROOT / "tests" / "golden" / "recordings" / "topologies"

ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \|(.*)\|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
PROPOSAL = re.compile(r"^\| (KIP-\d+|KAFKA-\d+|no KIP) \| (.*?) \| (.*?) \| (.*?) \| (?:(.*) )?\|$", re.MULTILINE)
RULE = re.compile(r"^\*\*(\d+)\. (.*?)\*\*", re.MULTILINE | re.DOTALL)

NOT_BUILT = "not built yet"


def rows() -> list[tuple[int, str, str]]:
    """Returns number, tests and recordings of each line."""
    return [(int(number), tests, recordings) for number, _, tests, recordings in ROW.findall(PAGE.read_text())]


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """Returns the names of the tests of a file, at any depth, and of its classes of tests."""
    file = ROOT / path
    if not file.exists():
        return frozenset()
    nodes = ast.walk(ast.parse(file.read_text()))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return frozenset(n.name for n in nodes if isinstance(n, kinds) and re.match("test_|Test[A-Z]", n.name))


def test_each_rule_has_one_line() -> None:
    """A new rule gets a line with its tests."""
    rules = [int(number) for number, _ in RULE.findall((ROOT / "docs" / "semantics.md").read_text())]
    lines = [number for number, _, _ in rows()]
    assert sorted(lines) == sorted(rules)


def test_each_line_has_a_test_or_a_reason() -> None:
    without = [number for number, tests, _ in rows() if not TEST.search(tests)]
    assert without == [number for number, tests, _ in rows() if tests == NOT_BUILT]
    assert len(without) < 5


def test_each_proposal_of_kafka_is_answered_once() -> None:
    """Those of Kafka Streams since 4.2: a release, and yes, no, or that it does not apply; no and a reason."""
    found = PROPOSAL.findall(PAGE.read_text())
    names = [name for name, *_ in found if name != "no KIP"]
    assert len(names) > 30
    assert len(set(names)) == len(names)
    for name, since, what, here, why in found:
        assert re.fullmatch(r"4\.\d(, 4\.\d)?|open", since), name
        assert what
        assert re.match("yes|no$|does not apply$", here), name
        assert why or here != "no", f"{name}: why not?"


def test_tests_that_are_named_exist() -> None:
    named = TEST.findall(PAGE.read_text())
    assert len(named) > 150
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def test_recordings_that_are_named_exist() -> None:
    cells = [recordings for _, _, recordings in rows()]
    cells += re.findall(r"^\| [^|]* \| (?:[\d, ]+|-) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`([\w.-]+)`", cell)}
    assert len(named) > 100
    assert [name for name in sorted(named) if not (RECORDINGS / f"{name}.json.gz").exists()] == []


@pytest.mark.parametrize("name", ["test_each_rule_has_one_line", "TestVersions", "test_nothing_of_this_name"])
def test_a_name_is_looked_for(name: str) -> None:
    files = ("tests/docs/test_conformance.py", "tests/state/test_versioned_model.py", "tests/no_such_file.py")
    found = [path for path in files if name in names_in(path)]
    assert len(found) == (0 if "nothing" in name else 1)
