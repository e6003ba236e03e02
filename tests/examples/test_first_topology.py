"""The topology on docs/first-topology.md is that of the example; `test_tutorials_followed.py` follows the page."""

from __future__ import annotations

from pathlib import Path


def test_the_page_shows_the_topology_of_the_example(root: Path) -> None:
    page = (root / "docs" / "first-topology.md").read_text("utf-8")
    example = (root / "examples" / "01_word_count" / "word_count_dsl.py").read_text("utf-8")
    start, end = example.index("def topology"), example.index("\n\n\nif __name__")
    assert example[start:end] in page
