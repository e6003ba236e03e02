"""The registry of storage engines: the two that are built in, and those of users (`state/engine/port.py` is the port).

A user's engine is registered by an entry point of the group ``streams.engines``, so that it is known wherever its
distribution is installed, or in code by `register_engine`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from processor_api.errors import StreamsError, TopologyError
from processor_api.stores.suppliers import ENGINE_WORDS, MEMORY, ROCKSDB
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.checks import check_function
from state.engine.port import Engine

ENTRY_POINTS = "streams.engines"
"""The group of entry points; each names a factory."""

EngineFactory = Callable[[Path, Sequence[str], Mapping[str, Any]], Engine]
"""``(path, families, config)`` to an open engine.

``path`` is the engine's own place in a task's directory, whose parent is there; the engine makes it if it needs it. It
must have the families named, those it had before, and `OFFSETS` and `POSITIONS`. ``config`` are the application's
settings under Kafka's dotted names.
"""

_BUILT_IN = (MEMORY, ROCKSDB)
_TAKEN = (*_BUILT_IN, "stores")
"""Names of files and folders in a task's directory; the last one has the custom stores."""
_CALLS = ("family", "holds", "snapshot", "lock", "batch", "write", "load", "flush", "clear", "close", "persistent")
_registered: dict[str, EngineFactory] = {}


def register_engine(name: str, factory: EngineFactory) -> None:
    """Makes a storage engine known in this process under a name, which suppliers then give (``on_engine``).

    Call it where the topology is made, so that every worker does. A second call for a name replaces its engine.

    :param name: also the name of the engine's place in a task's directory.
    :param factory: see `EngineFactory`.
    :raises TopologyError: if the name is a built-in one, or cannot be the name of a directory.
    """
    if name in _TAKEN:
        raise TopologyError(f"{name!r} is a built-in name: register your storage engine under another one")
    if not name or not name.replace("-", "").replace("_", "").isalnum():
        raise TopologyError(f"the name of an engine must consist of letters, digits, '-' and '_', got {repr_of(name)}")
    check_function(factory, "factory", f"engine {name!r}", ("path", "families", "config"), returns=True)
    _registered[name] = factory


def engine_names() -> list[str]:
    """The names of all engines that are known, sorted."""
    return sorted({*_BUILT_IN, *_registered, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def check_engine(name: str, store: str | None = None) -> None:
    """Makes sure that there is an engine of this name.

    :param store: the store that needs it.
    :raises TopologyError: with the names there are.
    """
    if name in _BUILT_IN or name in _registered or name in engine_names():
        return
    near = difflib.get_close_matches(name.lower(), [*engine_names(), *ENGINE_WORDS], n=1)
    if near:
        raise TopologyError(f"storage engine {name!r} does not exist; did you mean {near[0]!r}?", store=store)
    raise TopologyError(
        f"storage engine {name!r} does not exist; existing engines are {', '.join(engine_names())}. Register your"
        f" engine by an entry point of the group {ENTRY_POINTS!r}, or in code by register_engine",
        store=store,
    )


def open_registered(name: str, path: Path, families: Sequence[str], config: Mapping[str, Any]) -> Engine:
    """Opens an engine that is not built in.

    :raises TopologyError: if there is none of this name, or its factory cannot be loaded, fails or gives no engine.
    """
    check_engine(name)
    factory = _registered.get(name) or _loaded(name)
    try:
        opened = factory(path, families, config)
    except StreamsError:
        raise
    except Exception as error:
        raise TopologyError(
            f"the storage engine {name!r} could not be opened at {path}: {kind_and_text(error)}"
        ) from error
    if missing := [call for call in _CALLS if not hasattr(opened, call)]:
        raise TopologyError(
            f"the factory of the storage engine {name!r} returned {repr_of(opened)}, which lacks {', '.join(missing)}:"
            " see state.engine.port.Engine"
        )
    return opened


def _loaded(name: str) -> EngineFactory:
    point = next(iter(entry_points(group=ENTRY_POINTS, name=name)))
    try:
        factory = point.load()
    except Exception as error:
        raise TopologyError(
            f"the storage engine {name!r} cannot be loaded from {point.value!r}: {kind_and_text(error)}"
        ) from error
    return cast(EngineFactory, factory)
