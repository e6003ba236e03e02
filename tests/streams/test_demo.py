"""`make demo` ends by itself, and shows right counts."""

from __future__ import annotations

import re

import pytest

from streams.app.demo import main
from streams.cli.topology_function import load_topology


def test_the_demo_shows_its_topology_and_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    shown = capsys.readouterr().out
    assert "Topologies:\n   Sub-topology: 0\n    Source: lines (topics: [lines])" in shown
    assert re.findall(r"^  (streams|stream|kafka) +(\d)$", shown, re.MULTILINE).count(("kafka", "2")) == 1
    lines = shown.partition("> Join")[2].splitlines()
    assert sorted(line.split() for line in lines[1:6]) == [
        ["join", "1"], ["of", "1"], ["stream", "1"], ["streams", "3"], ["the", "1"],
    ]  # fmt: skip
    assert "closed in state NOT_RUNNING" in shown
    assert "counts: 13 records" in shown
    (named,) = re.findall(r"streams run (\S+)", shown)  # an installed one has no folder of examples
    assert load_topology(named, dict).describe() in shown


def test_the_demo_counts_lines_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a b a"]) == 0
    lines = capsys.readouterr().out.partition("> a b a\n")[2].splitlines()
    assert sorted(line.split() for line in lines[:3]) == [["a", "1"], ["a", "2"], ["b", "1"]]
