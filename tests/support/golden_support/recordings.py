"""Finding recordings in a directory, and telling their kinds apart by what is in them.

A directory may hold ``.json``, ``.json.gz`` and ``.json.xz`` files, flat or nested. Kinds:

* ``topology``: a case, recognised by ``"case"``;
* ``vectors``: groups of byte formats, by ``"groups"``;
* ``topic_configs``: settings of internal topics, by ``"subtopologies"`` of its topologies;
* ``names``: names of topics and clients, by ``"clients"``;
* ``internal_topics``: records on internal topics, by the ``"inputs"`` of its topologies;
* ``store``: traces of a store, by the ``"ops"`` of its traces.

``differences.json`` of the store recordings compares Java's engines with each other and is left aside.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["SUFFIXES", "Recording", "Recordings", "read_json", "stem"]

_OPENERS = {".json": lambda data: data, ".json.gz": gzip.decompress, ".json.xz": lzma.decompress}
SUFFIXES = tuple(_OPENERS)
_ASIDE = {"differences"}


@dataclass(frozen=True)
class Recording:
    """One file."""

    name: str
    """The file's name without its suffix."""
    kind: str
    data: Any
    path: Path


def stem(path: Path) -> str:
    """The name without ``.json`` and what follows it; only for files with one of `SUFFIXES`."""
    return path.name[: path.name.index(".json")]


def read_json(path: Path) -> Any:
    suffix = path.name[path.name.index(".json") :]
    return json.loads(_OPENERS[suffix](path.read_bytes()))


class Recordings:
    """All recordings of a directory, each read once."""

    def __init__(self, directory: Path, *, is_default: bool) -> None:
        self.directory = directory
        self.is_default = is_default
        """Whether these are the project's own: there, what is recorded has to be built."""

    @cached_property
    def files(self) -> tuple[Recording, ...]:
        paths = sorted(path for path in self.directory.rglob("*.json*") if path.name.endswith(SUFFIXES))
        found: dict[str, Recording] = {}
        for path in paths:
            name = stem(path)
            if name in _ASIDE:
                continue
            data = read_json(path)
            if name in found:
                raise ValueError(f"{path} and {found[name].path} have the same name")
            found[name] = Recording(name, _kind(data), data, path)
        return tuple(found.values())

    def of_kind(self, kind: str) -> Iterator[Recording]:
        return (recording for recording in self.files if recording.kind == kind)


def _kind(data: Any) -> str:
    if isinstance(data, dict):
        if "case" in data:
            return "topology"
        if "groups" in data:
            return "vectors"
        if "clients" in data:
            return "names"
        topologies = data.get("topologies") or [{}]
        if "subtopologies" in topologies[0] or "error" in topologies[0]:
            return "topic_configs"
        if "inputs" in topologies[0]:
            return "internal_topics"
        traces = data.get("traces") or [{}]
        if "ops" in traces[0] or "ops" in data:
            return "store"
    if isinstance(data, list) and data and isinstance(data[0], dict) and "ops" in data[0]:
        return "store"
    return "unknown"
