"""A reader who copies a tutorial succeeds: with its files, where the text says, its commands show what the page shows.

A page is followed from top to bottom, in a folder with the files of the pages before it. Each block of code goes into
the file that the paragraph before it names last. Each console block is given to a shell, and what it shows on a
terminal is compared. Times of day and of test runs differ; all else is the same. Commands that need Kafka are run by
`tests/integration/test_docs_commands.py` and `test_tutorial_on_kafka.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs_support.blocks import is_offline
from docs_support.copied import LANGUAGES, copy_block, copy_files, is_file, steps
from docs_support.followed import FOLLOWED, TUTORIAL
from terminal_output import run_on_terminal

VARYING = (
    (re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), "TIME"),
    (re.compile(r" in \d+\.\d\ds$", re.MULTILINE), " in TIME"),
)
MODULES = ("app", "shop", "crashes", "lake", "history")
"""The scripts of the pages that other ones import."""
ON_KAFKA = "curl "
"""The first word of commands whose output needs an application on Kafka."""
OF_SPARK = re.compile(
    r"WARNING: |Setting default log level|To adjust logging|Using Spark's default|\S+ \S+ WARN |\r|stage \d+ \["
)
"""A line of the JVM, which differs with its version, and of the bar that shows progress."""
LONG = {
    "tutorial-08-exactly-once.md": [pytest.mark.slow],
    "tutorial-10-history.md": [pytest.mark.slow, pytest.mark.spark],
}
"""Pages whose commands take more than a few seconds; the tests of the last page run in the default suite."""


class Reader:
    """A person who copies a page into files and gives its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        left_out = ("STREAMS_", "PYTEST_", "COV_", "PYTHONPATH")
        given = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self.environment = {**given, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}

    def shown(self, command: str) -> str:
        """Gives a command to a shell, and returns what it shows."""
        status, shown = run_on_terminal(["bash", "-o", "pipefail", "-c", command], self.folder, self.environment)
        assert status == 0, f"{command}\n{shown[-3000:]}"
        return "".join(line for line in shown.splitlines(True) if not OF_SPARK.match(line))

    def follow(self, page: Path) -> int:
        """Does what a page says, and returns the number of commands whose output was compared."""
        given = 0
        for paragraph, language, text in steps(page):
            if language in LANGUAGES.values() and is_file(paragraph):
                copy_block(self.folder, paragraph, language, text)
            elif language == "console" and not text.startswith(f"$ {ON_KAFKA}"):
                command, _, expected = text.removeprefix("$ ").partition("\n")
                assert fixed(self.shown(command)) == fixed(expected), command
                given += 1
            elif language == "sh":
                for command in filter(is_offline, text.splitlines()):
                    if not command.startswith("export "):
                        self.shown(command)
        return given


def fixed(text: str) -> str:
    for varying, name in VARYING:
        text = varying.sub(name, text)
    return text


def pages_before(page: Path) -> list[Path]:
    return TUTORIAL[: TUTORIAL.index(page)] if page in TUTORIAL else []


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
def test_each_block_has_its_file_and_each_file_can_be_read(page: Path, tmp_path: Path) -> None:
    """Each Python file compiles, and imports no file of the tutorial that comes later."""
    copy_files(tmp_path, pages_before(page))
    written = 0
    for paragraph, language, text in steps(page):
        if language in LANGUAGES.values():
            file = copy_block(tmp_path, paragraph, language, text)
            written += 1
            if language == "python":
                compile(file.read_text(), file.name, "exec", dont_inherit=True)
                for module in re.findall(rf"^from ({'|'.join(MODULES)}) import", file.read_text(), re.MULTILINE):
                    assert (tmp_path / f"{module}.py").exists(), f"{file.name} imports {module}"
    assert written >= 2


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
def test_no_import_is_missing_or_unused(page: Path, tmp_path: Path) -> None:
    copy_files(tmp_path, [*pages_before(page), page])
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--line-length", "120", str(tmp_path)]
    done = subprocess.run([*command, "--select", "B,E,F,UP"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [pytest.param(page, marks=LONG.get(page.name, []), id=page.name) for page in FOLLOWED])
def test_a_reader_who_copies_sees_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    copy_files(tmp_path, pages_before(page))
    assert Reader(tmp_path).follow(page) >= 2


@pytest.mark.slow
@pytest.mark.spark
def test_a_reader_follows_the_tutorial_page_after_page(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    assert sum(reader.follow(page) for page in TUTORIAL) >= 2 * len(TUTORIAL)


def test_the_tests_of_the_last_page_pass_without_spark(tmp_path: Path) -> None:
    copy_files(tmp_path, TUTORIAL)
    *_, (_, _, shown) = [step for step in steps(TUTORIAL[-1]) if "pytest" in step[2]]
    command, _, expected = shown.removeprefix("$ ").partition("\n")
    assert fixed(Reader(tmp_path).shown(command)) == fixed(expected)


def test_what_a_page_leaves_open_is_found(tmp_path: Path) -> None:
    """A block without a file, a file that comes twice, and a block that has no place in a file."""
    copy_block(tmp_path, "Save this as `app.py`:", "python", "a = 1\n")
    with pytest.raises(AssertionError, match="does not say which file"):
        copy_block(tmp_path, "And now:", "python", "b = 1\n")
    with pytest.raises(AssertionError, match="is there already"):
        copy_block(tmp_path, "Save this as `app.py`:", "python", "b = 1\n")
    with pytest.raises(AssertionError, match=r"may not have this between its functions: print\(1\)"):
        copy_block(tmp_path, "In `app.py`:", "python", "print(1)\n")


def test_a_block_changes_the_parts_of_a_file_that_it_shows(tmp_path: Path) -> None:
    script = (
        "import json\nimport os\n\nSIZE = 1\n\n\ndef one():\n    return 1\n\n\n"
        'def topology():\n    return one()\n\n\nif __name__ == "__main__":\n    topology()\n'
    )
    copy_block(tmp_path, "Save this as `app.py`:", "python", script)
    block = "import re\n\nLIMIT = 3\n\n\nclass Two:\n    pass\n\n\n@re.compile\ndef one():\n    return 2\n"
    copy_block(tmp_path, "In `app.py`, the number changes:", "python", block)
    assert (tmp_path / "app.py").read_text() == (
        "import re\n\nSIZE = 1\n\nLIMIT = 3\n\n\n@re.compile\ndef one():\n    return 2\n\n\n"
        'class Two:\n    pass\n\n\ndef topology():\n    return one()\n\n\nif __name__ == "__main__":\n    topology()\n'
    )


def test_the_pages_of_the_tutorial_are_numbered_and_lead_to_each_other() -> None:
    assert [page.name[: len("tutorial-00")] for page in TUTORIAL] == [f"tutorial-{n:02}" for n in range(1, 11)]
    for number, page in enumerate(TUTORIAL, 1):
        text = page.read_text()
        assert text.startswith(f"# Tutorial {number}: ")
        assert text.partition("\n\n")[2].startswith("At the end of this page, ")
        following = "".join(f"]({one.name})" for one in TUTORIAL[number : number + 1])
        assert following in text.partition("\n## Next\n")[2]
