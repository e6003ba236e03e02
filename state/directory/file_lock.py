"""Exclusive locks between processes that end with the process, also when it is killed.

A lock belongs to an open file, not to its name. The file stays when the lock is released: a file that was deleted and
made again would be a second lock. Two locks of one process exclude each other too.

A child that is forked shares the open file, so it gives its copy up at once (:mod:`processor_api.forks`). One that was
forked by a library behind Python's back does not; therefore a lock is released by a call of its own, which counts for
all who share the file, and not only by closing it.

Where the platform has no ``flock``, only the locks of one process exclude each other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from processor_api.clock import SystemClock
from processor_api.forks import belongs_to_this_process, no_fork
from state.directory.lock_holders import holder_of, note_of_this_process
from state.directory.own_files import open_own, set_mode


def _module_of_flock() -> ModuleType | None:
    try:
        return import_module("fcntl")
    except ImportError:  # Windows
        return None


log = logging.getLogger("streams.state")

_PAUSE_S = 0.01
_QUIET_S = 3.0
"""How long a lock is waited for without a word."""

_fcntl = _module_of_flock()
_held_without_flock: set[str] = set()
_open: set[FileLock] = set()
"""The locks whose file is open: one that is dropped without a release stays held, and a child has to know it."""


def has_process_locks() -> bool:
    """Whether several processes may share a state directory on this platform."""
    return _fcntl is not None


class Held(Protocol):
    """A lock that is held; a context manager that releases it."""

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...


class FileLocks(Protocol):
    """Makes locks on files: :class:`FileLock` itself, or what a simulation puts in its place."""

    def try_acquire(self, path: Path, mode: int = 0o640) -> Held | None: ...

    def acquire(self, path: Path, mode: int = 0o640) -> Held: ...

    def holder(self, path: Path) -> str:
        """Returns in words who holds a lock that could not be had."""
        ...


class FileLock:
    """A lock that is held; get one by :meth:`acquire` or :meth:`try_acquire`. A context manager that releases it."""

    __slots__ = ("__weakref__", "_descriptor", "_process", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self._process = os.getpid()
        _open.add(self)
        belongs_to_this_process(self)

    @classmethod
    def try_acquire(cls, path: Path, mode: int = 0o640) -> FileLock | None:
        """Returns the lock on a file, which is made if it is missing; ``None`` if another holder has it.

        :raises OSError: if the file cannot be opened for writing, or is a symbolic link.
        """
        with no_fork():  # a child must know every descriptor
            lock = cls(path, open_own(path, os.O_RDWR | os.O_CREAT, mode))
        try:
            descriptor = lock._take(mode)
        except BlockingIOError:
            lock._close()
            return None
        except BaseException:
            lock._close()
            raise
        with suppress(OSError):  # the note is for people; the disk may be full
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, note_of_this_process(), 0)
        return lock

    @classmethod
    def acquire(cls, path: Path, mode: int = 0o640) -> FileLock:
        """Returns the lock, after waiting until its holder releases it. For sections of a few milliseconds only: who
        holds it for longer is logged.

        :raises OSError: if the file cannot be opened for writing, or is a symbolic link.
        """
        clock = SystemClock()
        notice_at = clock.monotonic() + _QUIET_S
        while (lock := cls.try_acquire(path, mode)) is None:
            if clock.monotonic() >= notice_at:
                notice_at = float("inf")
                log.warning("waiting for a lock", extra={"path": str(path), "held_by": cls.holder(path)})
            clock.wait(_PAUSE_S)
        return lock

    @classmethod
    def holder(cls, path: Path) -> str:
        """Returns in words who holds the lock."""
        return holder_of(path)

    def _take(self, mode: int) -> int:
        """Locks the open file; returns its descriptor.

        :raises BlockingIOError: if another holder has the lock.
        """
        descriptor = self._descriptor
        assert descriptor is not None
        set_mode(self.path, mode, descriptor)
        if _fcntl is not None:
            _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        elif str(self.path) in _held_without_flock:
            raise BlockingIOError
        else:
            _held_without_flock.add(str(self.path))
        return descriptor

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        descriptor = self._descriptor
        if descriptor is None:
            return
        if _fcntl is None:
            _held_without_flock.discard(str(self.path))
        elif self._process == os.getpid():  # in a child it would end the parent's lock
            with suppress(OSError):  # then it ends as the file is closed
                _fcntl.flock(descriptor, _fcntl.LOCK_UN)
        self._close()

    def _close(self) -> None:
        with no_fork():
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                _open.discard(self)
                os.close(descriptor)

    def leave_to_parent(self) -> Collection[str]:
        """Gives up the file in a forked child; the lock stays the parent's."""
        self._close()
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
