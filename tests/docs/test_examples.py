"""What the documentation shows, works: Python blocks of a page run in order, commands are parsed, settings are read."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docs_support.blocks import redirected
from docs_support.followed import FOLLOWED
from processor_api import errors
from processor_api.stores.factory import Stores
from streams import (
    BranchedKStream,
    BufferConfig,
    CogroupedKStream,
    GlobalKTable,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
    TimeWindows,
    UnlimitedWindows,
)
from streams.cli.main import parser
from streams.config import StreamsConfig

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#([^)]*))?\)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# What these pages show needs Kafka or Spark, files, or a process of its own: tests/integration, tests/spark,
# tests/telemetry, tests/http and those of tutorials run it.
ELSEWHERE = [
    *(
        ROOT / "docs" / f"{page}.md"
        for page in ("spark", "spark-backfill", "spark-handover", "monitoring", "querying-over-http")
    ),
    *FOLLOWED,
]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python") and page not in ELSEWHERE], ids=name)
def test_python_runs(page: Path) -> None:
    """Also through the test driver, with what the blocks assert; applications are made, and not started."""
    space: dict[str, Any] = {"__name__": "example"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{name(page)}, block {number}", "exec", dont_inherit=True), space)


def test_there_are_examples() -> None:
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 4
    assert any("TopologyTestDriver" in block for block in blocks(ROOT / "docs" / "quick-start.md", "python"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=name)
def test_commands_are_ones(page: Path) -> None:
    """Of ours; `test_commands.py` runs them."""
    for line in "".join(blocks(page, "sh")).splitlines():
        if line.startswith("streams "):
            words = redirected(shlex.split(line, comments=True)[1:])[0]
            if words[0] not in ("--version", "--help"):  # which end the process
                parser().parse_args(words)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=name)
def test_settings_are_read(page: Path) -> None:
    for block in blocks(page, "toml"):
        if "project" in tomllib.loads(block):
            continue  # of a package
        config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:9092", **tomllib.loads(block)})
        if "serde" in block:
            assert config.default_key_serde is not None
            assert config.default_key_serde.serialize("a") == b"a"


def test_every_page_is_in_the_index() -> None:
    """And every error in the page for those who come from Java."""
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if f"({page})" not in (ROOT / "docs" / "README.md").read_text()] == []
    told = (ROOT / "docs" / "from-java.md").read_text()
    assert [error for error in errors.__all__ if f"`{error}`" not in told] == []


def test_every_factory_of_stores_is_told() -> None:
    told = (ROOT / "docs" / "stores.md").read_text()
    factories = [name for name in vars(Stores) if not name.startswith("_")]
    assert factories
    assert [name for name in factories if f"`{name}`" not in told] == []


def test_every_command_has_its_line() -> None:
    told = (ROOT / "docs" / "command-line.md").read_text()
    commands = [" ".join(words) for words, command in parser().commands() if not list(command.commands())]
    assert commands
    assert [words for words in commands if f"`streams {words}" not in told] == []


def test_every_example_has_a_page_and_a_test() -> None:
    index = (ROOT / "examples" / "README.md").read_text()
    tests = "".join(file.read_text() for file in (ROOT / "tests" / "examples").glob("test_*.py"))
    for folder in sorted(path for path in (ROOT / "examples").iterdir() if path.name[:2].isdigit()):
        assert (folder / "README.md").exists()
        assert f"({folder.name}/README.md)" in index
        assert f"examples/{folder.name}" in tests


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        found = page.parent / target
        assert found.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_files_that_are_named_exist() -> None:
    """Of the packages and tests, in backticks."""
    named = re.compile(r"`((?:state|dsl|streams|processor_api|tests|benchmarks)/[\w/.]+)`")
    for page in PAGES:
        for path in named.findall(page.read_text()):
            assert (ROOT / path).exists(), f"{name(page)}: {path}"


DSL = (
    *(StreamsBuilder, KStream, KTable, GlobalKTable, KGroupedStream, KGroupedTable, CogroupedKStream, BranchedKStream),
    *(TimeWindowedKStream, SessionWindowedKStream, TimeWindowedCogroupedKStream, SessionWindowedCogroupedKStream),
    *(TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows, JoinWindows, BufferConfig, Suppressed),
)


FAMILIES = ("stateless", "aggregations", "windows", "joins", "tables", "processors-in-a-dsl")


WHERE_TIME_MATTERS = set(FAMILIES) - {"stateless", "aggregations"}


@pytest.mark.parametrize("family", sorted(WHERE_TIME_MATTERS))
def test_a_family_in_which_time_matters_has_a_picture(family: str) -> None:
    assert "](pictures/" in (ROOT / "docs" / f"{family}.md").read_text()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_of_operators_has_examples_with_results_and_the_names_of_java(family: str) -> None:
    page = ROOT / "docs" / f"{family}.md"
    assert any("TopologyTestDriver(" in block and "assert " in block for block in blocks(page, "python"))
    assert "\n## From Java\n\n| Kafka Streams | here |\n" in page.read_text()


def test_every_method_of_the_dsl_is_on_a_page() -> None:
    """Written as code."""
    pages = "".join(page.read_text() for page in PAGES)
    code = " ".join([*re.findall(r"`([^`\n]+)`", pages), *(text for _, text in BLOCK.findall(pages))])
    words = set(re.findall(r"\w+", code))
    methods = {name for kind in DSL for name in vars(kind) if callable(getattr(kind, name)) and name[0] != "_"}
    assert len(methods) > 60
    assert sorted(methods - words) == []
