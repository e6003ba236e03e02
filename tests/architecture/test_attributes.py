"""An object has all its attributes when it is made: none grows later. There is no list of exemptions.

It is made by its constructor, with the methods that this calls; a processor by ``init`` too, as in Kafka Streams. A
class may declare an attribute in its body instead.
"""

import ast
from collections.abc import Iterator

from tools.parsed_sources import nodes_of, parsed

MAKERS = ("__init__", "__new__", "__post_init__", "init")


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}


def set_on_self(function: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """The attributes that a method sets on its object, with their lines."""
    for part in ast.walk(function):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and is_self(part.value):
            yield part.attr, part.lineno


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def making(node: ast.ClassDef) -> set[str]:
    """The methods that run while an object is made."""
    known, found, todo = methods(node), set[str](), list(MAKERS)
    while todo:
        name = todo.pop()
        if name in known and name not in found:
            found.add(name)
            uses = (part for part in ast.walk(known[name]) if isinstance(part, ast.Attribute))
            todo += [part.attr for part in uses if is_self(part.value)]
    return found


def declared(node: ast.ClassDef) -> set[str]:
    """The names in the body of a class, among them those of ``__slots__``."""
    found: set[str] = set()
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            found.add(part.target.id)
        elif isinstance(part, ast.Assign):
            names = {target.id for target in part.targets if isinstance(target, ast.Name)}
            found |= names
            if "__slots__" in names:
                found |= {str(item.value) for item in ast.walk(part.value) if isinstance(item, ast.Constant)}
        elif isinstance(part, ast.FunctionDef):
            found.add(part.name)
    return found


def there(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> set[str]:
    """The attributes that an object of a class has when it is made, also by the classes above."""
    known = methods(node)
    found = declared(node) | {name for method in making(node) for name, _ in set_on_self(known[method])}
    for base in node.bases:
        above = classes.get(ast.unparse(base).split("[")[0].split(".")[-1])
        if above is not None and above is not node:
            found |= there(above, classes)
    return found


def growing(path: str, source: str, classes: dict[str, ast.ClassDef]) -> Iterator[str]:
    for node in nodes_of(parsed(source)):
        if isinstance(node, ast.ClassDef):
            has = there(node, classes)
            for method in methods(node).values():
                for name, line in set_on_self(method):
                    if name not in has:
                        yield f"{path}:{line} {node.name} gets {name} after it was made"


def classes_of(sources: dict[str, str]) -> dict[str, ast.ClassDef]:
    trees = map(nodes_of, map(parsed, sources.values()))
    return {node.name: node for nodes in trees for node in nodes if isinstance(node, ast.ClassDef)}


def test_no_object_grows(sources: dict[str, str]) -> None:
    classes = classes_of(sources)
    assert len(classes) > 500
    assert [complaint for path, source in sources.items() for complaint in growing(path, source, classes)] == []


def test_one_that_grows_is_found() -> None:
    source = "class A:\n    def __init__(self):\n        self.a = self._b()\n    def _b(self):\n        self.b = 1\n"
    grown = source + "    def run(self):\n        self.a = self.b = self.c = 1\n"
    assert list(growing("a.py", source, classes_of({"a.py": source}))) == []
    assert list(growing("a.py", grown, classes_of({"a.py": grown}))) == ["a.py:7 A gets c after it was made"]
