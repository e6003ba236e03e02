"""A store of a newer kind on the rows of an older one (KIP-258, KIP-1271): each key moves when it is next written.

Rows of the older kind stay in their family, and are shown as rows of the newer one. A commit that writes a key puts the
new row and deletes the old one in one batch. So each key has a row in exactly one of the families, also after a crash;
reads write nothing. When the older family has no rows left, the next opening ignores it.

Windows and sessions move in the same way, row by row: an older segment keeps its older rows until it expires. Rows that
a kind writes besides those of its codec, it removes from the older families itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from heapq import merge
from operator import itemgetter
from typing import Any

from state.engine.passing_on import PassingEngine
from state.engine.port import Batch, Engine, Family, Snapshot
from state.row_format.codec import Logged, RowCodec

Convert = Callable[[bytes], bytes]
Older = list[tuple[Family, Convert]]
Row = tuple[bytes, bytes]


class UpgradingFamily:
    """A family with the rows of older ones shown in it.

    :param same: keys of rows that are the same in all of them.
    """

    def __init__(self, family: Family, older: Older, same: Collection[bytes]) -> None:
        self.name = family.name
        self._family = family
        self._older = older
        self._same = same

    @property
    def handle(self) -> Any:
        return self._family.handle

    @property
    def older_handles(self) -> list[Any]:
        return [family.handle for family, _ in self._older]

    @property
    def names(self) -> list[str]:
        """The families that it shows."""
        return [self.name, *(family.name for family, _ in self._older)]

    def at(self, snapshot: Snapshot) -> UpgradingFamily:
        """Returns the same as of a snapshot of these families."""
        older = [(snapshot.family(family.name), convert) for family, convert in self._older]
        return UpgradingFamily(snapshot.family(self.name), older, self._same)

    def get(self, key: bytes) -> bytes | None:
        row = self._family.get(key)
        if row is not None:
            return row
        for family, convert in self._older:
            row = family.get(key)
            if row is not None:
                return row if key in self._same else convert(row)
        return None

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        older = [self._converted(family.range(low, high, reverse=reverse), convert) for family, convert in self._older]
        rows = self._family.range(low, high, reverse=reverse)
        return merge(rows, *older, key=itemgetter(0), reverse=reverse)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        found = [self._family.seek(key)]
        for family, convert in self._older:
            row = family.seek(key)
            found.append(None if row is None else next(self._converted(iter((row,)), convert)))
        return min((row for row in found if row is not None), default=None)

    def _converted(self, rows: Iterator[Row], convert: Convert) -> Iterator[Row]:
        same = self._same
        return ((key, row if key in same else convert(row)) for key, row in rows)

    def approximate_count(self) -> int:
        return self._family.approximate_count() + sum(family.approximate_count() for family, _ in self._older)


class UpgradingEngine(PassingEngine):
    """An engine whose families of one store show the rows of older kinds.

    A snapshot has the families as the engine has them; :meth:`UpgradingFamily.at` joins them.
    """

    def __init__(self, engine: Engine, family: str, older: Older, same: Collection[bytes] = ()) -> None:
        super().__init__(engine)
        self._upgrading = UpgradingFamily(engine.family(family), older, same)

    def family(self, name: str) -> Family:
        return self._upgrading if name == self._upgrading.name else self._engine.family(name)


def older_handles(family: Family) -> list[Any]:
    """Returns the handles of the older families whose rows this one shows; a row written to it is deleted there."""
    return family.older_handles if isinstance(family, UpgradingFamily) else []


def upgrading_codec(codec: RowCodec, family: Family) -> RowCodec:
    """Returns a codec that deletes the keys that it writes from the older families, if there are any."""
    if not older_handles(family):
        return codec

    def fill(batch: Batch, handle: Any, rows: Iterable[Logged]) -> None:
        written = list(rows)
        for old_handle in older_handles(family):
            delete = batch.delete
            for key, _, _ in written:
                delete(key, old_handle)
        codec.fill(batch, handle, written)

    return replace(codec, fill=fill)
