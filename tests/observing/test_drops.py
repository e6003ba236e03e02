"""Records that give no result are counted by node and reason: in the status, the metrics and the log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, JoinWindows, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from processor_api.handlers import log_and_continue
from processor_api.record import DropReason
from processor_api.stores.factory import Stores
from runtime_support.running_app import Cluster
from streams.app.kafka_streams import KafkaStreams
from streams.cli.cluster.workers import Seen, parsed
from streams.cli.top.view import Choice, view_of
from streams.http.page.live import snapshot
from streams.observing.application import application_status, totals_of
from streams.observing.diagnosis import why_no_output
from streams.testing import TopologyTestDriver
from waiting import wait_until

SECOND = timedelta(seconds=1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 1, "other": 1, "out": 1}) as made:
        yield made


def build(builder: StreamsBuilder) -> Any:
    return builder.build()


def drops(app: KafkaStreams) -> dict[str, tuple[int, int | None, str | None]]:
    """Returns count, lateness and setting by reason."""
    found = [one for task in app.status().tasks for one in task.drops]
    return {one.reason: (one.count, one.late_by_ms, one.setting) for one in found}


def until_dropped(app: KafkaStreams, reason: DropReason, count: int) -> tuple[int, int | None, str | None]:
    wait_until(f"{count} {reason.tag}", lambda: drops(app).get(reason.tag, (0,))[0] == count)
    return drops(app)[reason.tag]


@pytest.mark.parametrize(
    ("windows", "late_by"),
    [
        (TimeWindows.of_size_and_grace(SECOND, grace=SECOND), 8_001),
        (SlidingWindows.of_time_difference_and_grace(SECOND, grace=SECOND), 7_500),
        (SessionWindows.of_inactivity_gap_and_grace(SECOND, grace=SECOND), 7_500),
    ],
)
def test_a_late_record_is_counted_with_how_late_it_was(cluster: Cluster, windows: Any, late_by: int) -> None:
    """With a grace period so much longer it is taken."""
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(windows).count().to_stream(lambda w, n: w.key).map_values(str).to(
        "out"
    )
    app = cluster.start(build(builder))
    cluster.send("x", timestamp=10_000)
    cluster.send("late", "late", timestamp=500)
    assert until_dropped(app, DropReason.WINDOW_CLOSED, 2) == (2, late_by, "grace of 1s")


def test_one_line_says_what_was_dropped_and_where(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(SECOND, grace=SECOND)
    counts = builder.stream("in").group_by_key().windowed_by(windows).count()
    counts.to_stream(lambda w, n: w.key).map_values(str).to("out")
    with caplog.at_level("INFO", logger="streams.thread"):
        app = cluster.start(build(builder), log_summary_interval_ms=50)
        cluster.send("x", timestamp=10_000)
        cluster.send("late", "late", timestamp=500)

        def told() -> list[str]:
            return [text for text in map(str, map(_message, caplog.records)) if "without a result" in text]

        wait_until("it is told", lambda: bool(told()))
        cluster.send("late", timestamp=600)
        until_dropped(app, DropReason.WINDOW_CLOSED, 3)
        app.close()
    summed = sum(getattr(one, "dropped", 0) for one in caplog.records if one.getMessage() == "summary")
    assert summed >= 2
    first, *rest = told()
    line = app.topology.line_of("KSTREAM-AGGREGATE-0000000002")
    assert Path(__file__).name in str(line)
    assert first == (
        f"records without a result: 2 at KSTREAM-AGGREGATE-0000000002 (count(), {line}):"
        " its window has closed, 8s1ms too late at most for a grace of 1s"
    )
    assert len(rest) == 1, "the rest is told at the end"


def _message(record: Any) -> str:
    return str(record.getMessage())


def test_records_are_counted_by_node_and_reason_in_the_metrics(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.group_by_key().count()
    stream.map_values(int).map_values(str).to("out")
    settings = {"processing_exception_handler": "LogAndContinueProcessingExceptionHandler"}
    app = cluster.start(build(builder), **settings)
    cluster.send("1", key=None)
    cluster.send("a")
    until_dropped(app, DropReason.FAILED, 1)
    found = {
        (name.tags["processor-node-id"], name.tags["reason"]): metric.metric_value()
        for name, metric in app.metrics().items()
        if name.name == "no-result-records-total"
    }
    assert found == {
        ("KSTREAM-AGGREGATE-0000000002", "null-key-or-value"): 1,
        ("KSTREAM-MAPVALUES-0000000003", "failed"): 1,
    }


def test_a_record_that_cannot_be_read_is_counted_at_its_source(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value_serde="json").map_values(str).to("out")
    app = cluster.start(build(builder), deserialization_exception_handler="LogAndContinueExceptionHandler")
    cluster.send("{", "{", "1")
    assert until_dropped(app, DropReason.UNREADABLE, 2) == (2, None, None)
    [drop] = app.status().tasks[0].drops
    assert (drop.node, drop.dropped, drop.expected) == ("KSTREAM-SOURCE-0000000000", True, False)


@pytest.mark.parametrize("join", ["table", "stream", "tables", "global"])
def test_a_record_without_a_partner_is_counted_and_not_as_dropped(cluster: Cluster, join: str) -> None:
    builder = StreamsBuilder()
    if join == "table":
        joined = builder.stream("in").join(builder.table("other"), lambda one, other: one + other)
    elif join == "global":
        table = builder.global_table("other")
        joined = builder.stream("in").join(table, lambda one, other: one + other, key_selector=lambda key, value: value)
    elif join == "tables":
        joined = builder.table("in").join(builder.table("other"), lambda one, other: one + other).to_stream()
    else:
        windows = JoinWindows.of_time_difference_with_no_grace(SECOND)
        joined = builder.stream("in").join(builder.stream("other"), lambda one, other: one + other, windows=windows)
    joined.to("out")
    app = cluster.start(build(builder))
    cluster.send_pairs("in", [("a", "1"), ("b", "2")])
    assert until_dropped(app, DropReason.NO_PARTNER, 2)[0] == 2
    [task] = app.status().tasks
    assert task.dropped == 0
    assert [(one.dropped, one.expected) for one in task.drops] == [(False, True)]


def counted_in_driver(
    builder: StreamsBuilder, records: Iterable[tuple[str, str, str, int]], **settings: str
) -> list[tuple[str, str | None, int]]:
    """Sends ``(topic, key, value, timestamp)``; returns call, reason and count of what had no result."""
    with TopologyTestDriver(builder, {name.replace("_", "."): value for name, value in settings.items()}) as driver:
        for topic, key, value, timestamp in records:
            driver.create_input_topic(topic).pipe_input(key, value, timestamp=timestamp)
        return sorted((str(one.call).partition("(")[0], one.reason, one.count) for one in driver.drops())


def test_a_record_that_finds_none_in_a_self_join_is_counted() -> None:
    """A window that lies apart from the record itself leaves it without a partner at first."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream("in")
    later = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=2)).before(timedelta(seconds=-1))
    stream.join(stream, lambda one, other: one + other, windows=later).to("out")
    records = [("in", "a", "1", 0), ("in", "b", "2", 0), ("in", "a", "3", 1500)]
    found = counted_in_driver(builder, records, topology_optimization="single.store.self.join")
    assert found == [("join", "no-partner", 2)]


def test_a_row_that_finds_none_in_a_foreign_key_join_is_counted() -> None:
    """On both sides; a left row that had a partner before is taken back, which is a result."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    left, right = builder.table("orders"), builder.table("people")
    joined = left.foreign_key_join(right, lambda order: order, lambda order, person: order + person)
    joined.to_stream().to("out")
    assert counted_in_driver(builder, [("orders", "1", "ann", 0), ("orders", "2", "bob", 0)]) == [
        ("foreign_key_join", "no-partner", 2)
    ]
    records = [("people", "ann", "A", 0), ("orders", "1", "ann", 1), ("people", "eve", "E", 2)]
    assert counted_in_driver(builder, records) == [("foreign_key_join", "no-partner", 2)], "ann at first, and eve"
    assert counted_in_driver(builder, [*records, ("orders", "1", "bob", 3)]) == [("foreign_key_join", "no-partner", 2)]


def test_a_row_that_finds_none_in_a_left_foreign_key_join_has_a_result() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    left, right = builder.table("orders"), builder.table("people")
    left.foreign_key_left_join(right, lambda order: order, lambda order, person: order).to_stream().to("out")
    assert counted_in_driver(builder, [("orders", "1", "ann", 0)]) == []
    assert counted_in_driver(builder, [("people", "eve", "E", 0)]) == [("foreign_key_left_join", "no-partner", 1)]


def test_a_row_that_finds_none_in_a_join_of_a_table_with_itself_is_counted() -> None:
    """At the side that it comes to: a filter keeps it from the other."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    table = builder.table("in")
    even = table.filter(lambda key, value: int(value) % 2 == 0)
    table.join(even, lambda one, other: one + other).to_stream().to("out")
    assert counted_in_driver(builder, [("in", "a", "2", 0)]) == []
    assert counted_in_driver(builder, [("in", "a", "1", 0)]) == [("join", "no-partner", 1)]


def test_copies_and_records_without_a_key_to_repartition_by_are_counted_apart(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in").deduplicate(within=SECOND).group_by(lambda key, value: None if value == "x" else value).count()
    app = cluster.start(build(builder))
    cluster.send("a", "a", "a")
    cluster.send("x", key="m")
    until_dropped(app, DropReason.COPY, 2)
    until_dropped(app, DropReason.UNKEYED_REPARTITION, 1)
    assert sum(task.dropped for task in app.status().tasks) == 0


def test_a_record_behind_the_history_of_a_versioned_store_is_counted_at_the_node_that_puts_it(
    cluster: Cluster,
) -> None:
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("versions", 60_000)
    builder.table("in", materialized=Materialized.as_(supplier)).to_stream().to("out")
    app = cluster.start(build(builder))
    cluster.send("new", timestamp=200_000)
    cluster.send("old", timestamp=100_000)
    assert until_dropped(app, DropReason.HISTORY_ENDED, 1) == (1, 40_000, "retention of 1m")
    [drop] = app.status().tasks[0].drops
    assert drop.node == "KTABLE-SOURCE-0000000001"


def enriching() -> Any:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    table = builder.global_table("other", materialized="people")
    builder.stream("in").join(table, lambda one, other: one + other, key_selector=lambda key, value: value).to("out")
    return builder.build()


def test_what_a_global_store_leaves_out_is_in_the_status_the_log_and_the_diagnosis(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """What it was filled with before the tasks began, and what has come since."""
    cluster.send("lost", "lost", topic="other", key=None)
    cluster.send("Ann", topic="other", key="ann")
    with caplog.at_level("INFO", logger="streams.thread"):
        app = cluster.start(enriching())
        cluster.send("lost", topic="other", key=None)
        wait_until("three are left out", lambda: [one.count for one in app.status().global_task.drops] == [3])
        status = app.status()
        task = status.global_task
        assert task is not None
        assert (task.id, task.state, task.dropped, status.all_tasks[-1]) == ("-1_-1", "RUNNING", 3, task)
        assert task not in status.tasks
        [drop] = task.drops
        assert (drop.reason, drop.call) == ("null-key", "global_table(people)")
        [store] = task.stores
        assert (store.name, store.restoring) == ("people", False)
        wait_until("its row is there", lambda: app.status().global_task.stores[0].entries == 1)
        assert [one.position for one in app.status().global_task.partitions] == [4]
        reasons = why_no_output(status)
        assert "null-key" in [one.cause for one in reasons]
        assert any(Path(__file__).name in one.text for one in reasons)
        shown = snapshot(application_status("app", [status]))
        json.dumps(shown, allow_nan=False)
        assert [one["count"] for one in shown["drops"]] == [3]
        view = view_of("app", Seen((status,)), None, Choice(opened=("", "")))
        assert "3 records dropped" in view.lines[0]
        assert "1 task," in view.lines[0]
        rows = {section.title: section.rows for section in view.sections}
        assert [row[0] for row in rows["Tasks"]] == ["global", "1_0"]
        assert [row[3] for row in rows["Dropped"]] == [3]
        opened = view_of("app", Seen((status,)), None, Choice(opened=(status.client_id, "-1_-1")))
        assert [one.title for one in opened.sections] == ["Tasks", "Inputs", "Nodes", "Stores", "Dropped"]
        [again] = parsed([("here", json.dumps(asdict(status)).encode())], []).workers
        assert again == status
        app.close()
    lines = [text for text in map(_message, caplog.records) if "without a result" in text]
    assert sum(int(re.search(r"result: (\d+) at", line)[1]) for line in lines) == 3


def test_the_drops_of_a_driver_are_those_of_global_stores_too() -> None:
    with TopologyTestDriver(enriching()) as driver:
        driver.create_input_topic("other", "string", "string").pipe_input(None, "lost")
        driver.create_input_topic("in", "string", "string").pipe_input("k", "ann")
        assert {(one.reason, one.count) for one in driver.drops()} == {("null-key", 1), ("no-partner", 1)}


def test_every_reason_has_words_and_its_own_tag() -> None:
    assert all(one.text and one.remedy for one in DropReason)
    assert len({one.tag for one in DropReason}) == len(DropReason)


def test_the_totals_of_a_worker_keep_what_tasks_have_dropped_that_moved(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(key_serde="string", value_serde="long")).to("out")
    handler: dict[str, Any] = {"deserialization_exception_handler": log_and_continue}
    with Cluster(tmp_path, partitions=2) as cluster:
        first = cluster.start(builder.build(), **handler)
        for partition in range(2):
            cluster.send("no number", partition=partition)
        wait_until("both are dropped", lambda: totals_of([first.status()]).dropped == 2)
        cluster.start(builder.build(), **handler)
        wait_until("a task has moved", lambda: len(first.status().tasks) == 1)
        status = first.status()
        assert (totals_of([status]).dropped, sum(task.dropped for task in status.tasks)) == (2, 1)
        assert [one.count for one in application_status("app", [status]).drops] == [2]
