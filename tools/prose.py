"""Finds the worst habits of our English: `python -m tools.prose` in the lines of the last commit and of what is not
committed yet, `python -m tools.prose BASE` in those since another commit. `--all` counts them by folder.

CONTRIBUTING has the standard in its short form ("Writing"). A habit that is found is a question, not a verdict: a
sentence that reads better with it may say `prose: ok` on its line, in a comment.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HABITS = {
    r"go(es)? on\b(?! (the|a|an|any|one|each|all|every)\b)": "continues, resumes",
    r"(?<!there )(is|are|was|were) no\b(?! longer| more)": "is not a",
    r"any more": "no longer",
    r"so (many|much) (?!that|so)": "this many, N",
    r"who(m)?ever": "you, anybody who",
    r"nobody": "no one, or name the thing",
    r"in place of": "instead of",
    r"in its place": "instead",
    r"anew": "again",
    r"(is|are|was|were) told\b": "receives, is notified",
    r"knows? of\b": "has",
    r"stands? still": "stops, stalls",
    r"has to be\b": "must be",
    r"find(s)? out\b": "determines",
    r"else (it|a|an|the|they|this|that|he|one)\b": "otherwise",
}
"""Regular expressions of habits, with what to write instead."""
ANY = re.compile("|".join(rf"(?P<h{number}>\b{habit})" for number, habit in enumerate(HABITS)), re.IGNORECASE)
ALLOWED = "prose: ok"
PAGES = ("*.md", "*.py")
HUNK = re.compile(r"@@ -\S+ \+(\d+)")


class Habit(NamedTuple):
    """One place in which a habit was found."""

    path: str
    line: int
    words: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: write {self.instead}"


def habits_of(path: str, line: int, text: str) -> Iterator[Habit]:
    """Yields the habits in a line."""
    if ALLOWED in text:
        return
    for found in ANY.finditer(text):
        assert found.lastgroup is not None
        yield Habit(path, line, found.group(), list(HABITS.values())[int(found.lastgroup[1:])])


def in_changes(diff: str) -> Iterator[Habit]:
    """Yields the habits in the added lines of a diff without context."""
    path, line = "", 0
    for text in diff.splitlines():
        if text.startswith("+++ "):
            path = text.removeprefix("+++ ").removeprefix("b/")
        elif hunk := HUNK.match(text):
            line = int(hunk[1])
        elif text.startswith("+"):
            yield from habits_of(path, line, text[1:])
            line += 1


def changes(root: Path, base: str) -> str:
    """Returns what has changed since a commit, with what is not committed yet; empty if there is no such commit."""
    excluded = (":!tools/prose.py", ":!tests/packaging/test_prose.py")
    command = ["git", "-C", root, "diff", "-U0", "--no-color", "--no-ext-diff", base, "--", *PAGES, *excluded]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def counted(root: Path) -> Counter[str]:
    """Returns how many habits there are in each folder."""
    found: Counter[str] = Counter()
    for pattern in PAGES:
        for path in sorted(root.rglob(pattern)):
            place = path.relative_to(root)
            if any(part.startswith((".", "build")) for part in place.parts) or path == Path(__file__):
                continue
            for text in path.read_text(encoding="utf-8").splitlines():
                found[folder_of(place)] += sum(1 for _ in habits_of(str(place), 0, text))
    return found


def folder_of(place: Path) -> str:
    """Returns the first folder of a file, and of a page in `docs` also the second."""
    folders = place.parts[:-1]
    return "/".join(folders[: 2 if folders[:1] == ("docs",) else 1]) or "."


def main() -> int:
    """Prints habits; returns 1 if changed lines have some."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", nargs="?", default="HEAD~1", help="the commit to compare with")
    parser.add_argument("--all", action="store_true", help="count the habits of all files, by folder")
    given = parser.parse_args()
    if given.all:
        for folder, count in sorted(counted(ROOT).items()):
            print(f"{count:6} {folder}")
        return 0
    found = list(in_changes(changes(ROOT, given.base)))
    for one in found:
        print(one)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
