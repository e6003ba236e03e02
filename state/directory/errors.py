"""Errors of a state directory: each says what the operating system refused, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processor_api.errors import DiskFullError, StateDirectoryError
from state.directory.room import left_there
from state.directory.system_errors import FULL, HINTS

_FORBIDDEN = {errno.EACCES, errno.EPERM}
_NOT_A_DIRECTORY = {errno.ENOTDIR, errno.EEXIST, errno.ELOOP}


def directory_error(error: OSError, path: Path) -> StateDirectoryError:
    """The error to raise in place of one of the operating system about ``path``."""
    where = error.filename if isinstance(error.filename, str) else path
    if error.errno in FULL:
        return DiskFullError(
            f"there is no space left for {where}{left_there(path)}: free some, or set state.dir to another disk"
        )
    if error.errno == errno.EROFS:
        return StateDirectoryError(f"{where} is on a read-only file system: set state.dir to a directory on another")
    if error.errno in _FORBIDDEN:
        return StateDirectoryError(
            f"this user may not write {where}: change its owner or mode, or set state.dir to another directory"
        )
    if error.errno == errno.ELOOP:
        return StateDirectoryError(
            f"{where} is a symbolic link, and nothing of a state directory is reached through one: remove it, and set"
            " state.dir to where the state is to be kept"
        )
    if error.errno in _NOT_A_DIRECTORY:
        return StateDirectoryError(
            f"{where} is not a directory: move it out of the way, or set state.dir to another directory"
        )
    if error.errno is not None and error.errno in HINTS:
        return StateDirectoryError(f"{where} cannot be used for state: {HINTS[error.errno]}")
    return StateDirectoryError(f"{where} cannot be used for state: {error.strerror or error}; set state.dir to another")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns each ``OSError`` inside into a :class:`StateDirectoryError` about ``path``."""
    try:
        yield
    except OSError as error:
        raise directory_error(error, path) from error
