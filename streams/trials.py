"""Trials: runs that are said to change nothing, for which all clients are made so that they cannot write.

A command that is a trial runs inside of :func:`trial`. The clients of Kafka, of a schema registry and of snapshots that
are made meanwhile only read; a write raises :class:`WriteInTrial`, which names it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from processor_api.errors import StreamsError


class WriteInTrial(StreamsError):
    """Raised where a trial would write to what it only reads. This is a bug of the command, and nothing was written."""


_of_process: list[str] = []
_without_registry: list[Callable[[str], None]] = []
"""The functions that trials which continue without a registry call with a sentence."""


class _TrialOfThread(threading.local):
    name: str | None = None


_of_thread = _TrialOfThread()


def trial_in_effect() -> str | None:
    """Returns the name of the trial that this thread is a part of; ``None`` if it may write."""
    return _of_thread.name or (_of_process[-1] if _of_process else None)


def without_registry() -> Callable[[str], None] | None:
    """Returns what to call with a sentence if no schema registry responds, because the trial of this process continues
    with one in memory; ``None`` if it does not."""
    return _without_registry[-1] if _without_registry else None


@contextmanager
def trial(name: str, *, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Makes all threads of the process a part of a trial: a command has a process of its own.

    :param say: makes the trial continue without a schema registry that does not respond (:func:`without_registry`).
    """
    _of_process.append(name)
    if say is not None:
        _without_registry.append(say)
    try:
        yield
    finally:
        _of_process.remove(name)
        if say is not None:
            _without_registry.remove(say)


class trial_on_this_thread:  # noqa: N801 - a context manager, which each read over HTTP enters for each of its keys
    """Makes this thread a part of a trial, such as a query inside of an application that runs; a context manager."""

    __slots__ = ("_former", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._former, _of_thread.name = _of_thread.name, self._name

    def __exit__(self, *_: object) -> None:
        _of_thread.name = self._former


class WithoutWrites:
    """Passes on the calls of an object, but for those that write.

    :param name: the name of the trial, for errors.
    :param what: the object, for errors.
    :param writes: the names of the calls that raise :class:`WriteInTrial`.
    """

    def __init__(self, inner: Any, name: str, what: str, writes: frozenset[str]) -> None:
        self._inner, self._name, self._what, self._writes = inner, name, what, writes

    def __getattr__(self, call: str) -> Any:
        return self._refused(call) if call in self._writes else getattr(self._inner, call)

    def _refused(self, call: str) -> Callable[..., NoReturn]:
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise WriteInTrial(f"{self._name} changes nothing, and would call {call} of {self._what}")

        return refuse
