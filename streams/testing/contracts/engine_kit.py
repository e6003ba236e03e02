"""The kit that the parts of the contract of a storage engine share."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from state.engine.port import Engine

__all__ = ["BOUNDS", "FAMILIES", "KEYS", "EngineKit", "Rows", "between", "change_at_random", "random_key"]

FAMILIES = ("rows", "other")
"""The families that an engine of a test is opened with; besides it has those of offsets and positions, as every
engine."""
KEYS = (b"", b"\x00", b"\x01b", b"a", b"a\x00", b"b", b"b\xff", b"c", b"\xff", b"\xff\xff")
BOUNDS = (None, b"", b"\x00", b"a", b"ab", b"b", b"b\xff\x00", b"z", b"\xff")

Rows = list[tuple[bytes, bytes]]


def between(rows: Mapping[bytes, bytes], low: bytes | None, high: bytes | None, *, reverse: bool) -> Rows:
    """Returns the rows of a range."""
    found = (row for row in rows.items() if (low is None or low <= row[0]) and (high is None or row[0] < high))
    return sorted(found, reverse=reverse)


def random_key(chosen: random.Random) -> bytes:
    return b"%03d" % chosen.randrange(400)


def change_at_random(engine: Any, rows: dict[bytes, bytes], chosen: random.Random, number: int) -> None:
    """Makes a batch of puts and deletions, some of ranges, or a clearing; applies it to the engine and to the model."""
    if chosen.random() < 0.05:
        engine.clear(["rows"])
        rows.clear()
        return
    batch, handle = engine.batch(), engine.family("rows").handle
    if chosen.random() < 0.2:
        low = chosen.randrange(400)
        bounds = b"%03d" % low, b"%03d" % (low + 30)
        batch.delete_range(*bounds, handle)
        for key in [key for key in rows if bounds[0] <= key < bounds[1]]:
            del rows[key]
    for _ in range(chosen.randrange(80)):
        key = random_key(chosen)
        if chosen.random() < 0.3:
            batch.delete(key, handle)
            rows.pop(key, None)
        else:
            batch.put(key, b"%d" % number, handle)
            rows[key] = b"%d" % number
    engine.write(batch)


class EngineKit:
    """Opens engines in a directory of the test's own."""

    def open_engine(self, path: Path) -> Engine:
        """Opens an engine with the families of `FAMILIES`, in ``path``, which may not exist yet.

        A second call with the same path opens the files of the first engine, which is closed by then.
        """
        raise AssertionError("give open_engine of the contract a body")

    @contextmanager
    def opened(self, path: Path) -> Iterator[Any]:
        """Returns an engine of the test, which is closed at the end."""
        engine: Any = self.open_engine(path / "engine")
        try:
            yield engine
        finally:
            engine.close()

    @staticmethod
    def put(engine: Any, rows: Mapping[bytes, bytes | None], *families: str) -> None:
        """Writes rows in one batch, to ``rows`` if no family is named; ``None`` deletes."""
        batch = engine.batch()
        for family in families or ("rows",):
            handle = engine.family(family).handle
            for key, value in rows.items():
                if value is None:
                    batch.delete(key, handle)
                else:
                    batch.put(key, value, handle)
        engine.write(batch)

    @staticmethod
    def rows(engine: Any, family: str = "rows") -> Rows:
        """Returns all rows of a family, of an engine or a snapshot."""
        return list(engine.family(family).range())
