"""The code on docs/first-topology.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def test_the_code_on_the_page_runs(root: Path) -> None:
    """The topology, and the test that the page shows."""
    blocks = re.findall(r"```python\n(.*?)```", (root / "docs" / "first-topology.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks[:2]:
        exec(block, names)
    names["test_words_are_counted"]()


def test_the_page_shows_the_topology_of_the_example(root: Path) -> None:
    page = (root / "docs" / "first-topology.md").read_text("utf-8")
    example = (root / "examples" / "01_word_count" / "word_count_dsl.py").read_text("utf-8")
    start, end = example.index("def topology"), example.index("\n\n\nif __name__")
    assert example[start:end] in page
