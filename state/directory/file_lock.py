"""Exclusive locks between processes that end with the process, also when it is killed.

A lock belongs to an open file, not to its name. The file stays when the lock is released: a file that was deleted and
made again would be a second lock. Two locks of one process exclude each other too.

Where the platform has no ``flock``, only the locks of one process exclude each other.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from state.directory.own_files import open_own, set_mode

__all__ = ["FileLock", "FileLocks", "Held", "has_process_locks"]


def _module_of_flock() -> ModuleType | None:
    try:
        return import_module("fcntl")
    except ImportError:  # Windows
        return None


_fcntl = _module_of_flock()
_held_without_flock: set[str] = set()


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


class FileLock:
    """A lock that is held; get one by :meth:`acquire` or :meth:`try_acquire`. A context manager that releases it."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def try_acquire(cls, path: Path, mode: int = 0o640) -> FileLock | None:
        """Returns the lock on a file, which is made if it is missing; ``None`` if another holder has it.

        :raises OSError: if the file cannot be opened for writing, or is a symbolic link.
        """
        return cls._locked(path, mode, wait=False)

    @classmethod
    def acquire(cls, path: Path, mode: int = 0o640) -> FileLock:
        """Returns the lock, after waiting until its holder releases it. For sections of a few milliseconds only.

        :raises OSError: if the file cannot be opened for writing, or is a symbolic link.
        """
        lock = cls._locked(path, mode, wait=True)
        assert lock is not None
        return lock

    @classmethod
    def _locked(cls, path: Path, mode: int, *, wait: bool) -> FileLock | None:
        descriptor = open_own(path, os.O_RDWR | os.O_CREAT, mode)
        try:
            set_mode(path, mode, descriptor)
            if _fcntl is None:
                if str(path) in _held_without_flock:
                    raise BlockingIOError
                _held_without_flock.add(str(path))
            else:
                _fcntl.flock(descriptor, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
            if _fcntl is None:
                _held_without_flock.discard(str(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
