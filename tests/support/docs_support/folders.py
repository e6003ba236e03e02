"""The folders in which readers of pages give their commands."""

from __future__ import annotations

import shutil
from pathlib import Path

from docs_support.blocks import QUICK_START, ROOT, blocks
from docs_support.copied import copy_files
from docs_support.followed import TUTORIAL

APP = """
from streams import StreamsBuilder

builder = StreamsBuilder(key_serde="string", value_serde="json")
orders = builder.table("orders", materialized="orders")
orders.to_stream().to("orders-seen")
topology = builder
"""
"""An `app.py` that fits the pages that show none."""


def prepare(page: Path, folder: Path) -> Path:
    """Makes the folder where a reader of the page is, with the files that the page speaks of."""
    of_word_count = page == ROOT / "examples" / "README.md"
    if page.parent.parent == ROOT / "examples" or of_word_count:
        example = ROOT / "examples" / "01_word_count" if of_word_count else page.parent
        return Path(shutil.copytree(example, folder / example.name, ignore=shutil.ignore_patterns("__pycache__")))
    if page in TUTORIAL:
        copy_files(folder, TUTORIAL[: TUTORIAL.index(page) + 1])
        return folder
    files = {"app.py": APP, "cluster.toml": '"state.cleanup.delay.ms" = 600000\n', "kafka.toml": ""}
    if page == ROOT / "README.md":
        files = {"app.py": blocks(page, "python")[0].text}
    if page == QUICK_START:
        files = {"app.py": blocks(page, "python")[0].text, "streams.toml": blocks(page, "toml")[0].text}
    if page.name == "topics-and-records.md":
        files = {"app.py": blocks(ROOT / "README.md", "python")[0].text}
        files |= {"orders.py": blocks(page, "python")[0].text, "orders.jsonl": blocks(page, "json")[0].text}
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder
