"""Ranges of an engine's family, on every engine, against a sorted list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state.engine.memory import MemoryEngine
from state.engine.spilling import SpillingEngine
from state.rocksdb.engine import RocksEngine

FAMILIES = ["rows", "other"]
KEYS = [b"", b"\x00", b"\x01b", b"a", b"a\x00", b"b", b"b\xff", b"c", b"\xff", b"\xff\xff"]
BOUNDS = [None, b"", b"\x00", b"a", b"ab", b"b", b"b\xff\x00", b"z", b"\xff"]


ENGINES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryEngine(),
    "rocksdb": lambda path: RocksEngine(path, FAMILIES),
    "spilling": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES)),
    "spilling, each write to disk": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES), most_bytes=0),
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    opened = ENGINES[request.param](tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_has_its_lower_bound_and_not_its_upper_one(engine: Any, reverse: bool, flushed: bool) -> None:
    """Every pair of bounds, also from above to; other families do not show."""
    family, other = engine.family("rows"), engine.family("other")
    batch = engine.batch()
    for key in reversed(KEYS):
        batch.put(key, b"value of " + key, family.handle)
        batch.put(key + b"!", b"", other.handle)
    engine.write(batch)
    if flushed:
        engine.flush()
    for low, high in itertools.product(BOUNDS, BOUNDS):
        wanted = sorted((k for k in KEYS if (low or b"") <= k and (high is None or k < high)), reverse=reverse)
        found = list(family.range(low, high, reverse=reverse))
        assert found == [(key, b"value of " + key) for key in wanted], (low, high)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_shows_rows_as_they_were_when_it_was_asked_for(engine: Any, reverse: bool) -> None:
    """Rows put, replaced and deleted later do not show."""
    family = engine.family("rows")
    batch = engine.batch()
    for key in (b"a", b"b", b"c"):
        batch.put(key, b"1", family.handle)
    engine.write(batch)
    rows = family.range(b"a", None, reverse=reverse)
    batch = engine.batch()
    batch.put(b"b", b"2", family.handle)
    batch.put(b"bb", b"2", family.handle)
    batch.delete(b"c", family.handle)
    engine.write(batch)
    assert sorted(rows) == [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]


def test_a_range_keeps_its_bounds_however_late_it_is_read(engine: Any) -> None:
    """Its options are gone by then, and other ranges were opened."""
    family = engine.family("rows")
    batch = engine.batch()
    for number in range(300):
        batch.put(b"%03d" % number, b"some value", family.handle)
    engine.write(batch)
    opened = [(end, family.range(b"000", b"%03d" % end)) for end in range(0, 300, 7)]
    assert [sum(1 for _ in rows) for _, rows in opened] == [end for end, _ in opened]
