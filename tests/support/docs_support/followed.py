"""The pages that a person follows from top to bottom, with files and commands."""

from __future__ import annotations

from docs_support.blocks import QUICK_START, ROOT

TUTORIAL = sorted((ROOT / "docs").glob("tutorial-*.md"))
"""Its pages in their order: each changes the files of the pages before."""
FOLLOWED = [QUICK_START, *TUTORIAL]
"""`tests/docs/test_tutorials_followed.py` follows them, so that no other test has to run their blocks."""
