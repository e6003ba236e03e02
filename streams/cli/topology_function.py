"""Finds the user's topology: a function named as ``module:function`` that makes one."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from processor_api.errors import StreamsError
from processor_api.topology import Topology
from streams.cli.failures import CannotRun, place_of
from streams.origin import check_origin

__all__ = ["load_topology"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def load_topology(path: str, config: Callable[[], Any]) -> Topology:
    """Returns the topology that the function at ``module:function`` makes.

    The function takes nothing, or the configuration. It returns a topology, or an object with ``build(config)``, such
    as a ``StreamsBuilder``. Modules are looked for in the current directory first.

    :param config: gives the configuration; called only if it is needed.
    :raises CannotRun: if there is no such function, or it fails, or returns something else.
    :raises StreamsError: if the function or the configuration raises one.
    """
    function = _function(path)
    made = _guarded(path, lambda: function(config()) if _takes_config(path, function) else function())
    build = getattr(made, "build", None)
    if not isinstance(made, Topology) and callable(build):
        made = _guarded(f"the build of what {path} returned", lambda: build(config()))
    if not isinstance(made, Topology):
        raise CannotRun(
            f"{path} returned {made!r}; it must return a topology, or a builder of one such as a StreamsBuilder"
        )
    return made


def _function(path: str) -> Callable[..., Any]:
    module_name, colon, names = path.partition(":")
    if not colon or not module_name or not names or module_name.endswith(".py") or "/" in module_name:
        raise CannotRun(f"{path!r} does not name a topology: give it as module:function, for instance app:topology")
    found: Any = _module(module_name)
    for name in names.split("."):
        found = getattr(found, name, None)
        if found is None:
            raise CannotRun(f"module {module_name} has no function {names!r}{_functions_of(module_name)}")
    if not callable(found):
        raise CannotRun(f"{path} is {found!r}, not a function that makes a topology")
    function: Callable[..., Any] = found
    return function


def _module(name: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
        check_origin()
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise CannotRun(f"there is no module {error.name!r} in {here} or on the import path") from None
        raise _import_failure(name, error) from error
    except Exception as error:
        raise _import_failure(name, error) from error


def _import_failure(name: str, error: Exception) -> CannotRun:
    return CannotRun(f"module {name} failed to import{place_of(error)}")


def _functions_of(module_name: str) -> str:
    module = sys.modules[module_name]
    names = [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]
    own = [name for name in names if getattr(module, name).__module__ == module_name]
    return f"; it has {', '.join(own)}" if own else ""


def _takes_config(path: str, function: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    required = [each for each in parameters if each.default is each.empty and each.kind not in _VARIADIC]
    if len(required) > 1 or any(each.kind not in _POSITIONAL for each in required):
        names = ", ".join(each.name for each in required)
        raise CannotRun(f"{path} wants the arguments {names}; it must take none, or one: the configuration")
    return bool(required) or (len(parameters) == 1 and parameters[0].kind in _POSITIONAL)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _guarded(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (StreamsError, CannotRun):
        raise
    except Exception as error:
        raise CannotRun(f"{what} failed{place_of(error)}") from error
