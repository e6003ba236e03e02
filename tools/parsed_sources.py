"""Parses each source file once for all tests that read the code: parsing all of them takes seconds."""

import ast
import io
import tokenize
from functools import cache

NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


@cache
def parsed(source: str) -> ast.Module:
    """Returns the syntax tree of a source text."""
    return ast.parse(source)


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Returns every node of the syntax tree of a file."""
    return tuple(ast.walk(tree))


@cache
def lines_of_code(source: str) -> frozenset[int]:
    """Returns the numbers of the lines that have code: neither blank nor comment nor docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in nodes_of(parsed(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def forget_parsed() -> None:
    """Forgets all trees: some hundred megabytes, which the garbage collector would look through again and again."""
    parsed.cache_clear()
    nodes_of.cache_clear()
    lines_of_code.cache_clear()
