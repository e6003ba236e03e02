"""Imports the objects that a configuration file or the command line names by module and name."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class NoSuchObject(ValueError):
    """Raised when a path names no object; the text continues after the name of the setting."""


def import_object(path: str) -> Any:
    """Returns the object at ``module:name`` or ``module.name``; the name may have dots of its own.

    Errors raised by the module itself while it is imported are passed on as they are.

    :raises NoSuchObject: if there is no such module, or no such name in it.
    """
    module_name, colon, names = path.partition(":")
    if colon:
        return _attribute(_module(module_name, path), names, path)
    parts = path.split(".")
    for split in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:split])
        try:
            module = _module(module_name, path)
        except NoSuchObject:
            if split > 1:
                continue
            raise
        return _attribute(module, ".".join(parts[split:]), path)
    raise NoSuchObject(f"must be an import path such as package.module:name, got {path!r}")


def _module(name: str, path: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise NoSuchObject(f"names {path!r}, but no module {error.name!r} is found") from None
        raise
    except (TypeError, ValueError):
        raise NoSuchObject(f"must be an import path such as package.module:name, got {path!r}") from None


def _attribute(module: Any, names: str, path: str) -> Any:
    found = module
    for name in names.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise NoSuchObject(f"names {path!r}, but {module.__name__} has no {names!r}") from None
    return found
