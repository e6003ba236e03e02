"""Samples of long tables of parameters: `make test` runs a sample of each, `make test-long` and `make test-whole` all.

A sample is the same in each run, and another one for each test, so that all of a table is met by some test. It is for
tables that are products, such as each kind of store on each engine with and without a cache, where a row says little
that its neighbours do not say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from zlib import crc32

Row = TypeVar("Row")

WHOLE = bool(os.environ.get("STREAMS_TEST_WHOLE"))


def sample_of(
    rows: Sequence[Row],
    one_of: int,
    test: str,
    name: Callable[[Row], str] = str,
    group: Callable[[Row], Any] = lambda row: None,
    *,
    whole: bool = WHOLE,
) -> list[Row]:
    """Returns one of so many rows, at least one of each group, in their order.

    :param test: the name of the test, which chooses the rows by their names.
    :param whole: whether all rows are returned; `STREAMS_TEST_WHOLE` says it, where it is not given.
    :param group: what a row has in common with others of its group; not given, they all are one.
    """
    if whole:
        return list(rows)
    groups: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda row: crc32(f"{test} {name(row)}".encode())):
        groups.setdefault(group(row), []).append(row)
    chosen = {id(row) for found in groups.values() for row in found[: -(-len(found) // one_of)]}
    return [row for row in rows if id(row) in chosen]
