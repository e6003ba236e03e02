"""`streams state rebuild` asks before it removes anything, where there is somebody to ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from state.engine.port import OFFSETS
from state.formats.offsets import complete_at_key
from state_support.all_kinds import change, made

REPOSITORY = Path(__file__).resolve().parents[2]
ASKED = "? The next start restores them from the changelog, which can take long. [y/N] "
STORE = f"remove the entries of store 'plain': 2 of task 0_0{ASKED}"
TASK = f"remove all state of task 0_0{ASKED}"
UNCHANGED = "nothing was changed"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made(tmp_path / "state", ("a", "one", 10), ("c", "two", 20)).task.close(dirty=True)
    return tmp_path / "state"


def command(root: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1"}
    return [sys.executable, "-m", "streams", "state", "rebuild", *words, "--state-dir", str(root)], environment


def answered(root: Path, typed: bytes, *words: str) -> tuple[int, str]:
    """The status of the command on a terminal, and all that stands there at the end."""
    terminal, inner = os.openpty()
    called, environment = command(root, *words)
    process = subprocess.Popen(called, env=environment, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    os.close(inner)
    shown = bytearray()
    try:
        while part := os.read(terminal, 65536):
            shown += part
            if shown.endswith(b"[y/N] "):
                os.write(terminal, typed)
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    return process.wait(60), shown.decode().replace("^D\b\b", "").replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("typed", "words", "asked"),
    [
        ("n\n", ["plain"], STORE),
        ("n\n", ["--task", "0_0"], TASK),
        ("\n", ["plain"], STORE),
        ("\x04", ["--task", "0_0"], TASK),
        ("yess\n", ["plain"], STORE),
        ("ä\n", ["--task", "0_0"], TASK),
    ],
)
def test_any_other_answer_than_yes_changes_nothing(typed: str, words: list[str], asked: str, root: Path) -> None:
    end = f"{typed.strip()}\n{UNCHANGED}\n".replace("\x04", "")
    assert answered(root, typed.encode(), *words) == (1, asked + end)
    assert (root / "app" / "0_0" / "rocksdb").is_dir()


def test_yes_removes_the_entries(root: Path) -> None:
    removed = "task 0_0: removed store 'plain', 2 entries, app-plain-changelog-0@1; the next start restores it from its"
    assert answered(root, b"y\n", "plain") == (0, f"{STORE}y\n{removed} changelog\n")


def test_it_says_which_rows_nothing_restores(root: Path) -> None:
    """In place of the promise that they come back."""
    for key in (b"app-plain-changelog-0", complete_at_key("app-plain-changelog")):
        change(root / "app" / "0_0" / "rocksdb", OFFSETS, key, None)
    asked = (
        "remove all state of task 0_0? The rows of 'plain' do not have a changelog offset, so they cannot be"
        " restored. [y/N] "
    )
    assert answered(root, b"n\n", "--task", "0_0", "--force") == (1, f"{asked}n\n{UNCHANGED}\n")


def test_a_script_and_yes_are_not_asked(root: Path) -> None:
    status, shown = answered(root, b"", "plain", "--yes")
    assert (status, shown.count("\n"), shown[:38]) == (0, 1, "task 0_0: removed store 'plain', 2 ent")
    called, environment = command(root, "stamped")
    found = subprocess.run(
        called, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("task 0_0: removed store 'stamped', 2 entries")
