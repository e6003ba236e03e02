"""Each reason for which nothing comes out is found in the status of an application that has it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dsl import EmitStrategy, StreamsBuilder, TimeWindows
from runtime_support.running_app import Cluster, Restores, counting
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.log import watch_outage
from streams.observing.diagnosis import NoOutputReason, why_no_output
from streams.observing.status import BrokerStatus, WorkerStatus
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

SECOND = timedelta(seconds=1)
MINUTES = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 1, "other": 1, "out": 1}) as made:
        yield made


def until_first(app: KafkaStreams, cause: str, earlier: WorkerStatus | None = None) -> NoOutputReason:
    """Waits until a cause is the most likely one, and returns it."""
    wait_until(cause, lambda: [one.cause for one in why_no_output(app.status(), earlier)][:1] == [cause])
    return why_no_output(app.status(), earlier)[0]


def passing_topology() -> Any:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()


def final_counts() -> Any:
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().windowed_by(MINUTES).emit_strategy(EmitStrategy.on_window_close())
    counts.count().to_stream(lambda w, n: w.key).map_values(str).to("out")
    return builder.build()


def test_nothing_is_said_while_results_come(cluster: Cluster) -> None:
    app = cluster.start(passing_topology())
    cluster.send("a")
    cluster.until_out("a")
    wait_until("a commit", lambda: cluster.committed() == 1)
    assert why_no_output(app.status()) == []


def test_an_application_that_was_not_started_says_so(cluster: Cluster) -> None:
    app = cluster.app(passing_topology(), start=False)
    assert until_first(app, "not-running").text == "the application is CREATED"


def test_an_application_that_has_failed_gives_its_error(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(int).map_values(str).to("out")
    app = cluster.start(builder.build())
    cluster.send("no number")
    cluster.until_state(app, ClientState.ERROR)
    assert "no number" in until_first(app, "failed").text


class Away:
    """An outage of a cluster."""

    lasts = True


def test_brokers_that_are_away_are_named_first(cluster: Cluster) -> None:
    app = cluster.start(passing_topology())
    outage = Away()
    watch_outage(outage)
    assert until_first(app, "broker").text == "no broker of the cluster responds"
    outage.lasts = False
    until_first(app, "empty-topic")


def test_a_paused_application_says_so(cluster: Cluster) -> None:
    app = cluster.start(passing_topology())
    app.pause()
    assert until_first(app, "paused").remedy == "Call resume()."


def test_a_worker_without_a_task_says_that_others_have_all(cluster: Cluster) -> None:
    first = cluster.start(counting())
    second = cluster.start(counting())
    wait_until("one has none", lambda: sorted(len(one.status().tasks) for one in (first, second)) == [0, 1])
    idle = min((first, second), key=lambda one: len(one.status().tasks))
    until_first(idle, "no-task")


def test_a_worker_that_waits_for_workers_of_another_topology_says_so(cluster: Cluster) -> None:
    cluster.start(counting())
    builder = StreamsBuilder()
    builder.stream("in").map_values(str.upper).to("out")
    app = cluster.app(builder.build())
    until_first(app, "other-topology")


def test_a_worker_to_which_its_group_gives_no_tasks_says_why(cluster: Cluster) -> None:
    app = cluster.start(passing_topology(), group_protocol="streams")
    cluster.broker.delete_topic("in")
    reason = until_first(app, "group-status")
    assert reason.text == "the group does not assign tasks: MISSING_SOURCE_TOPICS: Source topics in are missing."
    assert reason.remedy == "Create them; the group then assigns the tasks."


def test_an_empty_topic_is_named(cluster: Cluster) -> None:
    app = cluster.start(passing_topology())
    assert until_first(app, "empty-topic").text == "in does not have records"


def test_a_worker_that_began_at_the_end_says_that_no_record_has_come(cluster: Cluster) -> None:
    cluster.send("a", "b")
    app = cluster.start(passing_topology(), auto_offset_reset="latest")
    text = until_first(app, "no-records").text
    assert text == "no record has arrived since the tasks were assigned to the worker: in-0 has been read to the end"


def test_a_worker_says_that_no_record_has_come_lately(cluster: Cluster) -> None:
    app = cluster.start(passing_topology())
    cluster.send("a", "b")
    cluster.until_out("a", "b")
    wait_until("a commit", lambda: cluster.committed() == 2)
    earlier = app.status()
    assert until_first(app, "no-records", earlier).text.startswith("no record has arrived in the last")


def test_records_of_an_open_transaction_are_found_until_it_ends(cluster: Cluster) -> None:
    app = cluster.start(passing_topology(), metadata_max_age_ms=100)
    producer = EmbeddedClients(cluster.broker).producer({"transactional.id": "other"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("in", b"a", b"k", 0, None, None, 1)
    producer.flush()
    assert until_first(app, "uncommitted").text == "in-0 has records that cannot be read: a transaction is open"
    producer.commit_transaction()
    cluster.until_out("a")
    earlier = app.status()
    until_first(app, "no-records", earlier)


def test_records_that_wait_for_another_topic_name_it(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in").merge(builder.stream("other")).to("out")
    app = cluster.start(builder.build(), max_task_idle_ms=3_600_000)
    cluster.send("a")
    assert "other-0" in until_first(app, "idle").text


def test_records_that_cannot_be_read_are_all(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value_serde="json").map_values(str).to("out")
    app = cluster.start(builder.build(), deserialization_exception_handler="LogAndContinueExceptionHandler")
    cluster.send("{", "{")
    wait_until("both", lambda: app.status().tasks[0].dropped == 2)
    reason = until_first(app, "unreadable")
    assert reason.text.startswith("all 2 records have no result at KSTREAM-SOURCE-0000000000 (stream(in), ")


def test_late_records_say_which_grace_takes_them(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().windowed_by(MINUTES).count()
    counts.to_stream(lambda w, n: w.key).map_values(str).to("out")
    app = cluster.start(builder.build())
    cluster.send("a", timestamp=600_000)
    cluster.send(*["late"] * 9, timestamp=60_000)
    wait_until("all", lambda: app.status().tasks[0].dropped == 9)
    reason = until_first(app, "window-closed")
    assert reason.text.startswith("9 of 10 records have no result at ")
    assert reason.text.endswith("its window has closed, 8m1ms too late at most for a grace of 0s")


def test_since_an_earlier_status_only_what_is_new_counts(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count().to_stream().map_values(str).to("out")
    app = cluster.start(builder.build())
    cluster.send("a", "b", key=None)
    wait_until("both", lambda: app.status().tasks[0].dropped == 2)
    earlier = app.status()
    cluster.send("c", key=None)
    wait_until("the third", lambda: app.status().tasks[0].dropped == 3)
    assert until_first(app, "null-key-or-value", earlier).text.startswith("all 1 records")


def test_records_without_a_partner_are_named_where_they_are_most(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in").join(builder.table("other"), lambda one, other: one + other).to("out")
    app = cluster.start(builder.build())
    cluster.send("a", "b")
    wait_until("both", lambda: app.status().tasks[0].processed == 2)
    until_first(app, "no-partner")


def test_open_windows_say_until_when_and_for_which_partition(cluster: Cluster) -> None:
    app = cluster.start(final_counts())
    cluster.send("a", timestamp=90_000)
    reason = until_first(app, "held-back")
    assert "1 result of an open window of task 0_0 waits at" in reason.text
    assert reason.text.partition(", and none at all since ")[0].endswith(
        "until stream time 1970-01-01T00:02:00Z; in-0 has had no record later than 1970-01-01T00:01:30Z"
    )


def test_results_that_no_commit_has_sent_yet_are_named(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.table("in").to_stream().to("out")
    app = cluster.start(builder.build(), commit_interval_ms=3_600_000)
    cluster.send("a")
    wait_until("it is read", lambda: app.status().tasks[0].processed == 1)
    until_first(app, "commit")


def test_a_restore_says_how_much_is_left(cluster: Cluster) -> None:
    first = cluster.start(counting())
    cluster.send_pairs("in", [("k", str(number)) for number in range(50)])
    wait_until("all is counted", lambda: cluster.committed() == 50)
    first.close()
    begun, go_on = threading.Event(), threading.Event()

    class Waits(Restores):
        """Waits behind the first records, which are all."""

        def on_batch_restored(self, partition: Any, store: str, end_offset: int, restored: int) -> None:
            begun.set()
            assert go_on.wait(60)

    app = cluster.app(counting(), restores=Waits())
    try:
        assert begun.wait(60)
        reason = until_first(app, "restoring")
        assert reason.text == "1 of 1 tasks restore their stores: 0 records remain"
    finally:
        go_on.set()
    cluster.until_state(app, ClientState.RUNNING)


class HeldFill:
    """Keeps a global store from being filled until it is let go."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

    def on_restore_start(self, *_: Any) -> None:
        """Nothing is to be done."""

    def on_batch_restored(self, *_: Any) -> None:
        self.begun.set()
        self.end.wait(60)

    def on_restore_end(self, *_: Any) -> None:
        """Nothing is to be done."""

    def on_restore_suspended(self, *_: Any) -> None:
        """Nothing is to be done."""


def test_global_stores_that_are_filled_first_are_the_reason(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    builder.stream("in").join(
        builder.global_table("other"), lambda one, other: one + other, key_selector=lambda key, value: key
    ).to("out")
    cluster.send("row", topic="other")
    app = cluster.app(builder.build(), start=False)
    held = HeldFill()
    app.set_global_state_restore_listener(held)
    starting = threading.Thread(target=app.start)
    starting.start()
    try:
        assert held.begun.wait(60)
        [reason] = why_no_output(app.status())
        assert reason.cause == "restoring"
        assert "global stores" in reason.text
        [store] = app.status().global_task.stores
        assert store.restoring
    finally:
        held.end.set()
        starting.join()
    cluster.until_state(app, ClientState.RUNNING)


def test_a_broker_that_does_not_answer_is_named(cluster: Cluster) -> None:
    """One without a connection by the last statistics, and one that has let requests time out since the look before."""
    app = cluster.start(passing_topology())
    counts = {"connected": 1, "latency_ms": None, "latency_p99_ms": None, "queued": 0, "disconnects": 0}
    good = BrokerStatus(id=1, address="b1:9092", unreachable=0, partitions=3, unanswered=7, **counts)
    status = replace(app.status(), brokers=(good,))
    assert "broker" not in [one.cause for one in why_no_output(status)]
    gone = replace(status, brokers=(replace(good, connected=0, unreachable=1),))
    first = why_no_output(gone)[0]
    text = "broker 1 (b1:9092), the leader of 3 partitions of this worker, cannot be reached"
    assert (first.cause, first.text) == ("broker", text)
    slow = replace(status, brokers=(replace(good, unanswered=9),))
    assert "broker" not in [one.cause for one in why_no_output(slow)], "it may have been long ago"
    first = why_no_output(slow, status)[0]
    assert (first.cause, "has not responded to 2 requests in time" in first.text) == ("broker", True)
    away = replace(gone, tasks=(), state="REBALANCING")
    assert [one.cause for one in why_no_output(away)][:2] == ["broker", "no-member"]
    paused = replace(gone, paused=True)
    assert [one.cause for one in why_no_output(paused)][:2] == ["paused", "broker"]
