"""A broker that goes away and comes back is waited for; one that stays away, or never was there, is told."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integration_support.counting import TASKS, Counting
from integration_support.topics import Topics
from integration_support.workers import Workers, supervised
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from tools.kafka.broker import HOST, Broker
from waiting import wait_until

OUTAGE_DEADLINE_S = 180.0
NOT_CLOSED = "the consumer is not closed: its last commit has not returned"
# A killed broker may come back once its former self has timed out.
SOON_BACK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_an_application_outlives_its_broker(
    guarantee: str, start_broker: Callable[..., Broker], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Killed in the middle of the input and started again: both workers go on by themselves, and nothing is lost; under
    exactly-once each record is counted once."""
    broker = start_broker(SOON_BACK)
    topics = Topics(broker.bootstrap, unique_name)
    with closing(Workers(tmp_path, broker.bootstrap, unique_name("app"))) as workers:
        counting = Counting(topics, workers, guarantee)
        counting.send()
        running = [counting.start().wait_running() for _ in range(2)]
        with topics.reader(counting.output) as reader:
            counting.read_round(reader)
            counting.send()
            broker.kill()
            assert [worker.process.poll() for worker in running] == [None, None]
            broker.start()
            counting.read_round_or_more(reader, OUTAGE_DEADLINE_S)
            counting.send()
            counting.read_round_or_more(reader, OUTAGE_DEADLINE_S)
            for worker in running:
                worker.stop()
            if guarantee == "exactly_once_v2":
                counting.check(reader)


@pytest.mark.slow
def test_a_worker_that_is_started_again_during_an_outage_waits_for_the_broker(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """It is no death for its supervisor that no broker answers, however long that takes."""
    broker = start_broker(SOON_BACK)
    topics = Topics(broker.bootstrap, unique_name)
    with closing(Workers(tmp_path, broker.bootstrap, unique_name("app"))) as workers:
        counting = Counting(topics, workers)
        supervisor = counting.start("--workers", "2")
        wait_until("all tasks run", lambda: len({one["task"] for one in supervisor.events("task runs")}) == TASKS)
        with topics.reader(counting.output) as reader:
            counting.send()
            counting.read_round(reader)
            broker.kill()
            os.kill(supervised(supervisor)[0], signal.SIGKILL)
            supervisor.wait_for("the application cannot start yet: that is tried again until it can", OUTAGE_DEADLINE_S)
            broker.start()
            counting.send()
            counting.read_round_or_more(reader, OUTAGE_DEADLINE_S)
            wait_until("both run", lambda: len(supervisor.events("state", state="RUNNING")) >= 3)
            supervisor.stop()
            counting.check(reader)
    assert [one["status"] for one in supervisor.events("worker died, restarting")] == ["SIGKILL"]
    assert len(supervised(supervisor)) == 3


@pytest.mark.slow
def test_an_outage_is_two_lines_of_the_log(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """The clients' own lines, hundreds of them, filled the log; nothing else stands on standard error."""
    broker = start_broker(SOON_BACK)
    topics = Topics(broker.bootstrap, unique_name)
    with closing(Workers(tmp_path, broker.bootstrap, unique_name("app"))) as workers:
        counting = Counting(topics, workers, "at_least_once")
        worker = counting.start("--log-level", "info").wait_running()
        with topics.reader(counting.output) as reader:
            counting.send()
            counting.read_round(reader)
            broker.kill()
            lost = worker.wait_for("the brokers are lost: records wait until one answers", OUTAGE_DEADLINE_S)
            broker.start()
            back = worker.wait_for("the brokers are back", OUTAGE_DEADLINE_S)
            counting.send()
            counting.read_round_or_more(reader, OUTAGE_DEADLINE_S)
        worker.stop()
    assert (lost["level"], back["level"]) == ("warning", "info")
    assert lost["servers"] == back["servers"] == broker.bootstrap
    assert back["after_s"] > 0
    logged = worker.events()
    assert len(logged) == len(worker.text.splitlines()), "a line of something else than the log"
    of_client = [event["event"] for event in logged if event["logger"] == "streams.kafka.client"]
    # on a slow machine a consumer is given up too, whose session is over before its commit has come back
    assert [event for event in of_client if event != NOT_CLOSED] == [lost["event"], back["event"]]
    # on a slow machine the session times out meanwhile, or the group is being loaded afterwards: that is said too
    assert len([event for event in logged if event["level"] in ("warning", "error")]) < 20


@pytest.mark.slow
def test_a_broker_that_stays_away_is_told(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """One error after task.timeout.ms and a status that is not zero; the next start goes on from the last commit."""
    broker = start_broker(SOON_BACK)
    topics = Topics(broker.bootstrap, unique_name)
    with closing(Workers(tmp_path, broker.bootstrap, unique_name("app"))) as workers:
        settings = {"task_timeout_ms": 2000, "commit_interval_ms": 1500, "producer_transaction_timeout_ms": 3000}
        counting = Counting(topics, workers, "exactly_once_v2", **settings)
        worker = counting.start(busy=True).wait_running()  # one with nothing to commit would wait for the broker
        counting.send()
        with topics.reader(counting.output) as reader:
            broker.kill()
            assert worker.wait() == 1
            assert len(worker.errors) == 1, worker.tail
            assert "task.timeout.ms" in worker.errors[0]
            broker.start()
            again = counting.start(busy=True)
            counting.read_round(reader, OUTAGE_DEADLINE_S)
            again.stop()
            counting.check(reader)


class Ticking(Processor[Any, Any, Any, Any]):
    """Always has something under way."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(20, PunctuationType.WALL_CLOCK_TIME, self.tick)
        self.ticks = 0

    def tick(self, now_ms: int) -> None:
        self.ticks += 1
        TICKS.append(self.ticks)
        self.context.forward(Record("k", "tick", now_ms))

    def process(self, record: Record[Any, Any]) -> None:
        pass


TICKS: list[int] = []


def test_a_stop_does_not_wait_for_a_broker_that_is_away(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Without transactions, what was not delivered was waited for until delivery.timeout.ms, five minutes."""
    broker = start_broker(SOON_BACK)
    topics = Topics(broker.bootstrap, unique_name)
    source, target = topics.create("input"), topics.create("output")
    topology = Topology().add_source("source", source).add_processor("ticking", Ticking, "source")
    settings = {
        "application.id": unique_name("app"),
        "bootstrap.servers": broker.bootstrap,
        "state.dir": str(tmp_path),
        "default.key.serde": Serdes.STRING,
        "default.value.serde": Serdes.STRING,
        "commit.interval.ms": 600_000,  # a commit would wait for the broker, and nothing would tick meanwhile
    }
    app = KafkaStreams(topology.add_sink("sink", target, "ticking"), settings)
    app.start()
    assert app.wait(60, state=ClientState.RUNNING)
    broker.kill()
    seen = len(TICKS)
    wait_until("it ticks on", lambda: len(TICKS) >= seen + 5)
    assert app.close(60)


def test_a_broker_that_is_not_there_is_named(unique_name: Callable[[str], str], tmp_path: Path) -> None:
    """Once the time is over that the error tells; the status is not zero."""
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind((HOST, 0))
        address = f"{HOST}:{taken.getsockname()[1]}"
        with closing(Workers(tmp_path, address, unique_name("app"))) as workers:
            worker = workers.start("copy_values:topology", env={"INPUTS": "input", "OUTPUT": "output"})
            assert worker.wait() == 1
            assert len(worker.errors) == 1, worker.tail
            assert f"cannot reach a broker at {address} within 30 s" in worker.errors[0]
