"""A record that is refused is no outage: its handler is asked, its task alone goes back, and few records come twice
(semantics 165)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ProductionError, RetryableError
from processor_api.handlers import ProducerRecord, Response
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams import StreamsBuilder
from streams.app.states import ClientState
from streams.runtime.tasks.retry import TaskTimeoutError
from waiting import wait_until

GOOD = [f"good-{number}" for number in range(6)]
BACK = "a record was refused; its task goes back to its last commit, and waits"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 2, "copies": 2, "others": 1, "others-out": 1}) as made:
        yield made


def topology() -> Topology:
    """Copies what comes in, and writes it to the topic that its value names."""
    builder = StreamsBuilder()
    records = builder.stream("in")
    records.to("copies")
    records.filter(lambda key, value: value.startswith("to-")).to(lambda key, value, context: value)
    return builder.build()


def waits(caplog: pytest.LogCaptureFixture) -> int:
    return sum(one.getMessage() == BACK for one in caplog.records)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_topic_that_does_not_exist_holds_up_its_own_task(
    cluster: Cluster, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It went round with its whole thread, and sent a copy of each good record before it each time."""
    cluster.start(topology(), processing_guarantee=guarantee, retry_backoff_ms=20)
    cluster.send(*GOOD, "to-nowhere", "good-last", partition=0)
    wait_until("it was tried five times", lambda: waits(caplog) >= 5)
    cluster.send("other-1", "other-2", partition=1)
    wait_until("the other partition goes on", lambda: "other-2" in cluster.values("copies"))
    tried = waits(caplog)
    wait_until("it is tried again", lambda: waits(caplog) > tried)
    copies = Counter(cluster.values("copies"))
    assert "good-last" not in copies
    most = 1 if guarantee == "exactly_once_v2" else 3
    assert {value: copies[value] for value in GOOD if not 1 <= copies[value] <= most} == {}
    assert 1 <= copies["other-1"] <= 2
    cluster.broker.create_topic("to-nowhere", 1)
    wait_until("all is written", lambda: cluster.values("to-nowhere") and "good-last" in cluster.values("copies"))
    cluster.until_state(cluster.last, ClientState.RUNNING)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_the_handler_is_asked_about_a_record_whose_topic_does_not_exist(cluster: Cluster, guarantee: str) -> None:
    """With the source record, under each guarantee: no transaction has seen it."""
    asked: list[Any] = []

    def resume(context: Any, record: Any, error: Exception, origin: Any) -> Response:
        asked.append((context.topic, context.offset, context.source_raw_value, record.topic, error))
        return Response.resume([ProducerRecord("others-out", context.source_raw_key, context.source_raw_value)])

    settings: dict[str, Any] = {"production.exception.handler": resume, "processing.guarantee": guarantee}
    app = cluster.app(topology(), settings)
    cluster.send("good", "to-nowhere", "good-last")
    cluster.until_out("good", "to-nowhere", "good-last", topic="copies")
    wait_until("the dead letter is written", lambda: cluster.values("others-out") == ["to-nowhere"])
    ((*place, error),) = asked
    assert place == ["in", 1, b"to-nowhere", "to-nowhere"]
    assert isinstance(error, RetryableError)
    dropped = [one.metric_value() for name, one in app.metrics().items() if name.name == "dropped-records-total"]
    assert sum(dropped) == 1


def test_a_handler_may_fail_a_record_whose_topic_does_not_exist(cluster: Cluster) -> None:
    app = cluster.app(topology(), {"production.exception.handler": lambda *asked: Response.fail()})
    cluster.send("good", "to-nowhere")
    cluster.until_state(app, ClientState.ERROR)
    assert isinstance(app.failure, ProductionError)
    assert "topic 'to-nowhere' does not exist: create it" in str(app.failure)


def test_a_task_without_progress_ends_the_application_in_time(cluster: Cluster) -> None:
    """Also while others commit, which tells nothing of it."""
    app = cluster.start(topology(), task_timeout_ms=500, retry_backoff_ms=20)
    cluster.send("to-nowhere")

    def ended() -> bool:
        cluster.send("other", partition=1)
        return app.state is ClientState.ERROR

    wait_until("it has ended", ended)
    assert isinstance(app.failure, TaskTimeoutError)
    assert "topic 'to-nowhere' does not exist: create it" in str(app.failure)
    assert cluster.values("copies").count("other") > 1


def test_records_that_a_broker_refuses_hold_up_their_own_task(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of another task are committed, and come once."""
    builder = StreamsBuilder()
    builder.stream("in").to("copies")
    builder.stream("others").to("others-out")
    cluster.start(builder.build(), retry_backoff_ms=20)
    cluster.broker.refuse("copies", "REQUEST_TIMED_OUT")
    cluster.send("refused")
    wait_until("it was tried three times", lambda: waits(caplog) >= 3)
    tasks = {vars(one)["task"] for one in caplog.records if one.getMessage() == BACK}
    cluster.send("1", "2", topic="others")
    cluster.until_out("1", "2", topic="others-out")
    tried = waits(caplog)
    wait_until("it is tried again", lambda: waits(caplog) >= tried + 2)
    assert cluster.values("others-out") == ["1", "2"]
    assert len(tasks) == 1
    cluster.broker.accept("copies")
    cluster.until_out("refused", topic="copies")


def test_two_tasks_that_are_refused_at_once_both_go_back(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """The first failure is raised; the other must be followed by no commit either."""
    cluster.start(topology(), retry_backoff_ms=20, commit_interval_ms=300)
    cluster.broker.refuse("copies", "REQUEST_TIMED_OUT")
    cluster.send("a", partition=0)
    cluster.send("b", partition=1)
    wait_until("both were tried", lambda: {vars(r).get("task") for r in caplog.records} >= {"0_0", "0_1"})
    cluster.broker.accept("copies")
    wait_until("both are written", lambda: {"a", "b"} <= set(cluster.values("copies")))


def test_dead_letters_without_their_topic_hold_up_their_own_task(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it was deleted after the start, or a handler names another."""

    def elsewhere(context: Any, record: Any, error: Exception) -> Response:
        return Response.resume([ProducerRecord("letters", b"k", b"v")])

    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda value: {"good": value}[value]).to("copies")
    settings = {"processing.exception.handler": elsewhere, "retry.backoff.ms": 20}
    cluster.app(builder.build(), settings)
    cluster.send("good", "bad", partition=0)
    cluster.send("good", "good", partition=1)
    wait_until("it was tried three times", lambda: waits(caplog) >= 3)
    wait_until("the other task goes on", lambda: len(cluster.values("copies")) >= 3)
    (text,) = {vars(one)["error"].split(" [")[0] for one in caplog.records if one.getMessage() == BACK}
    assert text == "the dead-letter topic 'letters' does not exist: create it"
    cluster.broker.create_topic("letters", 1)
    wait_until("the letter is written", lambda: cluster.values("letters") == ["v"])


def test_a_task_that_goes_on_makes_larger_steps(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Until it is as any other."""
    cluster.start(topology(), retry_backoff_ms=20)
    cluster.send(*(f"{number}" for number in range(50)), "to-nowhere", *(f"{n}" for n in range(50, 5000)))
    wait_until("it was tried twice", lambda: waits(caplog) >= 2)
    cluster.broker.create_topic("to-nowhere", 1)
    wait_until("all is written", lambda: "4999" in cluster.values("copies"))
    copies = Counter(cluster.values("copies"))
    assert len(copies) == 5001
    assert max(copies[f"{number}"] for number in range(50, 5000)) == 1


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING, "streams.task"):
        yield
