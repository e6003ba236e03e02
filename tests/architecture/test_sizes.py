"""A file one can read in one sitting, a function one can see at once.

One file may be longer: streams and tables name each other in a circle, so they share a module, which only types calls
(docs/decisions/0080).
"""

import ast
from collections.abc import Iterator

MOST_LINES_IN_A_FILE = 700
MOST_LINES_OF = {"dsl/streams.py": 1200}
MOST_LINES_IN_A_FUNCTION = 60


def oversized(path: str, source: str) -> Iterator[str]:
    lines = len(source.splitlines())
    if lines > MOST_LINES_OF.get(path, MOST_LINES_IN_A_FILE):
        yield f"{path} has {lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_LINES_IN_A_FUNCTION:
                yield f"{path}:{node.lineno} {node.name} has {lines} lines"


def test_no_file_and_no_function_is_too_long(sources: dict[str, str]) -> None:
    assert [complaint for path, source in sources.items() for complaint in oversized(path, source)] == []


def test_a_long_file_is_found() -> None:
    assert list(oversized("a.py", "x = 1\n" * 700)) == []
    assert list(oversized("a.py", "x = 1\n" * 701)) == ["a.py has 701 lines"]


def test_a_long_function_is_found_also_inside_a_class() -> None:
    body = "        x = 1\n"
    assert list(oversized("a.py", "class A:\n    def f(self):\n" + body * 59)) == []
    assert list(oversized("a.py", "class A:\n    async def f(self):\n" + body * 60)) == ["a.py:2 f has 61 lines"]
