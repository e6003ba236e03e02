"""A process that has loaded the application, and waits until its supervisor makes a worker of it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from processor_api.topology.topology import Topology
from streams.cli.run.worker_channel import SupervisorLine

_USED_LATER = (
    "state.rocksdb.engine",
    "streams.app.kafka_streams",
    "streams.cli.run.restore_bar",
    "streams.http.server",
    "streams.kafka.confluent.clients",
    "streams.kafka.suspects",
    "streams.kafka.wire.cluster_queries",
    "streams.kafka.wire.leave",
    "streams.kafka.wire.streams_groups.requests",
    "streams.observing.local_socket",
)
"""The modules that a worker imports when it starts, besides its application. Some need packages that may be missing."""

FileMark = tuple[int, int, int]


class SpareRefused(Exception):
    """The spare is older than what a worker would load now; the text says in what."""


class Loaded:
    """The files and the settings that this process has loaded.

    :param settings: those that were given.
    :param since_ms: the time at which it began to load: files that were written later may not be those that it has.
    """

    def __init__(self, settings: Mapping[str, Any], since_ms: int) -> None:
        self._settings = dict(settings)
        self._files: dict[str, tuple[str, FileMark]] = {}
        self._since_ns = since_ms * 1_000_000
        for name, module in list(sys.modules.items()):
            path = getattr(getattr(module, "__spec__", None), "origin", None)
            if isinstance(path, str) and (mark := _mark(path)) is not None:
                self._files[path] = (name, mark)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Checks that a fresh process would load the same.

        :param settings: those that are given now.
        :raises SpareRefused: if it would not.
        """
        for path, (name, mark) in self._files.items():
            if mark[0] > self._since_ns or _mark(path) != mark:
                raise SpareRefused(f"module {name} has changed since ({path})")
        names = {name for name in self._settings.keys() | settings.keys() if self._differs(name, settings)}
        if names:
            raise SpareRefused(f"settings have changed since: {', '.join(sorted(names))}")

    def _differs(self, name: str, settings: Mapping[str, Any]) -> bool:
        before, now = self._settings.get(name), settings.get(name)
        return before is not now and bool(before != now)


def _mark(path: str) -> FileMark | None:
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def text_of(topology: Topology) -> str:
    """Returns a short text that is the same for the same topology."""
    from processor_api.topology.describe import describe

    return hashlib.sha256(describe(topology, ties_by_name=True).encode()).hexdigest()


def _import_for_start() -> None:
    """Imports what the start of a worker needs."""
    for name in _USED_LATER:
        with suppress(ImportError):
            import_module(name)


def wait_for_call(
    line: SupervisorLine, topology: Topology, settings: Callable[[], Mapping[str, Any]], is_over: Callable[[], bool]
) -> list[str] | None:
    """Waits, with everything imported that a worker needs, until the spare is to be a worker.

    :param settings: reads the settings that are given.
    :param is_over: whether to wait no longer.
    :returns: the settings that it has besides those; ``None`` if it is not called.
    :raises SpareRefused: if a fresh process would load something else.
    """
    _import_for_start()
    loaded = Loaded(settings(), line.since_ms)
    line.loaded(text_of(topology))
    more = line.wait_for_call(is_over)
    if more is not None:
        loaded.check(settings())
    return more
