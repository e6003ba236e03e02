"""The pages that a person follows from top to bottom, with files and commands."""

from __future__ import annotations

from docs_support.blocks import QUICK_START, ROOT

FOLLOWED = [QUICK_START, *sorted((ROOT / "docs").glob("tutorial-*.md"))]
"""`tests/docs/test_tutorials_followed.py` follows them, so that no other test has to run their blocks."""
