"""What is private stays with its class: nobody reaches into an object of another one. There is no list of exemptions.

Private is a name that begins with one underscore. It may be used on `self`, `cls` and `super()`; on another object of
the class that has the name (or inherits it from one in the same file); on an object of a class of the same file that is
private itself; and on what is imported from a library, which says in its documentation what may be used. Copying an
object by its `__dict__`, or making one without its constructor, gets around the same wall.
"""

import ast
from collections.abc import Iterator

from tools.parsed_sources import nodes_of, parsed

PACKAGES = ("processor_api", "state", "dsl", "streams")
BY_NAME = {"getattr", "setattr", "hasattr", "delattr"}
OF_NAMED_TUPLES = {"_replace", "_asdict", "_make", "_fields", "_field_defaults"}
"""Public by Python's documentation: they begin with an underscore so that they do not collide with fields."""


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def own_names(node: ast.ClassDef) -> set[str]:
    """The private names that a class gives to itself and to its objects."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(part.name)
        elif isinstance(part, ast.Attribute) and is_self(part.value) and isinstance(part.ctx, ast.Store):
            found.add(part.attr)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):  # __slots__
            found.add(part.value)
    return set(filter(is_private, found))


def is_self(node: ast.expr) -> bool:
    is_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    return is_super or (isinstance(node, ast.Name) and node.id in ("self", "cls"))


def foreign_names(tree: ast.Module) -> set[str]:
    """What a file imports from libraries."""
    found: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name for alias in node.names if alias.name.split(".")[0] not in PACKAGES}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] not in PACKAGES:
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def private_accesses(path: str, source: str) -> Iterator[str]:
    tree = parsed(source)
    classes = {node.name: node for node in nodes_of(tree) if isinstance(node, ast.ClassDef)}
    helpers = {name for node in classes.values() if is_private(node.name) for name in own_names(node)}
    foreign = foreign_names(tree)

    def inherited(node: ast.ClassDef) -> set[str]:
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        above = [classes[base.id] for base in bases if isinstance(base, ast.Name) and base.id in classes]
        return own_names(node).union(*map(inherited, above))

    def visit(node: ast.AST, own: set[str]) -> Iterator[str]:
        if isinstance(node, ast.ClassDef):
            own = own | inherited(node)
        if isinstance(node, ast.Attribute):
            is_foreign = isinstance(node.value, ast.Name) and node.value.id in foreign
            allowed = is_self(node.value) or is_foreign or node.attr in own or node.attr in helpers
            if is_private(node.attr) and not allowed:
                yield f"{path}:{node.lineno} uses {ast.unparse(node)}"
            if node.attr == "__dict__" or (node.attr == "__new__" and ast.unparse(node) != "tuple.__new__"):
                yield f"{path}:{node.lineno} uses {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BY_NAME:
            name = node.args[1] if len(node.args) > 1 else None
            of_library = isinstance(node.args[0], ast.Name) and node.args[0].id in foreign
            if isinstance(name, ast.Constant) and is_private(name.value) and not of_library:
                yield f"{path}:{node.lineno} uses {ast.unparse(node)}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, own)

    yield from visit(tree, set())


def test_nobody_reaches_into_an_object_of_another_class(sources: dict[str, str]) -> None:
    assert [complaint for path, source in sources.items() for complaint in private_accesses(path, source)] == []


def complaints(source: str) -> list[str]:
    return [line.partition(" uses ")[2] for line in private_accesses("a.py", source)]


def test_an_access_from_outside_is_found_however_it_is_written() -> None:
    reader = "class Reader:\n    def read(self, rows):\n        return {}\n"
    assert complaints(reader.format("rows._dirty")) == ["rows._dirty"]
    assert complaints(reader.format("self.rows._dirty")) == ["self.rows._dirty"]
    assert complaints(reader.format("getattr(rows, '_dirty')")) == ["getattr(rows, '_dirty')"]
    assert complaints(reader.format("rows.copy()._dirty")) == ["rows.copy()._dirty"]
    assert complaints("from state.rows import Rows\nRows._dirty\n") == ["Rows._dirty"]
    assert complaints("def f(rows):\n    rows._dirty = {}\n") == ["rows._dirty"]


def test_objects_are_not_made_behind_the_back_of_their_class() -> None:
    assert complaints("def f(a, b):\n    a.__dict__.update(b.__dict__)\n") == ["a.__dict__", "b.__dict__"]
    assert complaints("class A:\n    def of(cls):\n        return cls.__new__(cls)\n") == ["cls.__new__"]
    assert complaints("make = tuple.__new__\n") == []


def test_what_is_ones_own_may_be_used() -> None:
    own = (
        "class A:\n    def __init__(self):\n        self._x = 1\n    def take(self, other):\n        return other._x\n"
    )
    assert complaints(own) == []
    below = own + "class B(A):\n    def two(self, one):\n        return one._x + super()._x\n"
    assert complaints(below) == []
    assert complaints(own + "class C:\n    def other(self, one):\n        return one._x\n") == ["one._x"]
    assert complaints(own.replace("class A", "class _A") + "def f(a):\n    return a._x\n") == []


def test_a_library_decides_for_itself() -> None:
    assert complaints("import os\nos._exit(1)\n") == []
    assert complaints("from state import engine\nengine._open()\n") == ["engine._open"]
    assert complaints("def f(row):\n    return row._replace(a=1)\n") == []
