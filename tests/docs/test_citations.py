"""Citations lead somewhere: numbered rules and formats, decisions, pages of the documentation and their headings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from tools.site.decisions import INDEX, anchor, index, titles

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FOLDERS = ("processor_api", "state", "dsl", "streams", "tests", "docs", "examples", "benchmarks", "tools")
FILES = sorted(
    {
        path for folder in FOLDERS for suffix in ("py", "md", "toml") for path in (ROOT / folder).rglob(f"*.{suffix}")
    }.union(ROOT.glob("*.md"), ROOT.glob("*.py")).difference(
        # These name pages that are gone: to redirect them, and in examples.
        {Path(__file__).resolve(), ROOT / "tools" / "site" / "redirects.py", ROOT / "tests" / "docs" / "test_site.py"}
    )
)

ENTRY = re.compile(r"^\*\*(\d+)\. ", re.MULTILINE)
NUMBERS = r"(\d+(?:(?:, | and |, and | to )\d+)*)\b"
CITED = re.compile(rf"\b(semantics|formats) {NUMBERS}", re.IGNORECASE)
OWN = {
    "semantics": re.compile(rf"\brules? {NUMBERS}", re.IGNORECASE),
    "formats": re.compile(rf"\b(?:entry|entries) {NUMBERS}", re.IGNORECASE),
}
"""How these pages cite themselves."""
OUTSIDE = re.compile(
    r"\b(?:conformance|reference|membership),? (?:membership |section |item )?P?\d[\d.]*"
    r"|\bdesign(?:\.md)?,? (?:section|decision|item) \d+"
    r"|\bsections? \d[\d.]*",
    re.IGNORECASE,
)
NUMBERED = re.compile(r"\bdecisions? \d+\b|\bdecisions/\d+[\w.-]*|[\[(]0\d{3}[\])]")
"""How decisions were cited when each had a number."""
DECISION = re.compile(r'\bdocs/decisions/([\w-]+)\.md`*(?:,? \(?"([^"]+)")?')
"""How code cites a decision: its chapter, and its title where there is room for it."""
DECISION_LINK = re.compile(r"\]\((?:\.\./)*(?:docs/)?decisions/([\w-]+)\.md(?:#([\w-]+))?\)")
PAGE = re.compile(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?")
RECORDED = re.compile(r"\brecordings? ((?:`[\w.-]+`(?:, | and )?)+)", re.IGNORECASE)


class Flow:
    """The text of a file on one line, without the marks of comments."""

    def __init__(self, text: str) -> None:
        lines = [re.sub(r"^\s*(?:#+ )?\s*", "", line) + " " for line in text.splitlines()]
        self.text = "".join(lines)
        self._starts = list(accumulate(map(len, lines), initial=0))

    def line(self, position: int) -> int:
        return bisect_right(self._starts, position)


def listed(numbers: str) -> list[int]:
    """What "2, 5 to 7" stands for."""
    found: list[int] = []
    for part in re.split(r",? and |, ", numbers):
        first, _, last = part.partition(" to ")
        found += range(int(first), int(last or first) + 1)
    return found


def numbers_of(page: str) -> list[int]:
    return [int(number) for number in ENTRY.findall((DOCS / page).read_text())]


def anchors(page: Path) -> list[str]:
    return [anchor(title) for title in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)]


KNOWN = {"semantics": set(numbers_of("semantics.md")), "formats": set(numbers_of("formats.md"))}
CHAPTERS = {path.stem: titles(path) for path in INDEX.parent.glob("*.md") if path != INDEX}


def rules(text: str, page: str) -> Iterator[tuple[int, str]]:
    """Numbers that are not on their page."""
    cited = [(found.start(), found[1].lower(), found[2]) for found in CITED.finditer(text)]
    if page in OWN:
        cited += [(found.start(), page, found[1]) for found in OWN[page].finditer(text)]
    for start, where, numbers in cited:
        for number in listed(numbers):
            if number not in KNOWN[where]:
                yield start, f"docs/{where}.md has no number {number}"


def decisions(text: str, page: str) -> Iterator[tuple[int, str]]:
    for found in NUMBERED.finditer(text):
        yield found.start(), f"{found[0]!r}: decisions have titles and no numbers"
    for found in DECISION.finditer(text):
        if found[2] and found[2] not in CHAPTERS.get(found[1], []):
            yield found.start(), f"docs/decisions/{found[1]}.md has no decision {found[2]!r}"
    for found in DECISION_LINK.finditer(text):
        known = [anchor(title) for title in CHAPTERS.get(found[1], [])]
        if found[1] != INDEX.stem and found[2] not in known:
            yield found.start(), f"docs/decisions/{found[1]}.md has no decision for #{found[2]}"


def pages(text: str, page: str) -> Iterator[tuple[int, str]]:
    for found in PAGE.finditer(text):
        target = ROOT / found[1]
        if not target.exists():
            yield found.start(), f"there is no {found[1]}"
        elif found[2] and found[2] not in anchors(target):
            yield found.start(), f"{found[1]} has no heading for #{found[2]}"


def outside(text: str, page: str) -> Iterator[tuple[int, str]]:
    for found in OUTSIDE.finditer(text):
        yield found.start(), f"{found[0]!r} is nothing that a reader of the repository can look up"


CHECKS = (rules, decisions, pages, outside)


def wrong(text: str, page: str = "") -> list[tuple[int, str]]:
    flow = Flow(text)
    return sorted((flow.line(start), what) for check in CHECKS for start, what in check(flow.text, page))


def test_citations_lead_somewhere() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in FILES
        for line, what in wrong(path.read_text(), path.stem if path.parent == DOCS else "")
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_code_cites() -> None:
    """Else the test above would look at the wrong files, or for the wrong words."""
    texts = {path: Flow(path.read_text()).text for path in FILES}
    for package in FOLDERS[:5]:
        assert any(CITED.search(text) for path, text in texts.items() if path.is_relative_to(ROOT / package)), package
    assert sum(len(CITED.findall(text)) for text in texts.values()) > 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(semantics 12, formats 4)", []),
        ("(semantics 70\n    to 72)", []),
        ("(semantics 12, 9999)", [(1, "docs/semantics.md has no number 9999")]),
        ("a\n# (formats\n#   9998 and 9999)", [(2, f"docs/formats.md has no number {n}") for n in (9998, 9999)]),
        ("(semantics 1 and\n9000 to 9001)", [(1, f"docs/semantics.md has no number {n}") for n in (9000, 9001)]),
        ('docs/decisions/stores.md, "A task has\n    one database"', []),
        ('``docs/decisions/stores.md`` ("A task has one database")', []),
        ("docs/decisions/stores.md says", []),
        ("docs/decisions/attic.md", [(1, "there is no docs/decisions/attic.md")]),
        ('docs/decisions/stores.md, "No"', [(1, "docs/decisions/stores.md has no decision 'No'")]),
        ("[why](decisions/stores.md#a-task-has-one-database)", []),
        ("\n[why](decisions/stores.md#attic)", [(2, "docs/decisions/stores.md has no decision for #attic")]),
        ("[why](decisions/stores.md)", [(1, "docs/decisions/stores.md has no decision for #None")]),
        ("[all](decisions/README.md)", []),
        ("decision 1", [(1, "'decision 1': decisions have titles and no numbers")]),
        ("\ndecisions/0001-one.md", [(2, "'decisions/0001-one.md': decisions have titles and no numbers")]),
        ("see docs/design.md#packages", []),
        ("\nsee docs/design.md#attic", [(2, "docs/design.md has no heading for #attic")]),
        ("see docs/nothing.md", [(1, "there is no docs/nothing.md")]),
        ("a new member joins: membership of 3", []),
    ],
)
def test_what_is_found(text: str, expected: list[tuple[int, str]]) -> None:
    assert wrong(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "conformance 12",
        "(Reference 3.4)",
        "a reference,\n P7",
        "membership 4.2",
        "docs/design.md, section 3",
        "section 2",
    ],
)
def test_documents_outside_of_the_repository_are_found(text: str) -> None:
    assert len(wrong(text)) == 1


def test_a_page_cites_itself_by_rule_or_entry() -> None:
    assert wrong("see rule 9999", "semantics") == [(1, "docs/semantics.md has no number 9999")]
    assert wrong("see entries 1 and 9999", "formats") == [(1, "docs/formats.md has no number 9999")]
    assert wrong("see rule 9999") == []


@pytest.mark.parametrize("page", ["semantics", "formats"])
def test_numbers_are_given_once_and_without_gaps(page: str) -> None:
    assert sorted(numbers_of(f"{page}.md")) == list(range(1, len(KNOWN[page]) + 1))


def test_the_next_free_number_is_told() -> None:
    assert f"the next free number, {max(KNOWN['semantics']) + 1}." in Flow((DOCS / "semantics.md").read_text()).text


def test_the_index_of_decisions_is_that_of_the_chapters() -> None:
    """When this fails, run `python -m tools.site.decisions`."""
    assert INDEX.read_text() == index()


def test_the_index_links_each_decision(tmp_path: Path) -> None:
    stores, spark = tmp_path / "stores.md", tmp_path / "spark.md"
    stores.write_text("# Stores\n\nRows.\n\n## A task has one database\n\nYes.\n\n## Key-value stores expire\n")
    spark.write_text("# Spark\n")
    assert index((stores, spark)).partition("\n## ")[2] == (
        "[Stores](stores.md)\n\n"
        "* [A task has one database](stores.md#a-task-has-one-database)\n"
        "* [Key-value stores expire](stores.md#key-value-stores-expire)\n\n"
        "## [Spark](spark.md)\n\n"
    )


def test_decisions_are_headings_of_chapters() -> None:
    """A file with a number is of the former form; a title that comes twice, or has a mark in it, makes no anchor."""
    assert sorted(path.name for path in INDEX.parent.glob("[0-9]*")) == []
    decided = [title for chapter in CHAPTERS.values() for title in chapter]
    assert sorted(title for title in set(decided) if decided.count(title) > 1) == []
    assert [title for title in decided if not re.fullmatch(r"[\w -]+", title)] == []


def entries(page: str) -> list[str]:
    """The numbered paragraphs of a page, with what belongs to them."""
    return re.split(r"(?m)^(?=\*\*\d+\. )|^## ", (DOCS / page).read_text())[1:]


@pytest.mark.parametrize("page", ["semantics.md", "formats.md"])
def test_every_entry_says_where_it_comes_from(page: str) -> None:
    """In italics, at its end."""
    numbered = [entry for entry in entries(page) if entry.startswith("**")]
    assert len(numbered) == len(numbers_of(page))
    assert [entry[:40] for entry in numbered if not re.search(r"\*[^*]+\*$", entry.rstrip())] == []


def recordings(kind: str) -> set[str]:
    files = (ROOT / "tests" / "golden" / "recordings" / kind).glob("*.json.gz")
    return {path.name.removesuffix(".json.gz") for path in files}


def test_recordings_that_are_named_exist() -> None:
    text = Flow((DOCS / "formats.md").read_text()).text
    named = {name for names in RECORDED.findall(text) for name in re.findall(r"`([\w.-]+)`", names)}
    assert len(named) > 5
    assert named - recordings("formats") == set()
