"""Files in folders that a running application changes at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

__all__ = ["files_of", "opened"]


def files_of(directory: Path, *patterns: str) -> list[Path]:
    """What is in a folder now, sorted by name for each pattern; nothing where the folder is not there.

    ``Path.glob`` looks whether there is a folder and lists it then: it fails for one that goes in between."""
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = sorted(os.listdir(directory))
    return [directory / name for pattern in patterns for name in names if fnmatchcase(name, pattern)]


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO | None]:
    """A file to be changed in place; ``None`` if it has gone. It is never made anew, as writing to its name would."""
    try:
        found = file.open("r+b")
    except FileNotFoundError:
        yield None
        return
    with found:
        yield found
