"""Exception handlers and dead letters in a running application, on a broker in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ProcessingError, ProductionError
from processor_api.handlers import Response
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState


class Refusing(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)
        if record.value == "bad":
            raise ValueError("bad")


def topology() -> Topology:
    made = Topology().add_source("source", "in", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    made.add_processor("p", Refusing, "source")
    return made.add_sink("sink", "out", "p", key_serde=Serdes.STRING, value_serde=Serdes.STRING)


Run = Callable[..., Cluster]


@pytest.fixture(name="run")
def run_fixture(tmp_path: Path) -> Iterator[Run]:
    started: list[Cluster] = []

    def run(**config: Any) -> Cluster:
        """An application with the topics ``in``, ``out`` and ``dlq``."""
        started.append(Cluster(tmp_path / str(len(started)), topics={"in": 1, "out": 1, "dlq": 1}))
        started[-1].app(topology(), {"errors.dead.letter.queue.topic.name": "dlq", **config})
        return started[-1]

    yield run
    for each in started:
        each.close()


CONTINUE = {"processing.exception.handler": "LogAndContinueProcessingExceptionHandler"}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_dead_letter_is_committed_with_the_offsets(guarantee: str, run: Run) -> None:
    """What was forwarded before the failure stays (semantics 113, 115)."""
    running = run(**CONTINUE, **{"processing.guarantee": guarantee})
    running.send("1", "bad", "2")
    running.until(lambda: running.values("out") == ["1", "bad", "2"])
    running.until(lambda: running.values("dlq") == ["bad"])
    assert running.last.state is ClientState.RUNNING


@pytest.mark.parametrize(("guarantee", "letters"), [("at_least_once", ["bad"]), ("exactly_once_v2", [])])
def test_a_failure_leaves_its_dead_letter_only_without_a_transaction(
    guarantee: str, letters: list[str], run: Run
) -> None:
    """Under exactly-once all that the failed task sent is rolled back with it."""
    running = run(**{"processing.guarantee": guarantee})
    running.send("bad")
    running.until(lambda: running.last.state is ClientState.ERROR)
    assert isinstance(running.last.failure, ProcessingError)
    assert running.values("dlq") == letters
    assert running.values("out") == (["bad"] if letters else [])


def test_what_the_broker_could_not_take_in_time_is_processed_again(run: Run) -> None:
    """By default, and from the last commit: nothing is lost, also of what came after it (semantics 114)."""
    running = run()
    running.send("1")
    running.until(lambda: running.values("out") == ["1"])
    running.states[running.last].clear()
    running.broker.refuse("out", "REQUEST_TIMED_OUT")
    running.send("2", "3")
    running.until(lambda: ClientState.REBALANCING in running.entered())  # its tasks are opened again
    running.broker.accept("out")
    running.until(lambda: running.values("out")[-2:] == ["2", "3"])
    running.until(lambda: running.last.state is ClientState.RUNNING)
    assert running.values("out")[0] == "1"


def test_the_dead_letter_of_a_refused_record_has_its_time_and_headers(run: Run) -> None:
    """By the built-in handler, which then fails; headers of the error come behind the record's own."""
    running = run()
    running.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    running.send("1", headers=[("h", b"1")])
    running.until(lambda: running.last.state is ClientState.ERROR)
    (letter,) = running.broker.records("dlq", read_committed=True)
    assert (letter.key(), letter.value(), letter.timestamp()[1]) == (b"k", b"1", 5)
    assert [name for name, _ in letter.headers() or ()][:2] == ["h", "__streams.errors.exception"]


def test_a_record_that_is_too_large_can_be_left_out(run: Run) -> None:
    """When the handler says so; the offsets behind it are committed."""
    told: list[Any] = []

    def resume(*asked: Any) -> Response:
        told.append(asked)
        return Response.resume()

    running = run(**{"production.exception.handler": resume})
    running.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    running.send("large")
    running.until(lambda: len(told) == 1)
    running.broker.accept("out")
    running.send("small")
    running.until(lambda: running.values("out") == ["small"])
    assert running.last.state is ClientState.RUNNING
    assert running.last.close(60)
    assert len(told) == 1


def test_a_refused_record_fails_the_application_under_exactly_once(run: Run) -> None:
    """Without asking: the transaction cannot be committed."""
    told: list[Any] = []

    def resume(*asked: Any) -> Response:
        told.append(asked)
        return Response.resume()

    running = run(**{"production.exception.handler": resume, "processing.guarantee": "exactly_once_v2"})
    running.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    running.send("large")
    running.until(lambda: running.last.state is ClientState.ERROR)
    assert isinstance(running.last.failure, ProductionError)
    assert told == []
