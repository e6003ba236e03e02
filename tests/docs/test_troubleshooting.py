"""The texts of docs/troubleshooting.md are ones that the library says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
TEXTS = re.findall(r"^### `(.*)`$", PAGE, re.MULTILINE)
HOLE = "\0"


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Every text of a module, with a mark where a value goes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[srd]", HOLE, node.value)


@pytest.fixture(name="said", scope="module")
def said_fixture() -> list[str]:
    files = [
        file for package in ("streams", "dsl", "state", "processor_api") for file in (ROOT / package).rglob("*.py")
    ]
    return [text for file in files for text in texts_of(ast.parse(file.read_text())) if len(text) > 20]


def is_said(text: str, said: list[str]) -> bool:
    """Whether one text of the library has all parts in their order; a part at an end may be cut there."""
    parts = [re.escape(part) for part in text.split("...") if part.strip()]
    pattern = re.compile(".*?".join(parts), re.DOTALL)
    return any(pattern.search(one) for one in said)


def test_there_are_texts() -> None:
    assert len(TEXTS) == len(set(TEXTS)) > 20
    assert all(len(text.replace("...", "")) > 20 for text in TEXTS)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_still_said(text: str, said: list[str]) -> None:
    assert is_said(text, said)


def test_a_text_that_is_gone_is_noticed(said: list[str]) -> None:
    assert not is_said("the flux capacitor of node ... is full", said)
    found = next(texts_of(ast.parse('raise E(f"no {what} of " f"{name!r}: %s")')))
    assert is_said("no ... of ...: ", [found])
    assert not is_said("no ... for ...", [found])
