"""Blocks of console show what a reader sees who runs their commands in a folder with the files of the page.

A command runs in a shell whose output is a terminal, as that of a reader. Times of day that the machine gives differ;
all else is the same.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path

import pytest

from terminal_output import run_on_terminal

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "try.md"]
NAMED = re.compile(r"`([\w-]+\.(?:py|csv|toml))`[^`]*?\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file: its name is the last in backticks before its block."""
CONSOLE = re.compile(r"^```console\n\$ (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b")


def shown(command: str, folder: Path) -> str:
    """Returns what a shell shows on a terminal."""
    scripts = Path(sys.executable).parent, sysconfig.get_path("scripts")
    path = os.pathsep.join([*map(str, scripts), os.environ["PATH"]])
    return run_on_terminal(["bash", "-c", command], folder, {**os.environ, "PATH": path, "NO_COLOR": "1"})[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_show_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    for name, content in NAMED.findall(text):
        (tmp_path / name).write_text(content)
    blocks = CONSOLE.findall(text)
    assert blocks
    for command, expected in blocks:
        assert TIME.sub("TIME", shown(command, tmp_path)) == TIME.sub("TIME", expected), command
