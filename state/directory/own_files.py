"""Files and directories that are ours, below ``state.dir``: never reached through a symbolic link.

Otherwise a user who may write a parent directory could make us overwrite any file of this user, or change its mode.
A directory that is in the place of one of these files is set aside: it would end each start.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import uuid
from contextlib import suppress
from pathlib import Path

_GUARDS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_CAN_OPEN_DIRECTORIES = os.name != "nt"

log = logging.getLogger("streams.state")


def open_own(path: Path, flags: int, mode: int = 0o640) -> int:
    """Returns a descriptor of a file.

    :raises OSError: with ``ELOOP`` if it is a symbolic link.
    """
    try:
        if not getattr(os, "O_NOFOLLOW", 0):
            refuse_link(path)
        return os.open(path, flags | _GUARDS, mode)
    except IsADirectoryError:
        refuse_link(path)
        _clear_way(path)
        return os.open(path, flags | _GUARDS, mode)
    except OSError:
        refuse_link(path)  # systems have several codes for it
        raise


def read_own(path: Path) -> bytes:
    """Returns the content of a file.

    :raises OSError: with ``ELOOP`` if it is a symbolic link.
    """
    descriptor = open_own(path, os.O_RDONLY)
    try:
        file = os.fdopen(descriptor, "rb")
    except BaseException:  # of a directory
        os.close(descriptor)
        raise
    with file:
        return file.read()


def read_own_if_any(path: Path) -> bytes | None:
    """Returns the content of a file; ``None`` if there is none, or a directory, which is set aside.

    :raises OSError: with ``ELOOP`` if it is a symbolic link.
    """
    try:
        return read_own(path)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        _clear_way(path)
        return None


def remove_own(path: Path) -> None:
    """Removes a file; does nothing if there is none."""
    if not path.is_symlink():
        _clear_way(path)
    path.unlink(missing_ok=True)


def _clear_way(path: Path) -> None:
    """Renames a directory that is in the place of a file; its content may be somebody's."""
    if not path.is_dir():
        return
    aside = path.with_name(f"{path.name}.aside-{uuid.uuid4().hex[:8]}")
    # With the slash the system does not rename a file, such as the lock that another process has made in the meantime.
    with suppress(FileNotFoundError, NotADirectoryError):
        os.rename(f"{path}{os.sep}", aside)
        log.warning("a directory was in the place of a file; it is set aside", extra={"path": str(aside)})


def set_aside(path: Path, why: str) -> None:
    """Renames a file that cannot be used, in the place of one that was set aside before, and logs it."""
    if path.is_dir():
        _clear_way(path)
        return
    aside = path.with_name(f"{path.name}.damaged")
    _clear_way(aside)
    path.replace(aside)
    log.warning(
        "a file of the state directory cannot be used: it is set aside, and made again",
        extra={"path": str(aside), "error": why},
    )


def write_own(path: Path, text: str, mode: int = 0o640) -> None:
    """Puts a file with that content and mode instead of another one: all or nothing, and on disk when this returns.
    The directory is not synced."""
    aside = path.with_name(path.name + ".tmp")
    remove_own(aside)  # of a crash; a link is taken away, not followed
    with os.fdopen(open_own(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        set_mode(aside, mode, file.fileno())
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if not path.is_symlink():
        _clear_way(path)
    aside.replace(path)


def link_or_copy(path: str | Path, target: Path) -> None:
    """Makes a file as a further name of another one, or as a copy where that cannot be."""
    try:
        if not os.access(path, os.W_OK):
            raise PermissionError
        os.link(path, target)
    except OSError:  # another file system, or another owner
        shutil.copyfile(path, target)


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
