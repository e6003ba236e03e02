"""Words that a reader can look up: docstrings that begin with a sentence, and the field's names for things.

`FRAGMENT` is the beginning of a docstring that is no sentence of its own, such as "Of one task." or "What is kept.".
`BANNED` are words of this project's own that stood where Kafka Streams, RocksDB or Python have a word. There is no
list of exceptions.
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
BANNED = re.compile(
    r"\b(anew|whoever|nobody|told|in work|advice|courier|overdue|upkeep|upkeeps|give up the place|gives? way"
    r"|bec(ome|omes|ame) of|lets? go)\b",
    re.IGNORECASE,
)
BANNED_NAMES = frozenset({
    "advice", "anew", "courier", "headed", "mend", "nobody", "overdue", "tell", "tells", "told", "trouble", "whoever",
})  # fmt: skip
"""Words that are no part of a name, `snake_case` or `CamelCase`."""


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


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the names that a file defines or uses, with their lines."""
    for node in nodes_of(tree):
        match node:
            case ast.Name():
                yield node.lineno, node.id
            case ast.Attribute():
                yield node.lineno, node.attr
            case ast.arg():
                yield node.lineno, node.arg
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name


def words_of(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def complaints(path: str, source: str) -> Iterator[str]:
    """Yields what is wrong with the words of a file."""
    tree = parsed(source)
    for line, text, fragment in documented(tree):
        if found := fragment.match(text):
            yield f"{path}:{line} begins with {found.group()!r}: say what it does or holds"
        if found := BANNED.search(" ".join(text.split())):
            yield f"{path}:{line} says {found.group()!r}"
    for line, name in names(tree):
        for word in sorted(words_of(name) & BANNED_NAMES):
            yield f"{path}:{line} has the name {name}, with {word!r}"


@pytest.fixture(scope="module")
def texts(root: Path) -> dict[str, str]:
    """The text of every source file that is held to this, by its path from the root."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
    }


def test_docstrings_and_names_use_words_that_stand_alone(texts: dict[str, str]) -> None:
    assert len(texts) > 300
    assert [complaint for path, source in texts.items() for complaint in complaints(path, source)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Of one task."""', "a.py:1 begins with 'Of': say what it does or holds"),
        ('class A:\n    """What is kept."""', "a.py:2 begins with 'What': say what it does or holds"),
        ('def f():\n    """:param a: a number"""', "a.py:2 begins with ':param': say what it does or holds"),
        ('def f():\n    """Reads it\n    anew."""', "a.py:2 says 'anew'"),
        ('A = 1\n"""As in Java."""', "a.py:2 begins with 'As': say what it does or holds"),
        (
            "class A:\n    def f(self):\n        self.last_trouble = 1",
            "a.py:3 has the name last_trouble, with 'trouble'",
        ),
        ("class StoreAdvice: ...", "a.py:1 has the name StoreAdvice, with 'advice'"),
        ("def f(told): ...", "a.py:1 has the name told, with 'told'"),
    ],
)
def test_a_riddle_is_found(source: str, expected: str) -> None:
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
def test_a_sentence_is_no_riddle(source: str) -> None:
    assert list(complaints("a.py", source)) == []
