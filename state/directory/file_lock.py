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
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from processor_api.clock import SystemClock
from processor_api.forks import belongs_to_this_process, no_fork
from processor_api.texts import shown
from state.directory.own_files import open_own, set_mode

# Names the process that holds a lock, for a person who wonders what is waited for.

_MOST_COMMAND = 160
_MOST_NAMED = 3
_MOST_NOTE = 200


def note_of_this_process() -> bytes:
    """Returns what a process writes into the file of a lock that it has taken."""
    return f"{os.getpid()} {socket.gethostname()}\n".encode()


def holder_of(path: Path) -> str:
    """Returns who has the file of a lock open, in words: process ids and command lines, where this user may see them.

    That is asked of the system, which knows children too that were forked from the process that took the lock.
    Otherwise it is what that process has written into the file.
    """
    found = sorted(_open_in(path))
    here = os.getpid()
    if here in found:
        return f"another thread of this process ({here})"
    if found:
        named = ", ".join(f"process {pid}{_command(pid)}{_suspended(pid)}" for pid in found[:_MOST_NAMED])
        more = len(found) - _MOST_NAMED
        return named + (f" and {more} more" if more > 0 else "")
    return _noted(path) or "a process of another user, container or host that this process cannot see"


def _open_in(path: Path) -> Iterator[int]:
    """Yields the processes that have a file open; none where the system has no list."""
    wanted = os.path.realpath(path)
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and _has_open(name, wanted):
                yield int(name)


def _has_open(pid: str, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:  # it has ended, or is another user's
        return False
    for number in numbers:
        with suppress(OSError):
            if os.readlink(f"{folder}/{number}") == wanted:
                return True
    return False


def _command(pid: int) -> str:
    """Returns the command line of a process in brackets; values of settings, which may be secrets, are left out."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).decode(errors="replace").split("\0")
    except OSError:
        return ""
    text = " ".join(word.partition("=")[0] + "=..." if "=" in word else word for word in words).strip()
    return f" ({shown(text, _MOST_COMMAND)})" if text else ""


def _suspended(pid: int) -> str:
    """Returns that a process is stopped by a signal or a debugger, if it is: it releases nothing until it continues."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read(4096).rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return f", which is suspended: `kill -CONT {pid}` resumes it" if state in (b"T", b"t") else ""


def _noted(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            pid, host = file.read(_MOST_NOTE).decode(errors="replace").split()
    except (OSError, ValueError):
        return None
    where = "" if host == socket.gethostname() else f" on host {shown(host)}"
    return f"process {shown(pid)}{where}, or a process that was forked from it"


def taken_by(path: Path) -> int | None:
    """Returns the process that has taken the lock of a file last, if it was one of this host."""
    try:
        with open(path, "rb") as file:
            pid, host = file.read(_MOST_NOTE).decode(errors="replace").split()
        return int(pid) if host == socket.gethostname() else None
    except (OSError, ValueError):
        return None


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


class HeldLock(Protocol):
    """A lock that is held; a context manager that releases it."""

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...


class FileLocks(Protocol):
    """Makes locks on files: :class:`FileLock` itself, or its substitute in a simulation."""

    def try_acquire(self, path: Path, mode: int = 0o640) -> HeldLock | None: ...

    def acquire(self, path: Path, mode: int = 0o640) -> HeldLock: ...

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
