"""Writes docs/decisions/README.md, the index of decisions, from the chapters: `python -m tools.site.decisions`."""

from __future__ import annotations

import re
from pathlib import Path

from tools.site.navigation import DECISION_CHAPTERS, DECISIONS

INDEX = DECISIONS / "README.md"

_START = """\
# Decisions

Each decision states what holds, why, what was rejected, and where it helps one figure. A chapter is a page, and each
decision is a section. `python -m tools.site.decisions` writes this page.
"""


def titles(chapter: Path) -> list[str]:
    """Returns the decisions of a chapter, in its order."""
    return re.findall(r"^## (.*)$", chapter.read_text(encoding="utf-8"), re.MULTILINE)


def anchor(title: str) -> str:
    """Returns the anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def index(chapters: tuple[Path, ...] = DECISION_CHAPTERS) -> str:
    """Returns the text of the index: each chapter with links to its decisions."""
    return "\n".join((_START, *map(_section, chapters)))


def _section(chapter: Path) -> str:
    name = chapter.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    links = [f"* [{title}]({chapter.name}#{anchor(title)})\n" for title in titles(chapter)]
    return f"## [{name}]({chapter.name})\n\n{''.join(links)}"


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
