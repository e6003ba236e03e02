"""Numbers of commits, by which a lost log is noticed.

RocksDB skips a log that is empty, missing, zeroed or cut at the end of a record, and replays the next one: rows of
different moments, without an error. So each batch that goes to the log has a number, one higher than that of the batch
before, in a row of its own, and at the next opening no number may be missing.

A number's row holds the number from which on rows were kept when it was written: everything before that was in table
files then, of which RocksDB notices a lost one. What must be there is so said by the last row alone. (That last row
may be an earlier one than was written: the end of the newest log is what a power loss takes.)

The rows are in the family of offsets, which is flushed with or after every other (:meth:`RocksEngine.flush`): a number
that is in a table file says that all rows of its batch are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Protocol

COMMIT_PREFIX = b"streams.commit."
COMMIT_END = b"streams.commit/"
"""The key behind the keys of all numbers."""
NUMBER = struct.Struct(">Q")

CHECKED_EVERY = 256
"""Commits between two checks of which rows have reached table files; the numbers of these are removed then."""
ACTIVE, IMMUTABLE = "rocksdb.num-entries-active-mem-table", "rocksdb.num-entries-imm-mem-tables"


class LostCommitsError(Exception):
    """Commits are missing before others that are there."""


class Offsets(Protocol):
    """The family of offsets."""

    def property(self, name: str) -> int: ...


def next_commit(rows: Iterable[tuple[bytes, bytes]]) -> tuple[int, int]:
    """The number from which on there are rows, and the next to give.

    :param rows: those with numbers, by key.
    :raises LostCommitsError: if one is missing, or is not a number.
    """
    first = 1
    numbers: list[int] = []
    try:
        for key, row in rows:
            numbers.append(*NUMBER.unpack_from(key, len(COMMIT_PREFIX)))
            (first,) = NUMBER.unpack(row)
    except struct.error as error:
        raise LostCommitsError(f"the number of a commit cannot be read: {error}") from error
    kept = [number for number in numbers if number >= first]
    if not kept:
        return first, first
    if kept[-1] - first + 1 != len(kept):
        there, missing = set(kept), first
        while missing in there:
            missing += 1
        until = next(number for number in kept if number > missing) - 1
        which = f"commit {missing} is" if missing == until else f"commits {missing} to {until} are"
        raise LostCommitsError(
            f"{which} missing, but later ones exist: a log (a file *.log) was lost, emptied or truncated, or the files"
            " were copied at different times"
        )
    return first, kept[-1] + 1


class CommitNumbers:
    """Gives numbers to the batches of an engine.

    :param first: from which on there are rows.
    :param following: the next to give.
    """

    def __init__(self, first: int, following: int) -> None:
        self._first = first
        self._next = following

    def put(self, batch: Any, offsets: Offsets, handle: Any) -> None:
        """Puts the number into a batch; :meth:`written` makes it that of the batch.

        :param handle: of the family of offsets.
        """
        if self._next - self._first >= CHECKED_EVERY and not self._next % CHECKED_EVERY:
            self._forget(batch, offsets, handle)
        batch.put(COMMIT_PREFIX + NUMBER.pack(self._next), NUMBER.pack(self._first), handle)

    def _forget(self, batch: Any, offsets: Offsets, handle: Any) -> None:
        """Removes the numbers of batches whose rows are in table files.

        Each batch has put at least one row into the family, so at most as many batches are in memory as rows. The
        active memtable is asked first, since rows move from it to the immutable ones.
        """
        in_memory = offsets.property(ACTIVE)
        in_memory += offsets.property(IMMUTABLE)
        first = self._next - in_memory
        if first > self._first:
            self._first = first
            batch.delete_range(COMMIT_PREFIX, COMMIT_PREFIX + NUMBER.pack(first), handle)

    def written(self) -> None:
        """Notes that the batch of the last :meth:`put` was written."""
        self._next += 1
