"""Reports when another `state`, `dsl` or `processor_api` hides ours.

The four packages are top-level names. A script's own folder comes first on the import path, so a `state.py` or a
`state/` next to it would be imported instead of ours and fail far away, with an error about a missing name. The check
asks the import system where each package would come from; it never imports one, since that might run the user's code.

A package that is found nowhere is not this module's business: the import that needs it says so clearly.
"""

import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

SIBLINGS = ("processor_api", "state", "dsl")
HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def check_origin(home: str = HOME, siblings: Iterable[str] = SIBLINGS) -> None:
    """Raises ImportError, naming the path in the way, unless every sibling is the package in the folder `home`."""
    for name in siblings:
        found = _location(name)
        if found is not None and not _is_same(found, os.path.join(home, name)):
            raise ImportError(
                f"streams needs its own package {name!r}, but {found} comes first on the import path: rename it,"
                f" because this library uses the names {', '.join(SIBLINGS)} and streams",
                name=name,
                path=found,
            )


def _location(name: str) -> str | None:
    """Returns where `name` was or would be imported from: a package's folder, a module's file; ``None`` if it is not
    found."""
    module = sys.modules.get(name)
    if module is not None:
        return _location_of_module(module)
    spec = find_spec(name)
    return None if spec is None else _location_of_spec(spec)


def _location_of_module(module: ModuleType) -> str:
    if module.__spec__ is not None:
        return _location_of_spec(module.__spec__)
    return getattr(module, "__file__", None) or f"a module without a file ({module!r})"


def _location_of_spec(spec: ModuleSpec) -> str:
    folders = list(spec.submodule_search_locations or ())
    return folders[0] if folders else spec.origin or f"a module without a file ({spec.name})"


def _is_same(found: str, ours: str) -> bool:
    return found == ours or os.path.realpath(found) == os.path.realpath(ours)
