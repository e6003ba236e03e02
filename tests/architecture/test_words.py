"""The first sentence of a docstring stands alone. `python -m tools.prose` checks the words of changed lines.

`FRAGMENT` is the beginning of a docstring that is not a sentence of its own, such as "Of one task." or "What is kept.".
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.parsed_sources import nodes_of, parsed

FOLDERS = ("processor_api", "state", "dsl", "streams", "tools", "benchmarks", "examples")
FRAGMENT = re.compile(
    r"(Of|What|As|See|Who|Whom|Whose|Whoever|Whatever|However|Which|Also|By|For|From|In|To|With|Without|Through|At|On"
    r"|Up|Within|Between|That|It|They|Their|How|Where|Why|Told|Both|And|But|Or)\b|:(param|raises)"
)
FRAGMENT_OF_FIELD = re.compile(r"(Of|What|As|See|Who|Whom|Whoever|Which|Also|By|For|From|In|To|With|Without|It|They)\b")
"""The same for the text below a field or constant, where "How many ..." and "Where ..." are usual."""


def documented(tree: ast.Module) -> Iterator[tuple[int, str, re.Pattern[str]]]:
    """Yields each docstring with its line and the beginnings that it must not have."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield node.body[0].lineno, text, FRAGMENT
            for before, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(before, ast.Assign | ast.AnnAssign) and (text := plain_text(after)):
                    yield after.lineno, text, FRAGMENT_OF_FIELD


def plain_text(node: ast.stmt) -> str | None:
    """Returns the text of a statement that is nothing but a text."""
    value = node.value if isinstance(node, ast.Expr) else None
    return inspect.cleandoc(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def complaints(path: str, source: str) -> Iterator[str]:
    """Yields what is wrong with the words of a file."""
    tree = parsed(source)
    for line, text, fragment in documented(tree):
        if found := fragment.match(text):
            yield f"{path}:{line} begins with {found.group()!r}: say what it does or holds"


@pytest.fixture(scope="module")
def texts(root: Path) -> dict[str, str]:
    """The text of every source file that is held to this, by its path from the root."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
    }


def test_docstrings_begin_with_a_sentence_that_stands_alone(texts: dict[str, str]) -> None:
    assert len(texts) > 300
    assert [complaint for path, source in texts.items() for complaint in complaints(path, source)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Of one task."""', "a.py:1 begins with 'Of': say what it does or holds"),
        ('class A:\n    """What is kept."""', "a.py:2 begins with 'What': say what it does or holds"),
        ('def f():\n    """:param a: a number"""', "a.py:2 begins with ':param': say what it does or holds"),
        ('A = 1\n"""As in Java."""', "a.py:2 begins with 'As': say what it does or holds"),
    ],
)
def test_a_fragment_is_found(source: str, expected: str) -> None:
    assert list(complaints("a.py", source)) == [expected]


@pytest.mark.parametrize(
    "source",
    [
        '"""Holds the tasks of one thread."""',
        'A = 1\n"""How many there are."""',
        'def f():\n    """Office hours."""\n    return "whoever"',
        "retold = 1",
    ],
)
def test_a_sentence_is_not_a_fragment(source: str) -> None:
    assert list(complaints("a.py", source)) == []
