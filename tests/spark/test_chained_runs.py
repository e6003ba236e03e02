"""A history in several runs that go on with each other gives what one run over all of it gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_support.chained_runs import SHAPES, Drawn, days, drawn, outputs, run, tables

SEEDS = 40
MANY = 500


def check(found: Drawn, path: Path) -> None:
    whole = run(found, found.rows, path / "whole")
    expected = outputs(whole)
    written: dict[int, list[Any]] = {}
    last = None
    globals_: dict[str, list[Any]] = {topic: [] for topic in found.shape.global_topics}
    for number, rows in enumerate(days(found)):
        # A global table is not in the order of time: all of it is there before the first record.
        given = {**rows, **{topic: found.rows[topic] if number == 0 else [] for topic in globals_}}
        last = run(found, given, path / f"day-{number}", last)
        for task, records in outputs(last).items():
            written.setdefault(task, []).extend(records)
    assert last is not None
    assert written == expected, found
    assert tables(last, found.shape.stores) == tables(whole, found.shape.stores), found
    assert last.position.offsets() == whole.position.offsets()
    assert last.position.times() == whole.position.times()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_history_cut_into_runs_gives_what_one_run_gives(seed: int, tmp_path: Path) -> None:
    check(drawn(seed), tmp_path)


@pytest.mark.slow
def test_many_histories_cut_into_runs_give_what_one_run_gives(tmp_path: Path) -> None:
    for seed in range(SEEDS, SEEDS + MANY):
        check(drawn(seed), tmp_path / str(seed))


def test_the_drawn_histories_have_every_shape() -> None:
    found = [drawn(seed) for seed in range(SEEDS)]
    assert {one.shape.build.__name__ for one in found} == SHAPES.keys()
    assert {one.optimization for one in found} == {"none", "all"}
    assert {len(one.borders) for one in found} == set(range(5))
