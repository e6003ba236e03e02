"""Names the process that holds a lock, for a person who wonders what is waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from processor_api.texts import shown

_MOST_COMMAND = 160
_MOST_NAMED = 3
_MOST_NOTE = 200


def note_of_this_process() -> bytes:
    """Returns what a process writes into the file of a lock that it has taken."""
    return f"{os.getpid()} {socket.gethostname()}\n".encode()


def holder_of(path: Path) -> str:
    """Returns who has the file of a lock open, in words: process ids and command lines, where this user may see them.

    That is asked of the system, which knows children too that were forked from the process that took the lock. Else it
    is what that process has written into the file.
    """
    found = sorted(_open_in(path))
    here = os.getpid()
    if here in found:
        return f"another thread of this process ({here})"
    if found:
        named = ", ".join(f"process {pid}{_command(pid)}{_suspended(pid)}" for pid in found[:_MOST_NAMED])
        more = len(found) - _MOST_NAMED
        return named + (f" and {more} more" if more > 0 else "")
    return _noted(path) or "a process that this one cannot see, of another user, container or host"


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
    """Returns that a process is stopped by a signal or a debugger, if it is: it gives nothing back until it goes on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read(4096).rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return f", which is suspended: `kill -CONT {pid}` has it go on" if state in (b"T", b"t") else ""


def _noted(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            pid, host = file.read(_MOST_NOTE).decode(errors="replace").split()
    except (OSError, ValueError):
        return None
    where = "" if host == socket.gethostname() else f" on host {shown(host)}"
    return f"process {shown(pid)}{where}, or one that was forked from it"
