"""The letters that were sent again, as the offsets of a group have them (semantics 178)."""

from __future__ import annotations

import base64
import binascii
import zlib
from bisect import bisect_right
from operator import itemgetter

from streams.kafka.ports import OffsetAndMetadata

MOST_METADATA = 4096
"""Bytes of text that a broker takes with an offset by default (``offset.metadata.max.bytes``)."""


class ReplayMemory:
    """The letters of one partition that were sent again: all before an offset, and some behind it.

    Letters are passed in the order of their offsets. Between two letters there may be offsets without one, such as the
    marks of transactions, so a run of letters is what lies between two that were not sent.
    """

    def __init__(self, before: int, runs: list[tuple[int, int]] | None = None, *, is_known: bool = True) -> None:
        self.before = before
        """Each letter before this offset was sent."""
        self.is_known = is_known
        """Whether the group remembers the partition."""
        self._old = runs or []
        self._runs: list[tuple[int, int]] = []
        """The runs of letters that were passed, each from its first to behind its last."""
        self._is_whole = True
        self._in_run = False
        self._passed = before

    @classmethod
    def of(cls, committed: OffsetAndMetadata | None, beginning: int, end: int) -> ReplayMemory:
        """Returns what the group has committed for a partition. An offset behind the end is one of a topic that was
        deleted.

        :raises ValueError: if the metadata is not of this command.
        """
        if committed is None or committed.offset > end:
            return cls(beginning, is_known=False)
        runs = _decoded(committed.metadata) if committed.metadata else []
        return cls(max(committed.offset, beginning), runs)

    def has(self, offset: int) -> bool:
        """Whether the letter at an offset was sent again."""
        if offset < self.before:
            return True
        at = bisect_right(self._old, offset, key=itemgetter(0)) - 1
        return at >= 0 and offset < self._old[at][1]

    def passed(self, offset: int, *, is_sent: bool) -> None:
        """Notes the next letter, and whether it was sent again, now or before."""
        self._passed = offset + 1
        if not is_sent:
            self._is_whole = self._in_run = False
        elif self._is_whole:
            self.before = offset + 1
        elif self._in_run:
            self._runs[-1] = (self._runs[-1][0], offset + 1)
        else:
            self._runs.append((offset, offset + 1))
            self._in_run = True

    def committed(self) -> OffsetAndMetadata:
        """Returns what the group is to commit.

        :raises ValueError: if it is longer than a broker takes.
        """
        rest = [(max(first, self._passed), behind) for first, behind in self._old if behind > self._passed]
        runs = [*self._runs, *rest]
        return OffsetAndMetadata(self.before, _encoded(runs) if runs else "")


def _encoded(runs: list[tuple[int, int]]) -> str:
    numbers, last = [], 0
    for first, behind in runs:
        numbers += [first - last, behind - first]
        last = behind
    text = base64.b64encode(zlib.compress(" ".join(map(str, numbers)).encode(), 9)).decode()
    if len(text) > MOST_METADATA:
        raise ValueError(f"{len(runs)} runs of letters")
    return text


def _decoded(text: str) -> list[tuple[int, int]]:
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 1 << 20)
        numbers = list(map(int, data.split()))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"the metadata {text[:40]!r}") from error
    runs, last = [], 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        runs.append((last + gap, last + gap + length))
        last += gap + length
    return runs
