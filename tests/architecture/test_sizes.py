"""A file one can read in one sitting, a function one can see at once: lines of code are counted.

Docstrings, comments and blank lines are not: an example in a docstring makes no file harder to read. One file may be
longer: streams and tables name each other in a circle, so they share a module, which only types calls
(docs/decisions/testing-and-repository.md, "Streams and tables share one long module").
"""

import ast
from collections.abc import Iterator

from tools.parsed_sources import lines_of_code, nodes_of, parsed

MOST_LINES_IN_A_FILE = 550
MOST_LINES_OF = {"dsl/streams.py": 670, "streams/config/keys.py": 650}
MOST_LINES_IN_A_FUNCTION = 55


def oversized(path: str, source: str) -> Iterator[str]:
    tree = parsed(source)
    lines = lines_of_code(source)
    if len(lines) > MOST_LINES_OF.get(path, MOST_LINES_IN_A_FILE):
        yield f"{path} has {len(lines)} lines of code"
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = sum(line in lines for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
            if own > MOST_LINES_IN_A_FUNCTION:
                yield f"{path}:{node.lineno} {node.name} has {own} lines of code"


def test_no_file_and_no_function_is_too_long(sources: dict[str, str]) -> None:
    assert [complaint for path, source in sources.items() for complaint in oversized(path, source)] == []


def test_a_long_file_is_found() -> None:
    assert list(oversized("a.py", "x = 1\n" * 550)) == []
    assert list(oversized("a.py", "x = 1\n" * 551)) == ["a.py has 551 lines of code"]


def test_a_long_function_is_found_also_inside_a_class() -> None:
    body = "        x = 1\n"
    assert list(oversized("a.py", "class A:\n    def f(self):\n" + body * 54)) == []
    assert list(oversized("a.py", "class A:\n    async def f(self):\n" + body * 55)) == [
        "a.py:2 f has 56 lines of code"
    ]


def test_docstrings_comments_and_blank_lines_are_no_code() -> None:
    source = '"""Text.\n\nMore.\n"""\n\nx = (\n    1,  # one\n    # two\n)\n"""What x is."""\ny = """a\nb"""\n'
    assert lines_of_code(source) == {6, 7, 9, 11, 12}
