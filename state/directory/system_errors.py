"""Hints for the operating system's errors about files, by their numbers: what happened, and what to do."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping

HINTS: Mapping[int, str] = {
    errno.ENOSPC: "the disk is full; free some space there",
    errno.EDQUOT: "the disk quota of this user is used up; free some space there, or raise the quota",
    errno.EFBIG: (
        "a file would be larger than is allowed; raise the limit of this process (ulimit -f), or set state.dir to a"
        " file system that takes larger files"
    ),
    errno.EACCES: (
        "permission denied; make the directory and its files readable and writable for the user of this process"
    ),
    errno.EPERM: (
        "operation not permitted; take away what forbids it, such as the attribute immutable (lsattr) or a rule of a"
        " security module, and make the directory writable"
    ),
    errno.EROFS: (
        "the file system is read-only; mount it writable (a disk with errors is often made read-only: look into the"
        " system's log), or set state.dir to a directory on another"
    ),
    errno.EIO: (
        "the disk failed (input/output error); look into the system's log, replace the disk or set state.dir to"
        " another, and restart: what is missing there is restored from changelogs"
    ),
    errno.ESTALE: (
        "the network file system does not know a file any more (stale file handle); mount it again and restart. A local"
        " disk is the better place for state.dir"
    ),
    errno.ENOMEM: ("the system has no memory left; give it more, or set rocksdb.profile to low-memory, and restart"),
    errno.EMFILE: (
        "this process has too many files open; raise the limit (ulimit -n), or set rocksdb.profile to many-small-stores"
    ),
    errno.ENFILE: "the system has too many files open; raise its limit (sysctl fs.file-max), and restart",
    errno.ENOENT: (
        "a file or the whole directory is gone; restart if it was deleted, and the stores are restored from changelogs;"
        " if it was moved, stop the application and put it back first"
    ),
}
"""Says by the number of an error what happened, and what to do."""

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""Errors that pass once there is room. A file that is too large for the limit of the process (``EFBIG``) is none: the
process keeps that limit. A disk that failed (``EIO``) is none either: what it has taken before may be lost."""

MISPLACED = frozenset((errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP))
"""Errors where a directory is in the place of a file, or a file or a broken link in the place of a directory."""

_KNOWN = (*HINTS, *MISPLACED)
_TEXTS = sorted(((os.strerror(number), number) for number in _KNOWN), reverse=True)
"""Longer ones before those they begin with."""
_SEPARATOR = re.compile(r":\s+")


def error_number(error: BaseException) -> int | None:
    """Returns the operating system's number of an error; ``None`` if it is no such error."""
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
