"""The problems of other stream processors name tests, and each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
ROW = re.compile(r"^\| (?!Problem |---)(.*) \| (.*) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
REPORT = re.compile(r"KAFKA-\d+|FLINK-\d+|SPARK-\d+|KIP-\d+|#\d+")

ROWS = ROW.findall(PAGE.read_text().partition("\n## Problems elsewhere\n")[2].partition("\n### ")[0])


def test_there_are_rows() -> None:
    assert len(ROWS) > 10


@pytest.mark.parametrize(("what", "reports", "tests"), ROWS)
def test_each_row_has_a_public_report_and_tests_that_exist(what: str, reports: str, tests: str) -> None:
    assert REPORT.search(reports), what
    named = TEST.findall(tests)
    assert named, what
    for path, name in named:
        assert re.search(rf"^(?:    )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"
