"""What two versions of a topology must have in common for their workers to run at the same time."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dsl import Grouped, KStream, Materialized, Repartitioned, StreamsBuilder, TimeWindows
from processor_api.stores.time_to_live import TimeToLive
from processor_api.topology.layout import Difference, differences, is_layout, layout_digest, layout_of
from processor_api.topology.topology import Topology

Change = Callable[[Any], Any]


def same(given: Any) -> Any:
    return given


def version(
    *,
    name: str = "counts",
    size_ms: int = 5000,
    group: str = "by-word",
    partitions: int | None = None,
    value: str = "string",
    before: Change = same,
    after: Change = same,
    rows: str = "prices",
    to: str = "out",
    more: Callable[[StreamsBuilder, KStream[str, str]], object] | None = None,
    **of_table: Any,
) -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.table("prices", materialized=Materialized(name=rows, **of_table))
    builder.global_table("names", materialized=Materialized(name="names"))
    lines: Any = before(builder.stream("lines"))
    words = lines.select_key(lambda key, line: line)
    split = words.repartition(Repartitioned(name="again", number_of_partitions=partitions, value_serde=value))
    grouped = split.group_by_key(Grouped(name=group))
    windows = grouped.windowed_by(TimeWindows.of_size_with_no_grace(size_ms))
    counts = windows.count(materialized=Materialized(name=name))
    results = counts.to_stream().map(lambda key, count: (key.key, str(count)))
    after(results).to(to)
    if more is not None:
        more(builder, lines)
    return builder.build()


OLD = version()


def between(new: Topology) -> list[Difference]:
    """The differences, by layouts that have been through JSON, as of a file."""
    old, after = (json.loads(json.dumps(layout_of(one))) for one in (OLD, new))
    assert is_layout(old)
    return differences(old, after)


@pytest.mark.parametrize(
    ("new", "texts"),
    [
        (version(), []),
        (
            version(before=lambda lines: lines.map_values(str.upper)),
            ["subtopology 2 runs map_values(str.upper), which is new"],
        ),
        (
            version(after=lambda results: results.filter_not(lambda key, count: count == "1")),
            ["subtopology 3 runs filter_not(lambda), which is new"],
        ),
        (
            version(to="results"),
            ["subtopology 3 writes to results, which is new", "subtopology 3 no longer writes to out"],
        ),
        (
            version(more=lambda builder, lines: lines.to("copies")),
            ["subtopology 2 writes to copies, which is new"],
        ),
        (version(more=lambda builder, lines: builder.global_table("cities")), ["global store cities"]),
    ],
)
def test_what_does_not_touch_topics_and_stores_of_tasks_may_differ(new: Topology, texts: list[str]) -> None:
    assert layout_digest(new) == layout_digest(OLD)
    found = between(new)
    assert all(one.side_by_side and not one.loses for one in found)
    if texts == ["global store cities"]:  # its name is generated
        assert [one.text.partition(" is new")[1] for one in found] == [" is new"]
    else:
        assert [one.text for one in found] == texts


@pytest.mark.parametrize(
    ("new", "text", "loses"),
    [
        (version(name="totals"), "store counts is gone: its changelog stays on the cluster until you delete it", True),
        (version(name="totals"), "store totals is new, and begins empty", False),
        (version(size_ms=6000), "store counts: window_size_ms is 6000, and was 5000", False),
        (version(partitions=7), "repartition topic again-repartition: partitions is 7, and was not given", False),
        (version(value="bytes"), "repartition topic again-repartition: value is bytes, and was string", False),
        (
            version(time_to_live=TimeToLive(timedelta(days=1))),
            'store prices: time to live is {"by": "record_time", "duration": 86400000}, and was not given',
            False,
        ),
        (
            version(more=lambda builder, lines: lines.merge(builder.stream("others"))),
            "subtopology 2 reads lines, others; it reads lines before",
            False,
        ),
        (
            version(more=lambda builder, lines: builder.stream("others").to("copies")),
            "subtopology 4 is new: reads others",
            False,
        ),
        (
            version(more=lambda builder, lines: lines.group_by_key().count()),
            "is new, and begins empty",
            False,
        ),
    ],
)
def test_what_a_task_reads_and_stores_is_the_same_or_workers_wait(new: Topology, text: str, loses: bool) -> None:
    assert layout_digest(new) != layout_digest(OLD)
    found = [one for one in between(new) if one.text.endswith(text)]
    assert found, between(new)
    assert not found[0].side_by_side
    assert found[0].loses == loses


def test_a_repartition_that_is_gone_is_named_first() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.table("prices", materialized=Materialized(name="prices"))
    builder.stream("lines").to("out")
    found = between(builder.build())
    assert [one.loses for one in found[:2]] == [True, True]
    assert found[0].text.startswith("repartition topic again-repartition is gone: a worker does not start")


@pytest.mark.parametrize(
    "value", [None, [], {}, {"format": 2, "subtopologies": {}, "global stores": {}}, {"format": 1}]
)
def test_anything_else_is_no_layout(value: object) -> None:
    assert not is_layout(value)
