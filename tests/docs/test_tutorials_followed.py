"""A reader who copies a tutorial succeeds: with its files, where the text says, its commands show what the page shows.

A page is followed from top to bottom in an empty folder. Each block of code goes into the file that the paragraph
before it names last; "at the end of" adds to a file. Each console block is given to a shell, and what it shows on a
terminal is compared. Times of day and of test runs differ; all else is the same. Commands in blocks of `sh` that need
Kafka are run by `tests/integration/test_docs_commands.py`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from docs_support.blocks import BLOCK, QUICK_START, ROOT, is_offline
from docs_support.followed import FOLLOWED
from terminal_output import run_on_terminal

FILE = re.compile(r"`([\w-]+\.(?:py|jsonl|csv|toml))`")
LANGUAGES = {".py": "python", ".jsonl": "json", ".csv": "csv", ".toml": "toml"}
VARYING = (
    (re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), "TIME"),
    (re.compile(r" in \d+\.\d\ds$", re.MULTILINE), " in TIME"),
)
OF_SPARK = re.compile(
    r"WARNING: |Setting default log level|To adjust logging|Using Spark's default|\S+ \S+ WARN |\r|stage \d+ \["
)
"""A line of the JVM, which differs with its version, and of the bar that shows progress."""
LONG = {
    "tutorial-exactly-once.md": [pytest.mark.slow],
    "tutorial-pyspark.md": [pytest.mark.slow, pytest.mark.spark],
}
"""Pages whose commands take more than a few seconds; the files of every page are checked in the default suite."""


class Reader:
    """A person who copies a page into files and gives its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        left_out = ("STREAMS_", "PYTEST_", "COV_", "PYTHONPATH")
        given = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self.environment = {**given, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}

    def write(self, paragraph: str, language: str, text: str) -> Path:
        """Puts a block into the file that the paragraph before it names."""
        named = FILE.findall(paragraph)
        assert named, f"the text does not say which file this is:\n{paragraph}\n\n{text}"
        file = self.folder / named[-1]
        assert LANGUAGES[file.suffix] == language, f"{file.name} as a block of {language}"
        if "at the end of" in paragraph:
            text = f"{file.read_text()}\n\n{text}"
        else:
            assert not file.exists(), f"{file.name} is there already, and the text does not say that this replaces it"
        file.write_text(text)
        return file

    def shown(self, command: str) -> str:
        """Gives a command to a shell, and returns what it shows."""
        status, shown = run_on_terminal(["bash", "-o", "pipefail", "-c", command], self.folder, self.environment)
        assert status == 0, f"{command}\n{shown[-3000:]}"
        return "".join(line for line in shown.splitlines(True) if not OF_SPARK.match(line))


def steps(page: Path) -> list[tuple[str, str, str]]:
    """Returns the blocks of a page: the paragraph before, the language and the text."""
    text = page.read_text()
    found = []
    for block in BLOCK.finditer(text):
        before = re.sub(r"^```.*?^```$", "", text[: block.start()], flags=re.MULTILINE | re.DOTALL)
        found.append((before.rstrip().rpartition("\n\n")[2], block[2], block[3]))
    return found


def fixed(text: str) -> str:
    for varying, name in VARYING:
        text = varying.sub(name, text)
    return text


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
def test_each_block_has_its_file_and_each_file_can_be_read(page: Path, tmp_path: Path) -> None:
    """Each Python file compiles, and names no file of the page that comes later."""
    reader = Reader(tmp_path)
    written = 0
    for paragraph, language, text in steps(page):
        if language in LANGUAGES.values():
            file = reader.write(paragraph, language, text)
            written += 1
            if language == "python":
                compile(file.read_text(), file.name, "exec", dont_inherit=True)
                for module in re.findall(r"^(?:from|import) (app)\b", text, re.MULTILINE):
                    assert (tmp_path / f"{module}.py").exists(), f"{file.name} imports {module}"
    assert written >= 2


@pytest.mark.parametrize("page", [pytest.param(page, marks=LONG.get(page.name, []), id=page.name) for page in FOLLOWED])
def test_a_reader_who_copies_sees_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    given = 0
    for paragraph, language, text in steps(page):
        if language in LANGUAGES.values():
            reader.write(paragraph, language, text)
        elif language == "console":
            command, _, expected = text.removeprefix("$ ").partition("\n")
            assert fixed(reader.shown(command)) == fixed(expected), command
            given += 1
        elif language == "sh":
            for command in filter(is_offline, text.splitlines()):
                if not command.startswith("export "):
                    reader.shown(command)
    assert given >= 2


def test_what_a_page_leaves_open_is_found(tmp_path: Path) -> None:
    """A block without a file, and a file that comes twice."""
    reader = Reader(tmp_path)
    reader.write("Put this into `app.py`:", "python", "a = 1\n")
    with pytest.raises(AssertionError, match="does not say which file"):
        reader.write("And now:", "python", "b = 1\n")
    with pytest.raises(AssertionError, match="is there already"):
        reader.write("Put this into `app.py`:", "python", "b = 1\n")
    reader.write("Put this at the end of `app.py`:", "python", "b = 2\n")
    assert (tmp_path / "app.py").read_text() == "a = 1\n\n\nb = 2\n"


def test_every_tutorial_is_followed() -> None:
    assert set(FOLLOWED) == {QUICK_START, *(ROOT / "docs").glob("tutorial-*.md")}
