"""Files with the rows of engines in memory, as snapshots have them (docs/formats.md, "Snapshot directory").

Rows are written and read some thousands at a time, each time by a few calls of the interpreter: a row costs some tenths
of a microsecond, which is a small part of what its record in a changelog costs.
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from processor_api.errors import StateError

MAGIC = b"streams rows 1\n"
"""The first bytes of a file, with the version of its form."""
SUFFIX = ".rows"
FILE_BYTES = 16 << 20
"""A file with more bytes of rows is ended, and another one begun: files are copied side by side."""
AT_ONCE = 5_000
"""Rows that are written at once."""
MODE = 0o640
_COUNT = struct.Struct(">I")
_NAME = struct.Struct(">H")

Columns = tuple[Sequence[bytes], Sequence[bytes]]
"""The keys of some rows, and their values."""


def write_rows(directory: Path, families: Mapping[str, Iterable[Columns]]) -> None:
    """Writes rows into a new directory.

    :param families: the rows of each family, in pieces; of a key that is there more than once the last row counts.
    :raises OSError: if there is no room for them, or the directory is there already.
    """
    directory.mkdir()
    number = 0
    for family, pieces in families.items():
        rest = iter(pieces)
        while (first := next(rest, None)) is not None:
            _write_file(directory / f"{number:06}{SUFFIX}", family, first, rest)
            number += 1


def _write_file(path: Path, family: str, rows: Columns, rest: Iterator[Columns]) -> None:
    """Writes a piece and those that follow it, until the file is long enough."""
    name, size, piece = family.encode(), 0, rows
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(MAGIC + _NAME.pack(len(name)) + name)
        while True:
            if piece[0]:
                size += file.write(_encoded(piece))
            if size >= FILE_BYTES or (following := next(rest, None)) is None:
                return
            piece = following


def _encoded(columns: Columns) -> bytes:
    keys, values = columns
    return b"".join((_COUNT.pack(len(keys)), _lengths(keys), _lengths(values), *keys, *values))


def _lengths(column: Sequence[bytes]) -> bytes:
    found = array("I", map(len, column))
    if sys.byteorder == "little":
        found.byteswap()
    return found.tobytes()


def read_rows(directory: Path) -> dict[str, dict[bytes, bytes]]:
    """Returns the rows in a directory, by family.

    :raises StateError: if a file is damaged, or of another version.
    :raises OSError: if one cannot be read.
    """
    found: dict[str, dict[bytes, bytes]] = {}
    for path in sorted(directory.iterdir()):
        content = path.read_bytes()
        if not content.startswith(MAGIC):
            raise StateError(
                f"{path} does not have rows that this release reads: it starts with {content[: len(MAGIC)]!r}"
            )
        try:
            _read_file(content, found)
        except (struct.error, UnicodeDecodeError) as error:
            raise StateError(f"{path} is damaged: {error}") from error
    return found


def _read_file(content: bytes, found: dict[str, dict[bytes, bytes]]) -> None:
    place = len(MAGIC) + _NAME.size
    (length,) = _NAME.unpack_from(content, place - _NAME.size)
    rows = found.setdefault(content[place : place + length].decode(), {})
    place += length
    while place < len(content):
        (count,) = _COUNT.unpack_from(content, place)
        place += _COUNT.size
        lengths = struct.unpack_from(f">{2 * count}I", content, place)
        bounds = list(accumulate(lengths, initial=place + 4 * len(lengths)))
        if bounds[-1] > len(content):
            raise struct.error(f"its last row ends at byte {bounds[-1]}, but it has {len(content)} bytes")
        parts = [content[begin:end] for begin, end in pairwise(bounds)]
        rows.update(zip(parts[:count], parts[count:], strict=True))
        place = bounds[-1]
