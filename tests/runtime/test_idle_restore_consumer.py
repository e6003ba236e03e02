"""The consumer that restores is looked after while it has nothing to read: what it reports would pile up."""

from typing import Any, cast

from processor_api.clock import ManualClock
from streams.restore.restorer import Restorer


class Idle:
    """A consumer, as far as one is used that reads nothing."""

    def __init__(self) -> None:
        self.times = 0

    def relieve(self) -> None:
        self.times += 1


def test_it_is_looked_after_once_a_second() -> None:
    consumer, clock = Idle(), ManualClock(0)
    restorer = Restorer(cast(Any, consumer), clock)
    for _ in range(100):
        restorer.rest()
        clock.advance(50)
    assert consumer.times == 5
