"""The figures of the first page are those of the repository."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from simulation_support.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "README.md").read_text()
TESTS = ROOT / "tests"


def number(pattern: str, text: str = PAGE) -> int:
    """Returns the one number that a pattern finds, which must be there."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return int(found[1].replace(",", ""))


def in_test(file: str, pattern: str) -> int:
    return number(pattern, (TESTS / file).read_text())


def test_recordings_are_counted() -> None:
    files = [path for path in (TESTS / "golden" / "recordings").rglob("*") if path.is_file()]
    assert number(r"\| (\d+) recordings of Kafka Streams \|") == len(files)


def test_rules_are_counted() -> None:
    rules = tomllib.loads((TESTS / "rules.toml").read_text())
    assert number(r"\| (\d+) rules \|") == len(rules)


def test_seeds_are_counted() -> None:
    assert number(r"\| ([\d,]+) fault schedules \|") == in_test("simulation/test_seeds.py", r'_SEEDS", "(\d+)"')
    assert number(r"`make test` runs (\d+) of these seeds") == in_test("simulation/test_seeds.py", r"\nSEEDS = (\d+)\n")
    assert number(r"tests (\d+) applications") == len(SCENARIOS)


def test_killed_processes_are_counted() -> None:
    """Those of the two tests that kill hundreds: writers of a database, and tasks with each guarantee."""
    writers = in_test("state/test_crash.py", r'kill_often\(tmp_path / "db", (\d{3,}),')
    file = "runtime/test_task_crash.py"
    seeds = in_test(file, r'parametrize\("seed", range\((\d+)\)\)')
    tasks = 2 * seeds * in_test(file, r"kill_often\(tmp_path, guarantee, (\d+), seed\)")
    assert number(r"\| (\d+) killed processes \|") == writers + tasks


def test_tests_are_counted() -> None:
    found = sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    )
    told = number(r"\| more than ([\d,]+) tests \|")
    assert told < found < told + 1000


def test_figures_are_those_of_the_page_about_performance() -> None:
    performance = (ROOT / "docs" / "performance.md").read_text()
    for workload, name in (("W3", "count in windows"), ("W4", "stream joined with a table")):
        rate, *_ = re.findall(rf"^\| {name}.*, thousand records/s \| (.*) \|$", PAGE, re.MULTILINE)
        cells = re.findall(rf"^\| {workload}, .*\n(?:\| \| .*\n)*", performance, re.MULTILINE)
        rows = [row.split("|") for row in "".join(cells[:2]).splitlines()]
        expected = {row[2].strip(): row[3].strip() for row in rows}
        runners = ("streams", "Java", "Quix", "Faust")
        assert [cell.strip() for cell in rate.split("|")] == [expected.get(runner, "no joins") for runner in runners]


def test_no_cell_of_the_comparison_is_empty() -> None:
    """What was not looked at says nothing."""
    table = PAGE.partition("## How it compares\n")[2].strip().partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert len(rows) > 15
    assert {len(row) for row in rows} == {5}
    assert [row for row in rows[2:] if "" in row] == []


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    block = re.search(r"## Two commands\n.*?```sh\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    named = re.findall(r"^make (\S+)", block[1], re.MULTILINE)
    assert named == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)
