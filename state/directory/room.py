"""Finds whether the disk of a directory has room: a full one is waited for."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from state.directory.system_errors import FULL

PROBE_BYTES = 1 << 20
"""About as much as a database writes soon after it is opened."""


def left_there(path: Path) -> str:
    """Returns in words how many bytes the file system of a path has left, for texts about a full disk; nothing where
    that is not known."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return f" ({shutil.disk_usage(place).free:,} bytes are left)"
    return ""


def has_room(directory: Path) -> bool:
    """Whether the disk of a directory takes a mebibyte, which is written to a file without a name.

    How much is left does not say it: a user may have a quota, and a file system may keep blocks for others. A failure
    of another kind is no lack of room.

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
