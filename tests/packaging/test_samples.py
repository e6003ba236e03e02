"""Samples of long tables are the same in each run, have something of each group, and leave nothing out for good."""

from __future__ import annotations

from functools import partial

import samples

sample_of = partial(samples.sample_of, whole=False)
ROWS = [f"{group}-{number}" for group in "abcde" for number in range(9)]


def test_a_sample_has_some_of_each_group_in_their_order() -> None:
    found = sample_of(ROWS, 4, "test", group=lambda row: row[0])
    assert [sum(row.startswith(group) for row in found) for group in "abcde"] == [3] * 5
    assert found == sorted(found) == sample_of(ROWS, 4, "test", group=lambda row: row[0])


def test_each_row_is_in_the_sample_of_some_test() -> None:
    assert {row for number in range(40) for row in sample_of(ROWS, 4, f"test_{number}")} == set(ROWS)


def test_a_whole_run_has_them_all() -> None:
    assert samples.sample_of(ROWS, 4, "test", whole=True) == ROWS
