"""The code blocks of the pages, and the commands among them, with the folder in which a reader gives them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
QUICK_START = ROOT / "docs" / "quick-start.md"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")])
SPARK = {
    ROOT / "docs" / f"{page}.md": "tests/integration and tests/spark run the pages about Spark"
    for page in ("spark", "spark-backfill", "spark-handover")
}
"""Pages whose blocks other tests run, and which."""
BLOCK = re.compile(r"^(?:<!-- not run: ([^\n]+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOOP = re.compile(r"for (\w+) in ([^;]+); do (.+); done")
OFFLINE = ("describe", "config", "completion", "demo", "try", "--version", "--help")
"""Commands of ours that need neither Kafka nor state."""


@dataclass(frozen=True)
class Block:
    page: Path
    number: int
    language: str
    text: str
    reason: str
    """Why it is not run; empty if it is."""

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.number}"


def blocks(page: Path, language: str | None = None) -> list[Block]:
    found = [
        Block(page, number, kind, text, reason or SPARK.get(page, ""))
        for number, (reason, kind, text) in enumerate(BLOCK.findall(page.read_text()))
    ]
    return [block for block in found if language in (None, block.language)]


def commands(block: Block) -> list[str]:
    """The commands of a block; one goes on in the next line while a quotation is open."""
    found, begun = [], ""
    for line in block.text.splitlines():
        begun = f"{begun}\n{line}" if begun else line
        try:
            words = shlex.split(begun, comments=True)
        except ValueError:
            continue
        if words:
            found += _repeated(begun)
        begun = ""
    assert not begun, f"{block.name}: a quotation is not closed"
    return found


def _repeated(line: str) -> list[str]:
    """The commands of a loop in one line, once for each of its words; any other line as it is."""
    loop = LOOP.fullmatch(line)
    if loop is None:
        return [line]
    name, words, body = loop.groups()
    return [command.replace(f"${name}", word) for word in words.split() for command in body.split("; ")]


def redirected(words: list[str]) -> tuple[list[str], str | None]:
    """The words of a command without the file to which its output goes, and that file."""
    if ">" not in words:
        return words, None
    at = words.index(">")
    return words[:at], words[at + 1]


def is_offline(command: str) -> bool:
    words = shlex.split(command)
    if words[0] == "streams":
        return words[1] in OFFLINE
    return words[0] in ("export", "pytest")
