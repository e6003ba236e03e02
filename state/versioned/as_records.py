"""The versions of a store as records of its changelog, in the order in which a restore makes the same rows of them.

A restore makes the puts again, and drops those that come too late. So the records must be in order of time across all
keys, though the rows are in order of keys. They are sorted outside of memory.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain
from operator import itemgetter
from os import SEEK_CUR
from tempfile import TemporaryFile
from typing import IO, Any

from processor_api.record import NO_TIMESTAMP
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from state.engine.port import Engine, Family
from state.row_format.codec import RowCodec
from state.versioned.history import VERSIONS, read_version_row, stored_time

SORTED_BYTES = 16 << 20
"""The memory in which puts are sorted; more of them are sorted in a file."""
PUT_BYTES = 300
"""Memory of a put, besides its key and value."""
PIECE_BYTES = 64 << 10
"""Puts are read from the file by pieces of this size."""

_Put = tuple[int, bytes, int, bytes | None, int]
"""When it is made, its key and its turn among the puts of this key at this time; value and timestamp."""
_DELETION, _VALUE, _LATE = range(3)
_Version = tuple[bytes, int | None, int, bytes | None]
"""Key, end of the validity, start and value; the end is ``None`` for the latest version."""


def versions_as_records(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[ChangelogRecord]:
    """Yields the puts that make the versions of a store, those that have expired too.

    A store without history may have come to its stream time by a deletion that has left no row. Then a deletion of a
    key that does not exist follows with this time.
    """
    latest = engine.family(f"{builder.name}.{codec.family_suffix}")
    history = engine.family(f"{builder.name}.{VERSIONS}")
    reached = NO_TIMESTAMP
    for time, key, _, value, timestamp in in_order(_puts(_versions(latest, history, codec))):
        yield ChangelogRecord(key, value, timestamp, None)
        reached = time
    if (stream_time := stored_time(history)) > reached:
        last = next(latest.range(reverse=True), None)
        yield ChangelogRecord(b"" if last is None else last[0] + b"\x00", None, stream_time, None)


def _versions(latest: Family, history: Family, codec: RowCodec) -> Iterator[_Version]:
    """Yields all versions by key, those of a key in order of time."""
    older: Iterator[_Version] = (found for row in history.range() if (found := read_version_row(*row)) is not None)
    newest: Iterator[_Version] = ((key, None, start, value) for key, value, start in codec.logged(latest.range()))
    return merge(older, newest, key=itemgetter(0))


def _puts(versions: Iterator[_Version]) -> Iterator[_Put]:
    """Yields the puts that make these versions.

    A value is put when its validity starts. A deletion is put when its validity ends, unless a value starts then. A row
    without a value for a span of time is what a late deletion leaves: it is put behind what ends the span, which is a
    deletion if no value starts there. When it is put, the stream time is that end, as it was or before it was when the
    store took the deletion, so it is not too late. A row that starts where it ends is a deletion at this time.
    """
    version = next(versions, None)
    while version is not None:
        key, end, start, value = version
        following = next(versions, None)
        if value is not None:
            yield start, key, _VALUE, value, start
        if end is not None:
            is_mark = value is None and start == end
            if is_mark or following is None or following[0] != key or following[2] != end or following[3] is None:
                yield end, key, _DELETION, None, end
            if value is None and not is_mark:
                yield end, key, _LATE, None, start
        version = following


def in_order(puts: Iterator[_Put], memory: int = SORTED_BYTES) -> Iterator[_Put]:
    """Yields puts by their time, key and turn, with about this many bytes of them in memory."""
    runs = _pieces(puts, memory)
    first = sorted(next(runs, ()))
    second = next(runs, None)
    if second is None:
        yield from first
        return
    with TemporaryFile(prefix="streams-versions-") as file:
        places = [_write(file, first), *(_write(file, sorted(run)) for run in chain((second,), runs))]
        first.clear()
        second.clear()
        yield from merge(*(_read(file, run) for run in places))


def _pieces(puts: Iterable[_Put], size: int) -> Iterator[list[_Put]]:
    """Yields puts in lists that take about this memory."""
    piece: list[_Put] = []
    held = 0
    for put in puts:
        piece.append(put)
        held += len(put[1]) + len(put[3] or b"") + PUT_BYTES
        if held >= size:
            yield piece
            piece, held = [], 0
    if piece:
        yield piece


def _write(file: IO[bytes], run: Iterable[_Put]) -> list[int]:
    """Writes puts behind what the file has, in pieces; returns the place of each."""
    places: list[int] = []
    for piece in _pieces(run, PIECE_BYTES):
        places.append(file.seek(0, SEEK_CUR))
        marshal.dump(piece, file)
    return places


def _read(file: IO[bytes], places: Iterable[int]) -> Iterator[_Put]:
    """Yields the puts of a run. The runs share the file, so each piece is read at once."""
    for place in places:
        file.seek(place)
        yield from marshal.load(file)
