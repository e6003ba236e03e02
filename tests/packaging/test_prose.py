"""The check of changed lines for habits of prose."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools.prose import HABITS, changes, habits_of, in_changes


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("The worker goes on after a restart.", "continues, resumes"),
        ("`5x` is no duration", "is not a"),
        ("Whoever sets both", "you, anybody who"),
        ("    # else it would be lost", "otherwise"),
        ("It is no longer read, so many records later", "this many, N"),
    ],
)
def test_a_habit_is_found_with_what_to_write(text: str, instead: str) -> None:
    assert [one.instead for one in habits_of("a.md", 1, text)] == [instead]


@pytest.mark.parametrize(
    "text",
    [
        "The dead letters go on the topic `shop-dlq`.",
        "It is no longer read.",
        "else:",
        "value if found else default",
        "There were so many that the page was cut.",
        "He goes on. # prose: ok",
    ],
)
def test_other_text_is_not_a_habit(text: str) -> None:
    assert list(habits_of("a.py", 1, text)) == []


def test_lines_that_were_added_are_checked(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, capture_output=True)

    page, code = tmp_path / "page.md", tmp_path / "code.py"
    page.write_text("An old line goes on.\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    page.write_text("An old line goes on.\nTwo\nA new line goes on.\n")
    git("commit", "-am", "two")
    code.write_text("# nobody knows of it\n")
    git("add", ".")
    found = [str(one) for one in in_changes(changes(tmp_path, "HEAD~1"))]
    assert found == [
        "code.py:1: 'nobody': write no one, or name the thing",
        "code.py:1: 'knows of': write has",
        "page.md:3: 'goes on': write continues, resumes",
    ]
    assert changes(tmp_path, "HEAD~7") == ""


def test_each_habit_has_words_for_it() -> None:
    assert all(re.compile(habit) and instead for habit, instead in HABITS.items())
