"""The topologies that recordings are replayed on.

A module of topologies has ``TOPOLOGIES`` or ``CASES``: a mapping from a recording's name to a function that takes the
application's configuration and builds the topology. The project's own modules lie in ``tests/golden/topologies`` and
are loaded by path, in the order of their names; a name may stand in one of them only. ``--golden-topologies`` names a
further module, whose names go before these.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["TopologyFunction", "collect_cases", "load_module", "load_topologies"]

TopologyFunction = Callable[[Any], Any]


def load_topologies(directory: Path, extra: str | None = None) -> Mapping[str, TopologyFunction]:
    """The project's topologies, with those of an extra module over them."""
    topologies = dict(load_module(str(directory / "all_cases.py")).TOPOLOGIES)
    if extra is not None:
        topologies.update(_mapping(load_module(extra)))
    return topologies


def collect_cases(directory: Path, *, but: str) -> dict[str, TopologyFunction]:
    """The cases of every module of a directory.

    :raises ValueError: if two modules have the same name.
    """
    owners: dict[str, str] = {}
    cases: dict[str, TopologyFunction] = {}
    for path in sorted(directory.glob("*.py")):
        if path.name == but:
            continue
        for name, function in _mapping(load_module(str(path))).items():
            if name in owners:
                raise ValueError(f"case {name!r} is in {owners[name]} and in {path.name}")
            owners[name] = path.name
            cases[name] = function
    return cases


def load_module(name: str) -> ModuleType:
    """A module by its importable name, or by the path of its file."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    unique = f"golden_topologies_{path.stem}_{abs(hash(path)):x}"
    if unique in sys.modules:
        return sys.modules[unique]
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"there is no module at {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[unique]
        raise
    return module


def _mapping(module: ModuleType) -> Mapping[str, TopologyFunction]:
    found = getattr(module, "TOPOLOGIES", None)
    if found is None:
        found = getattr(module, "CASES", None)
    if not isinstance(found, Mapping):
        raise ValueError(
            f"module {module.__name__} has neither TOPOLOGIES nor CASES, a mapping from names to functions"
        )
    return found
