"""Errors that may pass, in an application on a broker in memory: nothing is lost, and they do not last for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import RetryableError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.failing_clients import trapped
from runtime_support.running_app import Cluster, JumpingClock
from streams.app.states import ClientState
from streams.kafka.ports import TransactionAborted
from streams.runtime.tasks.retry import TaskTimeoutError

Run = Callable[..., Cluster]
GUARANTEES = ["exactly_once_v2", "at_least_once"]


class Count(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("counts")

    def process(self, record: Record[str, str]) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(str(count)))


def topology() -> Topology:
    """Numbers the records of each key, by a store that is on disk."""
    made = Topology().add_source("source", "in", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    made.add_processor("count", Count, "source")
    counts = Stores.persistent_key_value_store("counts")
    made.add_state_store(Stores.key_value_store_builder(counts, Serdes.STRING, Serdes.LONG), "count")
    return made.add_sink("sink", "out", "count", key_serde=Serdes.STRING, value_serde=Serdes.STRING)


class Failing:
    """Makes calls fail as long as they are told to."""

    def __init__(self) -> None:
        self.left: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.error: type[RetryableError] = RetryableError

    def __call__(self, call: str) -> None:
        self.made[call] += 1
        if self.left[call] > 0:
            self.left[call] -= 1
            raise self.error(f"no broker answers {call}")


@pytest.fixture
def failing() -> Failing:
    return Failing()


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture(name="run")
def run_fixture(tmp_path: Path, failing: Failing, clock: JumpingClock) -> Iterator[Run]:
    started: list[Cluster] = []

    def run(guarantee: str, **config: Any) -> Cluster:
        settings = {"processing_guarantee": guarantee, "retry_backoff_ms": 10, "retry_backoff_max_ms": 40, **config}
        started.append(Cluster(tmp_path / str(len(started)), clients=trapped(failing)))
        started[-1].app(topology(), clock=clock, **settings)
        return started[-1]

    yield run
    for each in started:
        each.close()


@pytest.mark.parametrize("call", ["send_offsets", "commit_transaction", "committed", "topics", "init_transactions"])
def test_exactly_once_goes_on_where_the_last_commit_was(call: str, failing: Failing, run: Run) -> None:
    """A life whose transaction cannot be ended is followed by one with new clients, which rolls it back."""
    running = run("exactly_once_v2")
    running.send("a", "b")
    running.until(lambda: running.values() == ["1", "2"])
    if call in ("committed", "topics", "init_transactions"):  # asked when a life begins
        failing.left["send_offsets"] = 1
    failing.left[call] = 4
    running.send("c")
    running.until(lambda: not failing.left[call] and running.values() == ["1", "2", "3"])
    running.until(lambda: running.committed() == 3)
    running.send("d")
    running.until(lambda: running.values() == ["1", "2", "3", "4"])
    running.until(lambda: running.last.state is ClientState.RUNNING)


@pytest.mark.parametrize("error", [RetryableError, TransactionAborted])
def test_a_thread_whose_commits_all_fail_has_not_committed(
    error: type[RetryableError], failing: Failing, clock: JumpingClock, run: Run
) -> None:
    """Tasks that went back have nothing to commit at first, which counted as a commit: no alert saw such a worker."""
    running = run("exactly_once_v2", task_timeout_ms=10_000_000)
    running.send("a")
    running.until(lambda: running.committed() == 1)
    failing.error, failing.left["send_offsets"] = error, 1_000_000
    running.send("b")
    running.until(lambda: failing.made["send_offsets"] > 2)
    begun = clock.monotonic()
    for _ in range(5):
        made = failing.made["send_offsets"]
        clock.ahead_s += 60
        running.until(lambda made=made: failing.made["send_offsets"] > made)
        waited_s = clock.monotonic() - begun
        (age,) = (m.metric_value() for n, m in running.last.metrics().items() if n.name == "last-commit-seconds-ago")
        assert age >= waited_s
    failing.left.clear()
    running.until(lambda: running.committed() == 2)


def test_at_least_once_commits_the_same_offsets_later(failing: Failing, run: Run) -> None:
    """Without a new life: nothing is processed again."""
    running = run("at_least_once")
    running.send("a")
    running.until(lambda: running.committed() == 1)
    failing.left["commit"] = 4
    running.states[running.last].clear()
    running.send("b")
    running.until(lambda: running.committed() == 2)
    assert running.values() == ["1", "2"]
    assert running.entered() == []


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_errors_that_last_are_one_error(guarantee: str, failing: Failing, run: Run) -> None:
    """After ``task.timeout.ms`` without a commit; what was not committed is neither visible nor behind the offset."""
    running = run(guarantee, task_timeout_ms=200)
    running.send("a")
    running.until(lambda: running.committed() == 1)
    call = "send_offsets" if guarantee == "exactly_once_v2" else "commit"
    failing.left[call] = 1_000_000
    running.send("b")
    error = running.failed()
    assert isinstance(error, TaskTimeoutError)
    assert "no progress for 0.2 s (task.timeout.ms)" in str(error)
    assert f"no broker answers {call}" in str(error)
    assert running.committed() == 1
    if guarantee == "exactly_once_v2":
        assert running.values() == ["1"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_refusal_that_lasts_is_tried_less_and_less_often(guarantee: str, failing: Failing, run: Run) -> None:
    """An abort and a rebuild take no time here: without a back-off there would be thousands of them."""
    running = run(guarantee, task_timeout_ms=1_000, retry_backoff_ms=50, retry_backoff_max_ms=400)
    running.until(lambda: running.last.state is ClientState.RUNNING)
    running.broker.refuse("out", "REQUEST_TIMED_OUT")
    before = failing.made["committed"]
    running.send("a")
    assert isinstance(running.failed(), TaskTimeoutError)
    assert 2 <= failing.made["committed"] - before <= 7  # after 50, 100, 200, 400, 400 ms


def test_a_stop_does_not_wait_for_the_back_off(run: Run) -> None:
    running = run("at_least_once", retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    running.until(lambda: running.last.state is ClientState.RUNNING)
    running.broker.refuse("out", "REQUEST_TIMED_OUT")
    running.send("a")
    running.until(lambda: ClientState.REBALANCING in running.entered()[2:])
    assert running.last.close(60)
    assert running.last.state is ClientState.NOT_RUNNING


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_commit_resets_the_retries(guarantee: str, failing: Failing, run: Run, clock: JumpingClock) -> None:
    """Errors now and then never add up to errors that last."""
    running = run(guarantee, task_timeout_ms=60_000)
    for number in range(1, 4):
        failing.left["send_offsets" if guarantee == "exactly_once_v2" else "commit"] = 2
        running.send("a")
        running.until(lambda number=number: running.committed() == number)
        clock.ahead_s += 50  # two of them would be too long
    assert running.last.state is not ClientState.ERROR


def test_retries_are_reset_when_nothing_is_left_to_commit(failing: Failing, run: Run, clock: JumpingClock) -> None:
    """As that of a life that could not begin, before there was anything to read."""
    failing.left["init_transactions"] = 2
    running = run("exactly_once_v2", task_timeout_ms=60_000)
    running.until(lambda: running.last.state is ClientState.RUNNING)
    polled = failing.made["poll"]
    running.until(lambda: failing.made["poll"] > polled + 20)  # rounds of the loop, of some ms each
    clock.ahead_s += 70
    failing.left["send_offsets"] = 2
    running.send("a")
    running.until(lambda: running.committed() == 1)
