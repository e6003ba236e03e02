"""Calls that do not come back are left behind."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from streams.kafka.timed_executor import CallTimedOutError, TimedExecutor

LIMIT_S = 30.0


def test_calls_are_made_one_after_the_other_on_one_other_thread() -> None:
    executor, made = TimedExecutor("executor"), []
    for number in range(3):
        executor.call(lambda number=number: made.append((number, threading.current_thread())), LIMIT_S)
    assert [number for number, _ in made] == [0, 1, 2]
    (thread,) = {thread for _, thread in made}
    assert thread is not threading.current_thread()
    assert thread.name == "executor"
    assert thread.daemon
    executor.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_what_a_call_raises_comes_out() -> None:
    executor = TimedExecutor("executor")
    with pytest.raises(ZeroDivisionError, match="by zero"):
        executor.call(lambda: 1 // 0, LIMIT_S)
    executor.call(lambda: None, LIMIT_S)
    executor.close()


def test_a_call_that_takes_too_long_is_left_behind() -> None:
    """Its thread ends when the call does, and lets go of the client."""

    class Client:
        def __init__(self) -> None:
            self.answer, self.entered = threading.Event(), threading.Event()
            self.thread: threading.Thread | None = None

        def call(self) -> None:
            self.thread = threading.current_thread()
            self.entered.set()
            self.answer.wait(LIMIT_S)

    client = Client()
    answer, known = client.answer, weakref.ref(client)
    executor = TimedExecutor("executor")
    with pytest.raises(CallTimedOutError):
        executor.call(client.call, 0.01)
    assert client.entered.wait(LIMIT_S)
    thread = client.thread
    executor.close()
    del client
    gc.collect()
    assert known() is not None
    answer.set()
    assert thread is not None
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    gc.collect()
    assert known() is None
