"""The code of the user's functions, read for the texts of errors: where one is defined, and whether it returns
anything."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Callable
from functools import lru_cache, partial
from types import CodeType
from typing import Any

from processor_api.texts import plain_str
from processor_api.user_code.given_values import attribute_of
from processor_api.user_code.lines import Line

_ASYNC = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
_MOST_WRAPPERS = 100
_CACHED = type(lru_cache(print))
_RETURNS = ("RETURN_VALUE", "RETURN_CONST")


def function_name(function: Any) -> str:
    """Returns the name of a function, a class or an object that can be called: ``Prices.split``, ``lambda``."""
    named = plain_str(attribute_of(_inner(function), "__qualname__", type(function).__qualname__))
    name = named.rpartition("<locals>.")[2]
    return "lambda" if name.rpartition(".")[2] == "<lambda>" else name


def module_of(function: Any) -> str:
    """Returns the name of the module that defines a function, or the class of an object that can be called."""
    return str(attribute_of(_inner(function), "__module__"))


def named_function(function: Any) -> str:
    """Returns the name of a function and the line where it is defined: ``split at orders.py:14``.

    It is the name alone where no line is known, as for builtins.
    """
    code = _code(function)
    name = function_name(function)
    name = "the lambda" if name == "lambda" else name
    return name if code is None else f"{name} at {Line(code.co_filename, code.co_firstlineno)}"


def is_async(function: Any) -> bool:
    """Whether a function is made by ``async def``, so that a call of it runs nothing and returns a coroutine or an
    asynchronous generator. So may be what a ``functools.partial`` or ``functools.cache`` calls, or the ``__call__`` of
    an object.

    A plain function that decorates one is not: it may run the coroutine itself.
    """
    return any(_is(kind, one) for one in _called(function) for kind in _ASYNC)


def is_generator(function: Any) -> bool:
    """Whether a function has a ``yield``, in the same places as :func:`is_async`."""
    return any(_is(inspect.isgeneratorfunction, one) for one in _called(function))


def why_not_plain(function: Any) -> str:
    """Returns why a call of a function returns without a result, for the end of a sentence; empty if it has one."""
    if is_async(function):
        return "is made by async def"
    return "has a yield" if is_generator(function) else ""


def _called(function: Any) -> tuple[Any, Any]:
    """Returns the function that a call runs, and the ``__call__`` of its class."""
    found = called_function(function)
    return found, attribute_of(type(found), "__call__")


def called_function(function: Any) -> Any:
    """Returns the function, class or object that a call of a ``functools.partial`` or ``functools.cache`` ends in."""
    for _ in range(_MOST_WRAPPERS):
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, _CACHED):
            function = function.__wrapped__
        else:
            break
    return function


def _is(kind: Callable[[Any], bool], value: Any) -> bool:
    try:
        return kind(value)
    except Exception:  # an object whose attributes cannot be read
        return False


def returns_nothing(function: Any) -> bool:
    """Whether a function ends without ever returning anything: it has no ``return``, and is not a lambda or generator.

    ``return None`` is a return: it says that a null is meant. Whether the function can return anything else is looked
    up in its code first, since its text takes longer to read; without its text the result is false.
    """
    code = _code(function)
    if code is None or code.co_name == "<lambda>" or code.co_flags & inspect.CO_GENERATOR:
        return False
    before: dis.Instruction | None = None
    ends = False
    for step in dis.get_instructions(code):
        if step.opname in _RETURNS:
            result = before if step.opname == "RETURN_VALUE" else step
            if result is None or result.argval is not None or not result.opname.endswith("_CONST"):
                return False
            ends = True
        before = step
    return ends and not _has_return(code)


def _has_return(code: CodeType) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or made by other means
        return True
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return True
    inside: list[ast.AST] = list(tree.body[0].body)
    while inside:
        node = inside.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            inside.extend(ast.iter_child_nodes(node))
    return False


def _inner(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _code(function: Any) -> CodeType | None:
    function = _inner(function)
    found = attribute_of(function, "__code__")
    if found is None:  # a bound method, or an object that can be called
        call = function if inspect.ismethod(function) else getattr(type(function), "__call__", None)  # noqa: B004 - an object
        found = getattr(call, "__code__", None)
    return found if isinstance(found, CodeType) else None
