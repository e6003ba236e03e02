"""The latest record of each key: a dictionary's, whatever the memory is."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.spark.rows.compaction import LatestByKey, TaskFolder

KEYS = st.sampled_from([b"", b"a", b"b", b"\x00", b"\xff\xff"])
HEADERS = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=2), st.one_of(st.none(), st.binary(max_size=2)))))
RECORDS = st.lists(
    st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=20)), st.integers(-2, 1 << 50), HEADERS), max_size=30
)


def latest(batches: list[list[Any]], memory_bytes: int, *, headers: bool) -> tuple[dict[bytes, Any], bool]:
    """The rows that are found, and whether some were on disk."""
    with TaskFolder() as folder:
        rows, offset = LatestByKey(folder, memory_bytes), 0
        for batch in batches:
            if batch:
                keys, values, times, given = zip(*batch, strict=True)
                rows.add(keys, values, times, range(offset, offset + len(batch)), given if headers else None)
                offset += len(batch)
        found = [row for chunk in rows.chunks() for row in chunk]
        spilled = rows.spilled
        rows.close()
        path = folder.path if spilled else None
    assert path is None or not os.path.exists(path)
    assert len({row[0] for row in found}) == len(found)
    return {row[0]: (row[1], row[2], row[3], row[4] or []) for row in found}, spilled


@settings(max_examples=25)  # most open a database
@given(st.lists(RECORDS, max_size=4), st.sampled_from([1, 400, 1500, 1 << 20]))
def test_rows_are_those_of_a_dictionary(batches: list[list[Any]], memory_bytes: int) -> None:
    truth: dict[bytes, Any] = {}
    for offset, (key, value, time, headers) in enumerate(record for batch in batches for record in batch):
        truth[key] = (value, time, offset, headers or [])
    truth = {key: row for key, row in truth.items() if row[0] is not None}
    assert latest(batches, memory_bytes, headers=True)[0] == truth
    found, _ = latest(batches, memory_bytes, headers=False)
    assert found == {key: (*row[:3], []) for key, row in truth.items()}


def test_many_updates_of_few_keys_need_no_disk() -> None:
    """Rows that were replaced counted as if they were there, so that any long history went to disk."""
    batches = [[(b"%d" % (number % 10), b"x" * 50, number, None) for number in range(1000)] for _ in range(20)]
    found, spilled = latest(batches, 64 << 10, headers=False)
    assert len(found) == 10
    assert not spilled


def test_more_rows_than_the_memory_takes_go_to_disk() -> None:
    batches = [[(b"%d" % (first + number), b"x" * 50, number, None) for number in range(500)] for first in (0, 400)]
    found, spilled = latest(batches, 64 << 10, headers=False)
    assert len(found) == 900
    assert spilled
