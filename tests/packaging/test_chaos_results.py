"""The bench of kills computes the results that the application has where nothing fails, and sees each that is wrong."""

from __future__ import annotations

import random
from itertools import chain, islice

import pytest

from processor_api.serde import Serdes
from processor_api.topology.layout import differences, layout_of
from streams.testing import TopologyTestDriver
from tools.chaos.feed import drawn_records, first_records, last_records
from tools.chaos.results import END_MS, INPUTS, OUTPUTS, Kind, Row, count_by_kind, problems, wrong_results
from tools.chaos.shop import topology

FIRST_MS = 1_700_000_000_000
Rows = dict[str, list[Row]]


def is_counted(row: Row) -> bool:
    """Whether it is no result of the records that only close windows."""
    return row.timestamp < FIRST_MS + END_MS


def test_both_versions_have_one_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the second one would have empty stores of its own, and wait until all workers of the first have ended."""
    settings = {"application.id": "a", "bootstrap.servers": "b:1"}
    layouts = []
    for version in ("1", "2"):
        monkeypatch.setenv("VERSION", version)
        layouts.append(layout_of(topology().build(settings)))
    assert [one.text for one in differences(*layouts) if one.loses or not one.side_by_side] == []


@pytest.fixture(scope="module")
def run() -> tuple[Rows, Rows]:
    """The topics of a run without failures."""
    settings = {"application.id": "a", "bootstrap.servers": "b:1", "statestore.cache.max.bytes": 0}
    inputs: Rows = {name: [] for name in INPUTS}
    with TopologyTestDriver(topology().build(settings), settings) as driver:
        topics = {name: driver.create_input_topic(name, Serdes.STRING, Serdes.STRING) for name in INPUTS}
        drawn = islice(drawn_records(random.Random(1), FIRST_MS), 2500)
        for topic, key, value, time in chain(first_records(FIRST_MS), drawn, last_records(FIRST_MS)):
            inputs[topic].append(Row(key, None if value is None else value.encode(), time))
            topics[topic].pipe_input(key, value, timestamp=time)
        outputs = {
            name: [
                Row(row.key, row.value, row.timestamp)
                for row in driver.create_output_topic(name, Serdes.STRING, Serdes.BYTES).read_records()
            ]
            for name in OUTPUTS
        }
    assert all(len(rows) > 100 for rows in outputs.values())
    return inputs, outputs


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_run_without_failures_is_right(run: tuple[Rows, Rows], exactly_once: bool) -> None:
    inputs, outputs = run
    assert wrong_results(inputs, outputs, exactly_once=exactly_once) == {}


@pytest.mark.parametrize("topic", ["windows", "final", "joined", "enriched", "once"])
def test_a_result_that_is_lost_or_came_twice_is_found(run: tuple[Rows, Rows], topic: str) -> None:
    inputs, outputs = run
    rows = outputs[topic]
    some = [number for number, row in enumerate(rows) if is_counted(row)]
    for number in random.Random(1).sample(some, 10):
        lost, twice = [*rows[:number], *rows[number + 1 :]], [*rows, rows[number]]
        for wrong, kind in ((lost, Kind.LOST), (twice, Kind.DOUBLED)):
            found = wrong_results(inputs, {**outputs, topic: wrong}, exactly_once=True)
            assert list(found) == [topic]
            assert count_by_kind(found)[kind] >= 1
            assert {one.kind for one in found[topic]} == {kind}


def test_results_in_another_order_are_wrong(run: tuple[Rows, Rows]) -> None:
    inputs, outputs = run
    rows = [*outputs["windows"]]
    first = next(number for number, row in enumerate(rows) if is_counted(row))
    other = next(n for n, row in enumerate(rows) if n > first and row.key == rows[first].key)
    rows[first], rows[other] = rows[other], rows[first]
    found = wrong_results(inputs, {**outputs, "windows": rows}, exactly_once=True)
    assert [one.kind for one in found["windows"]] == [Kind.WRONG]


@pytest.mark.parametrize("topic", ["sessions", "named", "sums"])
def test_a_last_row_that_is_wrong_is_found(run: tuple[Rows, Rows], topic: str) -> None:
    inputs, outputs = run
    last = {row.key: number for number, row in enumerate(outputs[topic]) if row.value and is_counted(row)}
    for number in random.Random(1).sample(sorted(last.values()), 10):
        row = outputs[topic][number]
        if row.key in {one.key for one in outputs[topic][number + 1 :]}:
            continue  # it was deleted later
        wrong = [*outputs[topic], row._replace(value=b"\0" * 7 + b"9" if topic == "sums" else b"7")]
        assert list(wrong_results(inputs, {**outputs, topic: wrong}, exactly_once=True)) == [topic]


@pytest.mark.parametrize("topic", ["final", "joined", "enriched", "once", "named"])
def test_at_least_once_nothing_may_be_lost(run: tuple[Rows, Rows], topic: str) -> None:
    inputs, outputs = run
    rows = outputs[topic]
    twice = [*rows, *rows]
    assert wrong_results(inputs, {**outputs, topic: twice}, exactly_once=False) == {}
    seen = count_by_kind(problems(inputs, {**outputs, topic: twice}, exactly_once=False))
    assert (seen[Kind.DOUBLED] > 0) == (topic != "named")  # a table has its last rows
    last = next(number for number, row in reversed(list(enumerate(rows))) if row.value and is_counted(row))
    lost = [row for row in rows if row.key != rows[last].key]
    assert list(wrong_results(inputs, {**outputs, topic: lost}, exactly_once=False)) == [topic]
