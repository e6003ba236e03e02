"""Files and directories that are ours, below ``state.dir``: never reached through a symbolic link.

Otherwise a user who may write a parent directory could make us overwrite any file of this user, or change its mode.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_GUARDS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_CAN_OPEN_DIRECTORIES = os.name != "nt"


def open_own(path: Path, flags: int, mode: int = 0o640) -> int:
    """Returns a descriptor of a file.

    :raises OSError: with ``ELOOP`` if it is a symbolic link.
    """
    try:
        if not getattr(os, "O_NOFOLLOW", 0):
            refuse_link(path)
        return os.open(path, flags | _GUARDS, mode)
    except OSError:
        refuse_link(path)  # systems have several codes for it
        raise


def read_own(path: Path) -> bytes:
    """Returns the content of a file.

    :raises OSError: with ``ELOOP`` if it is a symbolic link.
    """
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_own(path: Path, text: str, mode: int = 0o640) -> None:
    """Puts a file with that content and mode in place of another one: all or nothing, and on disk when this returns.
    The directory is not synced."""
    aside = path.with_name(path.name + ".tmp")
    aside.unlink(missing_ok=True)  # of a crash; a link is taken away, not followed
    with os.fdopen(open_own(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        set_mode(aside, mode, file.fileno())
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def sync_directory(path: Path) -> None:
    """Makes renames in a directory last through a power loss; does nothing where directories cannot be opened."""
    if not _CAN_OPEN_DIRECTORIES:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_own_directory(path: Path, mode: int) -> None:
    """Makes a directory with this mode, whatever the umask; the mode of another user's directory stays as it is.

    :raises OSError: with ``ELOOP`` if it is a symbolic link, also one to a directory.
    """
    refuse_link(path)
    path.mkdir(exist_ok=True)
    if not _CAN_OPEN_DIRECTORIES:
        set_mode(path, mode)
        return
    descriptor = open_own(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        set_mode(path, mode, descriptor)
    finally:
        os.close(descriptor)


def set_mode(path: Path, mode: int, descriptor: int | None = None) -> None:
    """Gives a file or directory this mode, whatever the umask; that of another user's stays as it is.

    :param descriptor: of it, opened, where the platform can change a mode by that.
    """
    target: int | Path = path if descriptor is None or os.chmod not in os.supports_fd else descriptor
    found = os.stat(target)
    if stat.S_IMODE(found.st_mode) != mode and (not hasattr(os, "geteuid") or found.st_uid == os.geteuid()):
        os.chmod(target, mode)


def refuse_link(path: Path) -> None:
    """Refuses a path that is a symbolic link.

    :raises OSError: with ``ELOOP`` if it is one.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
