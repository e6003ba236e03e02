"""A service outside of Kafka that records need, such as a schema registry, and that may be away for a time."""

from __future__ import annotations

from collections.abc import Callable

from processor_api.errors import UnreachableError


class SimulatedService:
    """Answers the serdes and functions of a scenario, unless the schedule has taken it away.

    ::

        service = SimulatedService()

        def read(data):
            service.ask()
            return data.decode()
    """

    def __init__(self) -> None:
        self._now: Callable[[], float] = lambda: 0.0
        self._away_until = 0.0

    def begin(self, now: Callable[[], float]) -> None:
        """Begins a run, in which it is there.

        :param now: returns the simulated time in seconds.
        """
        self._now, self._away_until = now, 0.0

    def go_away(self, seconds: float) -> None:
        """Answers nothing for a time."""
        self._away_until = max(self._away_until, self._now() + seconds)

    def come_back(self) -> None:
        """Answers from now on."""
        self._away_until = 0.0

    def ask(self) -> None:
        """Returns if the service is there.

        :raises UnreachableError: if it is away.
        """
        if self._now() < self._away_until:
            raise UnreachableError("the simulated service is away")
