"""The picture of a terminal on the first page: what it says fits into it, and it is shown.

`tests/streams/test_demo.py` compares the recording with a run, `test_pictures.py` the picture with the recording.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tools.terminal.drawing import WIDTH, crash_picture, draw_terminal, width_of
from tools.terminal.recording import CRASH, masked

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
RECORDING = CRASH.read_text(encoding="utf-8")


def words(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_first_page_shows_the_crash() -> None:
    assert "](docs/pictures/crash.svg)" in (ROOT / "README.md").read_text()


def test_every_word_of_the_recording_is_in_the_picture_and_within_it() -> None:
    _, *shown = words(crash_picture(RECORDING))  # the title of the window
    assert "".join("".join(shown).split()) == "".join(f"$ streams demo {RECORDING}".split())
    assert all(width_of(line) < WIDTH - 10 for line in RECORDING.splitlines())


def test_the_picture_is_described_for_those_who_do_not_see_it() -> None:
    root = ElementTree.fromstring(crash_picture(RECORDING))
    assert root.get("role") == "img"
    assert all((root.findtext(f"{SVG}{part}") or "").strip() for part in ("title", "desc"))


def test_what_a_terminal_shows_is_no_markup() -> None:
    assert "a <b> & c" in words(draw_terminal("a & b", "<c>", "run", "a <b> & c\n"))


def test_only_the_numbers_of_a_run_are_masked() -> None:
    assert masked("(pid 12), when 34 orders, 5 counts") == "(pid N), when N orders, 5 counts"
