"""Each rule of the semantics has its tests, each proposal of Kafka its answer, and what they name exists."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from fnmatch import filter as matching
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"
RECORDINGS = ROOT / "tests" / "golden" / "recordings"

TEST = re.compile(r"([\w/]+\.py)::(\w+)")
PROPOSAL = re.compile(r"^\| (KIP-\d+|KAFKA-\d+|no KIP) \| (.*?) \| (.*?) \| (.*?) \| (?:(.*) )?\|$", re.MULTILINE)
RULE = re.compile(r"^\*\*(\d+)\. ", re.MULTILINE)

RULES = tomllib.loads((ROOT / "tests" / "rules.toml").read_text())


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """Returns the names of the tests of a file, at any depth, and of its classes of tests."""
    file = ROOT / path
    if not file.exists():
        return frozenset()
    nodes = ast.walk(ast.parse(file.read_text()))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return frozenset(n.name for n in nodes if isinstance(n, kinds) and re.match("test_|Test[A-Z]", n.name))


def missing(named: list[tuple[str, str]]) -> list[str]:
    return [f"{path}::{name}" for path, name in named if name not in names_in(path)]


def test_each_rule_has_one_entry_with_tests() -> None:
    """A new rule gets one."""
    assert list(RULES) == sorted(RULES, key=int)
    assert list(RULES) == sorted(RULE.findall((ROOT / "docs" / "semantics.md").read_text()), key=int)
    assert [number for number, entry in RULES.items() if not entry["tests"]] == []
    assert {name for entry in RULES.values() for name in entry} == {"tests", "recordings"}


def test_tests_of_rules_exist() -> None:
    named = [name for entry in RULES.values() for name in entry["tests"]]
    found = [match.groups() for name in named if (match := TEST.fullmatch(name))]
    assert len(found) == len(named)
    assert missing(found) == []


def test_recordings_of_rules_exist() -> None:
    there = [path.name.removesuffix(".json.gz") for path in RECORDINGS.rglob("*.json.gz")]
    named = {name for entry in RULES.values() for name in entry.get("recordings", [])}
    assert len(named) > 100
    assert [name for name in sorted(named) if not matching(there, name)] == []


def test_tests_on_the_page_exist() -> None:
    named = TEST.findall(PAGE.read_text())
    assert len(named) > 10
    assert missing(named) == []


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


@pytest.mark.parametrize("name", ["test_tests_of_rules_exist", "TestVersions", "test_nothing_of_this_name"])
def test_a_name_is_looked_for(name: str) -> None:
    files = ("tests/docs/test_conformance.py", "tests/state/test_versioned_model.py", "tests/no_such_file.py")
    found = [path for path in files if name in names_in(path)]
    assert len(found) == (0 if "nothing" in name else 1)
