"""Finds the user's topology and settings by name, in one module."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from processor_api.errors import StreamsError
from processor_api.texts import repr_of
from processor_api.topology.topology import Topology
from streams.cli.output.causes import CannotRun
from streams.cli.output.failures import place_of
from streams.cli.working_directory import from_start
from streams.origin import check_origin
from streams.user_exits import passes

APP_HELP = "file or module, such as app.py, or a topology in it, such as app:topology"

_BY_NAME = ("topology", "builder")
"""The names by which a topology is found in a module."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class NamedApp(NamedTuple):
    """An application as the command line names it."""

    given: str
    folder: str
    """Where its module is looked for first, and where a file of settings may be."""
    module: str
    names: str
    """The topology in the module; empty if it is found by its name."""
    file: str | None
    """The file that was given instead of the module."""


def named_app(given: str) -> NamedApp:
    """Returns what ``app.py``, ``app``, ``app:topology`` and ``app.py:topology`` name; a file may be in any folder.

    :raises CannotRun: if it names no module.
    """
    module, colon, names = given.partition(":")
    file = None
    folder = from_start()
    if module.endswith(".py"):
        file = from_start(module)
        folder, module = os.path.dirname(file), os.path.basename(module)[: -len(".py")]
        if not os.path.isfile(file):
            raise CannotRun(f"file {file} does not exist")
    if not module or (colon and not names) or not all(part.isidentifier() for part in module.split(".")):
        raise CannotRun(
            f"{given!r} is not an application: give its file or module, such as app.py or app, or its topology as"
            " module:name, for instance app:topology"
        )
    return NamedApp(given, folder, module, names, file)


def import_from(folder: str) -> None:
    """Has modules looked for in a folder first, those of settings too.

    :raises ImportError: if a module there would take the place of one of this project's packages.
    """
    if folder not in sys.path:
        sys.path.insert(0, folder)
        check_origin()


def settings_in(app: NamedApp) -> Mapping[str, Any]:
    """Returns the settings that the module of an application has by the name ``settings``; none if it has none.

    :raises CannotRun: if the module cannot be imported, or they are not mapping.
    """
    found = getattr(_module(app), "settings", None)
    if found is None or inspect.ismodule(found):
        return {}
    if not isinstance(found, Mapping):
        raise CannotRun(f"settings of module {app.module} is {repr_of(found)}: make it a dict of names and values")
    return found


def load_topology(path: str, config: Callable[[], Any]) -> Topology:
    """Returns the topology that an application names (:func:`named_app`).

    It is a topology, an object with ``build(config)``, such as a ``StreamsBuilder``, or a function that returns either
    and takes nothing, or the configuration. Without a name it is the module's ``topology``, or else its ``builder``.

    :param config: gives the configuration; called only if it is needed.
    :raises CannotRun: if there is no such topology, or the function fails, or returns something else.
    :raises StreamsError: if the function or the configuration raises one.
    """
    app = named_app(path)
    found, path = _named_in(app)
    made = found
    if not isinstance(made, Topology) and not callable(getattr(made, "build", None)):
        if not callable(found):
            raise CannotRun(f"{path} is {repr_of(found)}, not a topology, a builder, or a function that makes one")
        made = _guarded(path, lambda: found(config()) if _takes_config(path, found) else found())
    build = getattr(made, "build", None)
    if not isinstance(made, Topology) and callable(build):
        what = f"the build of {path}" if made is found else f"the build of what {path} returned"
        made = _guarded(what, lambda: build(config()))
    if not isinstance(made, Topology):
        raise CannotRun(
            f"{path} must return a topology, or a builder of one such as a StreamsBuilder, but returned {repr_of(made)}"
        )
    return made


def import_path_of(path: str) -> str:
    """Returns the name, as ``module:name``, by which other processes import what an application names.

    The folder of the application is on the import path of this process when it returns.

    :raises CannotRun: if there is no such topology.
    """
    return _named_in(named_app(path))[1]


def _named_in(app: NamedApp) -> tuple[Any, str]:
    """Returns the object that was named, and its import path."""
    module = _module(app)
    if not app.names:
        for name in _BY_NAME:
            found = getattr(module, name, None)
            if found is not None and not inspect.ismodule(found):
                return found, f"{app.module}:{name}"
        raise CannotRun(
            f"module {app.module} does not have a topology: name the function that makes it topology, or the"
            f" StreamsBuilder builder, or give its name, as {app.given}:name{_functions_of(app.module)}"
        )
    found = module
    for name in app.names.split("."):
        found = getattr(found, name, None)
        if found is None:
            raise CannotRun(f"module {app.module} does not have function {app.names!r}{_functions_of(app.module)}")
    return found, f"{app.module}:{app.names}"


def _module(app: NamedApp) -> Any:
    import_from(app.folder)
    name = app.module
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise CannotRun(f"module {error.name!r} does not exist in {app.folder} or on the import path") from None
        raise _import_failure(name, error) from error
    except BaseException as error:
        if passes(error):
            raise
        raise _import_failure(name, error) from error
    home = getattr(module, "__file__", None)
    if app.file is not None and (home is None or not os.path.samefile(home, app.file)):
        raise CannotRun(f"another module has the name {name!r} ({home or 'built-in'}): rename {app.file}")
    return module


def _import_failure(name: str, error: BaseException) -> CannotRun:
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
        raise CannotRun(f"{path} takes the arguments {names}, but must take none, or one: the configuration")
    return bool(required) or (len(parameters) == 1 and parameters[0].kind in _POSITIONAL)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _guarded(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (StreamsError, CannotRun):
        raise
    except BaseException as error:
        if passes(error):
            raise
        raise CannotRun(f"{what} failed{place_of(error)}") from error
