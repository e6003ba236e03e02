"""A constructor that one can call without a list of its arguments: at most seven. There is no list of exemptions.

A frozen dataclass is a value whose fields have names, such as a configuration: it may have more.
"""

import ast
from collections.abc import Iterator

from tools.parsed_sources import nodes_of, parsed

MOST_ARGUMENTS = 7


def arguments(function: ast.FunctionDef) -> int:
    """Returns how many arguments a constructor has, without the object or class itself."""
    given = function.args
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - 1


def dataclass_of(node: ast.ClassDef) -> dict[str, object] | None:
    """Returns the arguments of a class's `dataclass` decorator; `None` if it has none."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
        if name == "dataclass":
            return {str(given.arg): getattr(given.value, "value", None) for given in call.keywords}
    return None


def is_argument(statement: ast.stmt) -> bool:
    """Whether a statement in the body of a dataclass is a field that its constructor takes."""
    if not isinstance(statement, ast.AnnAssign) or ast.unparse(statement.annotation).startswith("ClassVar"):
        return False
    value = statement.value
    given = value.keywords if isinstance(value, ast.Call) else []
    return not any(each.arg == "init" and getattr(each.value, "value", None) is False for each in given)


def constructors(node: ast.ClassDef) -> Iterator[int]:
    """Yields the number of arguments of each constructor of a class."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name in ("__init__", "__new__"):
            yield arguments(statement)
    options = dataclass_of(node)
    if options is not None and options.get("frozen") is not True:
        yield sum(map(is_argument, node.body))


def crowded(path: str, source: str) -> Iterator[str]:
    for node in nodes_of(parsed(source)):
        if isinstance(node, ast.ClassDef):
            for count in constructors(node):
                if count > MOST_ARGUMENTS:
                    yield f"{path}:{node.lineno} {node.name} is made with {count} arguments"


def test_no_constructor_has_too_many_arguments(sources: dict[str, str]) -> None:
    assert [complaint for path, source in sources.items() for complaint in crowded(path, source)] == []


def test_an_argument_too_many_is_found() -> None:
    seven = "class A:\n    def __init__(self, a, b, /, c, d, *, e, f, g=1): ...\n"
    assert list(crowded("a.py", seven)) == []
    eight = seven.replace("g=1", "g=1, h=2")
    assert list(crowded("a.py", eight)) == ["a.py:1 A is made with 8 arguments"]
    assert list(crowded("a.py", eight.replace("__init__", "__new__"))) == ["a.py:1 A is made with 8 arguments"]
    nested = "def f():\n    " + eight.replace("\n", "\n    ").rstrip() + "\n"
    assert list(crowded("a.py", nested)) == ["a.py:2 A is made with 8 arguments"]


def test_a_dataclass_counts_unless_it_is_frozen() -> None:
    fields = "".join(f"    {name}: int = 0\n" for name in "abcdefgh")
    mutable = ["a.py:2 A is made with 8 arguments"]
    assert list(crowded("a.py", f"@dataclass\nclass A:\n{fields}")) == mutable
    assert list(crowded("a.py", f"@dataclasses.dataclass(eq=False)\nclass A:\n{fields}")) == mutable
    assert list(crowded("a.py", f"@dataclass(frozen=False)\nclass A:\n{fields}")) == mutable
    assert list(crowded("a.py", f"@dataclass(frozen=True, kw_only=True)\nclass A:\n{fields}")) == []


def test_what_a_dataclass_does_not_take_does_not_count() -> None:
    fields = "".join(f"    {name}: int\n" for name in "abcdefg")
    more = "    h: int = field(init=False, default=0)\n    i: ClassVar[int] = 0\n"
    assert list(crowded("a.py", f"@dataclass\nclass A:\n{fields}{more}")) == []
