"""Single keys that several threads ask for at a time share requests, and nothing else."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from processor_api.errors import RetryableError, StreamsError
from streams.remote.together import MOST_AT_A_TIME, MOST_TOGETHER, Fields, Together
from waiting import wait_until


class Worker:
    """Answers requests one by one, when the test lets it."""

    def __init__(self) -> None:
        self.requests: list[list[Any]] = []
        self.alone: list[Any] = []
        self.gate = threading.Event()
        self.failure: Callable[[Sequence[Any]], BaseException | None] = lambda keys: None
        self.reads = Together(self.ask_alone, self.once)

    def once(self, keys: Sequence[Any]) -> list[Fields]:
        self.requests.append(list(keys))
        assert self.gate.wait(30)
        if failure := self.failure(keys):
            raise failure
        return [{"key": key, "value": f"of {key}"} for key in keys]

    def ask_alone(self, key: Any) -> Fields:
        self.alone.append(key)
        if failure := self.failure([key]):
            raise failure
        return {"key": key, "value": f"of {key} alone"}


def asking(worker: Worker, keys: Sequence[Any]) -> tuple[list[threading.Thread], dict[Any, Any]]:
    """Threads that ask for a key each, in this order, and what they get."""
    found: dict[Any, Any] = {}

    def ask(key: Any) -> None:
        try:
            found[key] = worker.reads.row(key)["value"]
        except BaseException as error:
            found[key] = error

    threads = [threading.Thread(target=ask, args=(key,), daemon=True) for key in keys]
    for number, one in enumerate(threads):
        one.start()
        if number < MOST_AT_A_TIME:
            wait_until("it has asked", lambda number=number: len(worker.requests) == number + 1)
    wait_until("they wait", lambda: len(worker.reads._waiting) == len(keys) - MOST_AT_A_TIME)
    return threads, found


def ended(threads: Sequence[threading.Thread]) -> None:
    for one in threads:
        one.join(30)
        assert not one.is_alive()


def test_keys_that_wait_go_in_one_request() -> None:
    worker = Worker()
    threads, found = asking(worker, range(50))
    worker.gate.set()
    ended(threads)
    assert found == {key: f"of {key}" for key in range(50)}
    assert worker.requests[:MOST_AT_A_TIME] == [[0], [1]]
    assert sorted(map(len, worker.requests[MOST_AT_A_TIME:]))[-1] >= 24
    assert worker.alone == []
    assert worker.reads.row("later") == {"key": "later", "value": "of later"}


def test_a_request_has_so_many_keys_at_most() -> None:
    worker = Worker()
    threads, found = asking(worker, range(MOST_TOGETHER + 20))
    worker.gate.set()
    ended(threads)
    assert len(found) == MOST_TOGETHER + 20
    assert max(map(len, worker.requests)) == MOST_TOGETHER


@pytest.mark.parametrize("error", [StreamsError("refused"), RetryableError("moves")])
def test_a_key_that_is_refused_fails_alone(error: StreamsError) -> None:
    worker = Worker()
    worker.failure = lambda keys: error if "bad" in keys else None
    threads, found = asking(worker, ["a", "b", "c", "bad", "d"])
    worker.gate.set()
    ended(threads)
    assert found.pop("bad") is error
    assert set(found.values()) <= {f"of {key}{more}" for key in "abcd" for more in ("", " alone")}


def test_one_key_is_asked_once_if_it_is_refused_and_again_if_it_may_succeed() -> None:
    worker = Worker()
    worker.gate.set()
    refused, moves = StreamsError("refused"), RetryableError("moves")
    worker.failure = lambda keys: refused
    with pytest.raises(StreamsError, match="refused"):
        worker.reads.row("a")
    assert worker.alone == []
    worker.failure = lambda keys: moves
    with pytest.raises(RetryableError, match="moves"):
        worker.reads.row("a")
    assert worker.alone == ["a"]


def test_an_answer_with_rows_missing_is_none() -> None:
    worker = Worker()
    worker.reads = Together(worker.ask_alone, lambda keys: [])
    assert worker.reads.row("a") == {"key": "a", "value": "of a alone"}


def test_others_go_on_after_an_interrupt() -> None:
    """The thread that sends for all is interrupted, as by Ctrl-C: the others ask, each for its own."""
    worker = Worker()
    interrupted = threading.Lock()

    def failure(keys: Sequence[Any]) -> BaseException | None:
        return KeyboardInterrupt() if len(keys) > 1 and interrupted.acquire(blocking=False) else None

    worker.failure = failure
    threads, found = asking(worker, range(20))
    worker.gate.set()
    ended(threads)
    assert [type(one) for one in found.values()].count(KeyboardInterrupt) == 1
    assert {found[key] for key in found if not isinstance(found[key], BaseException)} <= {
        f"of {key}{more}" for key in range(20) for more in ("", " alone")
    }
    assert worker.reads._under_way == 0
    assert worker.reads.row("later") == {"key": "later", "value": "of later"}


def test_a_value_is_never_older_than_the_call() -> None:
    """A key does not join a request that was sent before it was asked for."""
    version = 0

    def once(keys: Sequence[Any]) -> list[Fields]:
        seen = version  # as of when the request arrives
        pause.wait(rng.random() / 1000)
        return [{"value": seen} for _ in keys]

    rng, pause = random.Random(1), threading.Event()
    reads = Together(lambda key: once([key])[0], once)
    wrong: list[Any] = []

    def ask() -> None:
        for number in range(100):
            before = version
            if reads.row(number)["value"] < before:
                wrong.append(number)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        version += 1
        pause.wait(0.0005)
    assert wrong == []
