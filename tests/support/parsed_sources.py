"""Parses each source file once for all tests that read the code: parsing all of them takes seconds."""

import ast
from functools import cache

__all__ = ["forget_parsed", "nodes_of", "parsed"]


@cache
def parsed(source: str) -> ast.Module:
    """Returns the syntax tree of a source text."""
    return ast.parse(source)


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Returns every node of the syntax tree of a file."""
    return tuple(ast.walk(tree))


def forget_parsed() -> None:
    """Forgets all trees: some hundred megabytes, which the garbage collector would look through again and again."""
    parsed.cache_clear()
    nodes_of.cache_clear()
