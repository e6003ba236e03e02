"""Keeps a child that is forked from what belongs to its parent: locks, databases, clients, connections, applications.

A forked child, as `multiprocessing` makes on Linux before Python 3.14, has a copy of every object and a share of every
open file, but none of the threads. A lock on a file would be held for as long as the child lives, also after the parent
is gone; and a library that has threads of its own waits for them, or crashes, when a copy of its objects is freed. So
what belongs to one process alone is registered here, and its copies are made harmless in the child before anything else
runs.

Where the platform cannot fork, nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol
from weakref import WeakSet

_DESCRIPTORS = "/proc/self/fd"


class Inherited(Protocol):
    """Something that belongs to the process in which it was made."""

    def leave_to_parent(self) -> Collection[str]:
        """Makes the copy in a child useless and harmless; called there on its only thread, before anything else runs.
        It waits for nothing, and calls no library that has threads.

        :returns: directories of which the child gives up every file that is open.
        """
        ...


_inherited: WeakSet[Any] = WeakSet()
_forking = threading.RLock()


def belongs_to_this_process(thing: Inherited) -> None:
    """Registers something, for as long as something else keeps it."""
    _inherited.add(thing)


def no_fork() -> AbstractContextManager[Any]:
    """Keeps this process from forking, as a context manager: for a few steps that a child must not see half done."""
    return _forking


def never_free(things: Iterable[object]) -> None:
    """Takes one more reference to each, which is never given back: in a child, what frees them needs the threads of the
    parent."""
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _in_child() -> None:
    global _forking
    _forking = threading.RLock()  # threads that waited for the other one are not here
    directories: set[str] = set()
    for thing in list(_inherited):
        directories.update(map(os.path.realpath, thing.leave_to_parent()))
    _inherited.clear()
    if directories:
        _give_up_files(directories)


def _give_up_files(directories: Collection[str]) -> None:
    """Puts the null device instead of the open files of these directories, and of the directories themselves.

    Their numbers stay taken: objects that have them must not reach what the child opens next. So deleted files take no
    space on the disk for as long as the child lives.
    """
    with suppress(OSError):  # no such list: nothing but Linux has it
        null = os.open(os.devnull, os.O_RDWR)
        for name in os.listdir(_DESCRIPTORS):
            with suppress(OSError):  # such as the one by which the list was read
                path = os.readlink(f"{_DESCRIPTORS}/{name}")
                if path in directories or os.path.dirname(path) in directories:
                    os.dup2(null, int(name), inheritable=False)
        os.close(null)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _forking.acquire(), after_in_parent=lambda: _forking.release(), after_in_child=_in_child
    )
