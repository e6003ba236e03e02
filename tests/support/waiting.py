"""Waiting for a condition, with a deadline: the only way in which a test lets time pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.clock import Clock, SystemClock

__all__ = ["DEADLINE_S", "REPORTS", "wait_until"]

DEADLINE_S = 120.0
"""Long, since only a test that fails waits for it: on a busy machine a thread may get no turn for seconds."""

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.05

REPORTS: list[Callable[[], object]] = []
"""Each returns the state of something that runs now, for the message of a wait that fails.

A kit that starts applications adds a report of theirs, and removes it once it has closed them."""


def wait_until(
    what: str,
    condition: Callable[[], Any],
    tell: Callable[[], object] | None = None,
    *,
    deadline_s: float = DEADLINE_S,
    pauses: bool = True,
    clock: Clock | None = None,
) -> Any:
    """Returns the condition's result once that is true.

    :param what: the condition in words, for the message.
    :param tell: returns what else belongs into the message; the states of running applications are always in it.
    :param pauses: false where the condition itself lets time pass.
    :param clock: whose time passes; the machine's by default.
    :raises AssertionError: if the condition is not true within the deadline; it is looked at once more after that.
    """
    clock = clock or SystemClock()
    begin = clock.monotonic()
    while True:
        waited = clock.monotonic() - begin
        if found := condition():
            return found
        if waited >= deadline_s:
            reports = [*([tell] if tell else []), *REPORTS]
            raise AssertionError(
                "; ".join([f"not within {deadline_s:g} s: {what}", *(str(each()) for each in reports)])
            )
        if pauses:  # longer ones with time: a condition may be costly, and take the processor from what it waits for
            clock.wait(min(max(waited / 10, SHORTEST_PAUSE_S), LONGEST_PAUSE_S))
