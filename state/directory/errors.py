"""Errors of files: each says what the operating system refused, what that means, and what to do; a full disk too."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from processor_api.errors import DiskFullError, StateDirectoryError

HINTS: Mapping[int, str] = {
    errno.ENOSPC: "the disk is full; free some space there",
    errno.EDQUOT: "the disk quota of this user is used up; free some space there, or raise the quota",
    errno.EFBIG: (
        "a file would exceed the size limit; raise the limit of this process (ulimit -f), or set state.dir to a file"
        " system that supports larger files"
    ),
    errno.EACCES: (
        "permission denied; make the directory and its files readable and writable for the user of this process"
    ),
    errno.EPERM: (
        "operation not permitted; remove the cause, such as the attribute immutable (lsattr) or a rule of a security"
        " module, and make the directory writable"
    ),
    errno.EROFS: (
        "the file system is read-only; mount it writable (the system often makes a disk with errors read-only: check"
        " its log), or set state.dir to a directory on another"
    ),
    errno.EIO: (
        "the disk failed (input/output error); check the system's log, replace the disk or set state.dir to another"
        " one, and restart: missing state is restored from changelogs"
    ),
    errno.ESTALE: (
        "the network file system has lost a file (stale file handle); mount it again and restart. A local disk is"
        " better for state.dir"
    ),
    errno.ENOMEM: ("the system has no memory left; give it more, or set rocksdb.profile to low-memory, and restart"),
    errno.EMFILE: (
        "this process has too many files open; raise the limit (ulimit -n), or set rocksdb.profile to many-small-stores"
    ),
    errno.ENFILE: "the system has too many files open; raise its limit (sysctl fs.file-max), and restart",
    errno.ENOENT: (
        "a file or the whole directory is missing. If it was deleted, restart, and the stores are restored from"
        " changelogs; if it was moved, stop the application and move it back first"
    ),
}
"""Says by the number of an error what happened, and what to do."""

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""Errors that pass once there is room. A file that is too large for the limit of the process (``EFBIG``) is none: the
process keeps that limit. A disk that failed (``EIO``) is none either: what it has taken before may be lost."""

PASSING = frozenset((errno.EIO, errno.ESTALE, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOENT))
"""Errors that a new start of the process may get rid of, besides a full disk."""

MISPLACED = frozenset((errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP))
"""Errors where a directory is in the place of a file, or a file or a broken link in the place of a directory."""

_KNOWN = (*HINTS, *MISPLACED)
_TEXTS = sorted(((os.strerror(number), number) for number in _KNOWN), reverse=True)
"""Longer ones before those they begin with."""
_SEPARATOR = re.compile(r":\s+")


def error_number(error: BaseException) -> int | None:
    """Returns the operating system's number of an error; ``None`` if it is not such an error."""
    return error.errno if isinstance(error, OSError) else None


def find_error_number(text: str) -> int | None:
    """Returns the number of an error that is known by its text only: a part between colons has the system's words.

    :param text: without paths, which may have any words.
    """
    parts = _SEPARATOR.split(text.strip())
    for words, number in _TEXTS:
        if any(part == words or (part.startswith(words) and part[len(words)].isspace()) for part in parts):
            return number
    return None


PROBE_BYTES = 1 << 20
"""About as much as a database writes soon after it is opened."""


def left_there(path: Path) -> str:
    """Returns in words how many bytes the file system of a path has left, for texts about a full disk; nothing where
    that is not known."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return f" ({shutil.disk_usage(place).free:,} bytes remain)"
    return ""


def has_room(directory: Path) -> bool:
    """Whether the disk of a directory takes a mebibyte, which is written to a file without a name.

    How much is left does not say it: a user may have a quota, and a file system may keep blocks for others. A failure
    of another kind does not mean that the disk is full.

    :param directory: if it does not exist, the nearest one above it that does takes the file.
    """
    place = next((one for one in (directory, *directory.parents) if one.is_dir()), directory)
    try:
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            left = memoryview(bytes(PROBE_BYTES))
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno not in FULL
    return True


_FORBIDDEN = {errno.EACCES, errno.EPERM}
_NOT_A_DIRECTORY = {errno.ENOTDIR, errno.EEXIST, errno.ELOOP}


def directory_error(error: OSError, path: Path) -> StateDirectoryError:
    """The error to raise instead of one of the operating system about ``path``."""
    where = error.filename if isinstance(error.filename, str) else path
    if error.errno in FULL:
        return DiskFullError(
            f"no space is left for {where}{left_there(path)}: free some, or set state.dir to another disk"
        )
    if error.errno == errno.EROFS:
        return StateDirectoryError(f"{where} is on a read-only file system: set state.dir to a directory on another")
    if error.errno in _FORBIDDEN:
        return StateDirectoryError(
            f"this user may not write {where}: change its owner or mode, or set state.dir to another directory"
        )
    if error.errno == errno.ELOOP:
        return StateDirectoryError(
            f"{where} is a symbolic link, which a state directory must not contain: remove it, and set state.dir to the"
            " real directory"
        )
    if error.errno in _NOT_A_DIRECTORY:
        return StateDirectoryError(
            f"{where} is not a directory: move it elsewhere, or set state.dir to another directory"
        )
    if error.errno is not None and error.errno in HINTS:
        return hinted(f"{where} cannot be used for state: {HINTS[error.errno]}", error.errno)
    text = f"{where} cannot be used for state: {error.strerror or error}; set state.dir to another"
    return StateDirectoryError(text).may_pass()


def hinted(text: str, number: int) -> StateDirectoryError:
    """Returns the error with a text that says what the operating system's number means."""
    error = StateDirectoryError(text)
    return error.may_pass() if number in PASSING else error


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns each ``OSError`` inside into a :class:`StateDirectoryError` about ``path``."""
    try:
        yield
    except OSError as error:
        raise directory_error(error, path) from error
