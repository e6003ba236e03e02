"""What a user gave is shown by `repr_of`: its own `__repr__` or `__str__` may raise, lie, or be of any length.

An error that was made to say what is wrong was replaced by the error of the object that it was about. A text of an
f-string shows an object by itself only where the file says that it is of a plain type: a name that is annotated so, and
whose type nobody asks about around it, or an attribute that is annotated so in some class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.parsed_sources import nodes_of, parsed

PLAIN = {"str", "int", "float", "bool", "bytes", "None", "Path", "date", "datetime"}
"""Types of which no object fails to be shown, and none is long: those of names, numbers and paths."""
ANYTHING = {"Any", "object", "BaseException", "Exception"}
"""Types that say nothing about the text of an object: `str()` of one may fail as well."""
NOT_OF_USERS = ("streams/testing/contracts/", "streams/testing/simulation/", "streams/origin.py")

ALLOWED = {
    "dsl/processors/printer.py": "it prints keys and values by their own text, and its failure is that of the record",
}
"""Files that show what users give by its own text, and why."""


def is_plain(annotation: ast.expr | None) -> bool:
    return annotation is not None and _words(annotation) <= PLAIN


def is_anything(annotation: ast.expr | None) -> bool:
    return annotation is None or bool(
        {word for word in _words(annotation) if word in ANYTHING or (len(word) == 1 and word.isupper())}
    )


def _words(annotation: ast.expr) -> set[str]:
    return {part.strip() for part in ast.unparse(annotation).strip("'\"").split("|")}


def attributes(sources: dict[str, str]) -> dict[str, bool]:
    """Whether an attribute of that name is plain in a class that says its type."""
    found: dict[str, bool] = {}
    for source in sources.values():
        for part in nodes_of(parsed(source)):
            for node in part.body if isinstance(part, ast.ClassDef) else ():
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found[node.target.id] = found.get(node.target.id, False) or is_plain(node.annotation)
    return found


@dataclass
class Reader:
    """Finds what the f-strings of one file show by itself."""

    path: str
    attributes: dict[str, bool] = field(default_factory=dict)

    def read(self, source: str) -> list[str]:
        return list(self._visit(parsed(source), {}, ()))

    def _visit(self, node: ast.AST, names: dict[str, ast.expr | None], asked: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in ("__repr__", "__str__"):  # a caller of ours takes care, and Python's own do the same
                return
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            names = names | {
                one.arg: one.annotation for one in every if one is not None and one.arg not in ("self", "cls")
            }
            names |= {
                part.target.id: part.annotation
                for part in ast.walk(node)
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            }
            asked = ()
        if isinstance(node, ast.FormattedValue) and self._is_raw(node, names, asked):
            conversion = "!r" if node.conversion == ord("r") else ""
            yield f"{self.path}:{node.lineno} shows {ast.unparse(node.value)}{conversion}"
        for name, value in ast.iter_fields(node):
            within = asked
            if isinstance(node, ast.If | ast.IfExp) and name == "body":
                within = asked + tuple(_asked_about(node.test))
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._visit(child, names, within)

    def _is_raw(self, node: ast.FormattedValue, names: dict[str, ast.expr | None], asked: tuple[str, ...]) -> bool:
        shown, text = node.value, ast.unparse(node.value)
        by_repr = node.conversion == ord("r")
        if text in asked:
            return by_repr
        if isinstance(shown, ast.Name) and shown.id in names:
            annotation = names[shown.id]
            return not is_plain(annotation) if by_repr else is_anything(annotation)
        if isinstance(shown, ast.Attribute):
            return by_repr and not self.attributes.get(shown.attr, True)
        return False


def _asked_about(test: ast.expr) -> Iterator[str]:
    """What a condition asks the type of, so that it may be of any."""
    for part in ast.walk(test):
        called = part.func if isinstance(part, ast.Call) and part.args else None
        if isinstance(called, ast.Name) and called.id in ("isinstance", "type", "callable", "hasattr"):
            yield ast.unparse(part.args[0])  # type: ignore[attr-defined]


def test_what_users_give_is_shown_by_repr_of(sources: dict[str, str]) -> None:
    known = attributes(sources)
    found = [
        complaint
        for path, source in sources.items()
        if not path.startswith(NOT_OF_USERS) and path not in ALLOWED
        for complaint in Reader(path, known).read(source)
    ]
    assert found == []


def test_each_exception_is_needed(sources: dict[str, str]) -> None:
    assert [path for path in ALLOWED if not Reader(path).read(sources[path])] == []


def complaints(source: str) -> list[str]:
    return [one.partition(" shows ")[2] for one in Reader("a.py", {"key": False, "name": True}).read(source)]


def test_what_may_be_anything_is_found() -> None:
    assert complaints("def f(given: Any):\n    raise E(f'not {given!r}')") == ["given!r"]
    assert complaints("def f(given):\n    raise E(f'not {given}')") == ["given"]
    assert complaints("def f(given: K | None):\n    raise E(f'not {given}')") == ["given"]
    assert complaints("def f(error: Exception):\n    raise E(f'it failed: {error}')") == ["error"]
    assert complaints("def f(query: Query):\n    raise E(f'not {query!r}')") == ["query!r"]
    assert complaints("def f(error: E):\n    raise E(f'not {error.key!r}')") == ["error.key!r"]
    asked = "def f(name: str):\n    if not isinstance(name, str):\n        raise E(f'not {name!r}')"
    assert complaints(asked) == ["name!r"]
    assert complaints(asked.replace("isinstance(name, str)", "name or type(name) is not str")) == ["name!r"]
    assert complaints(
        "def f(names):\n    for one in names:\n        if not isinstance(one, str):\n            f'{one!r}'"
    ) == ["one!r"]
    assert complaints("def f(x):\n    given: object = x\n    raise E(f'not {given!r}')") == ["given!r"]


def test_what_is_plain_is_shown_as_it_is() -> None:
    assert complaints("def f(name: str, number: int | None):\n    raise E(f'not {name!r}, {number!r}, {number}')") == []
    assert complaints("def f(store: Store):\n    raise E(f'not {store.name!r}')") == []
    assert complaints("def f(given: Any):\n    raise E(f'not {repr_of(given)}')") == []
    assert complaints("class A:\n    def __repr__(self):\n        return f'A({self.key!r})'") == []
