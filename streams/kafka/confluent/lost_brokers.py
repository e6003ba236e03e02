"""Finds clients that will never reach their cluster again, so that new ones take their place.

When an answer about metadata names topics but no broker, as that of a broker which is fenced for a moment, librdkafka
drops all brokers that it knew. If the second answer is the same it drops those of ``bootstrap.servers`` too, and never
asks a broker again (2.16; its issue 5301).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from processor_api.clock import Clock
from processor_api.errors import RetryableError

__all__ = ["LostBrokers"]

CHECK_INTERVAL_S = 5.0
OWN_ANSWER_S = 1.0
NEW_ANSWER_S = 10.0
LOST_AFTER_S = 15.0
"""A client that lost a connection makes the next one after 10 s at most (``reconnect.backoff.max.ms``)."""


class LostBrokers:
    """Compares one client with a new one, once it says that a connection or all brokers are down.

    :param new: returns whether a broker answers a new client, and names brokers. It is called on a thread of its own.
    """

    def __init__(self, new: Callable[[float], bool], clock: Clock) -> None:
        self.suspected = False
        """Whether the client said that a broker is down, and none has answered it since; for a quick look."""
        self._new, self._clock = new, clock
        self._next_check = 0.0
        self._reached_since: float | None = None
        """The time since when new clients get an answer while this one gets none."""
        self._asking: threading.Thread | None = None

    def suspect(self) -> None:
        """Takes the client's report that a connection failed, or that all brokers are down."""
        self.suspected = True

    def check(self, own: Callable[[float], bool], answered: bool | None = None) -> None:
        """Asks for an answer if none was asked for in the last seconds; takes a second at most.

        :param own: returns whether a broker answers this client within a time in seconds.
        :param answered: whether one did just now, if the client was asked for another reason: it is not asked again.
        :raises RetryableError: if new clients have reached the cluster for a while, and this one has not.
        """
        now = self._clock.monotonic()
        if not answered and now < self._next_check:
            return
        self._next_check = now + CHECK_INTERVAL_S
        if own(OWN_ANSWER_S) if answered is None else answered:
            self.suspected, self._reached_since = False, None
            return
        reached = self._reached_since
        if reached is not None and now - reached >= LOST_AFTER_S:
            raise RetryableError("this client has lost all brokers, which a new client reaches; it has to be replaced")
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._ask, args=(now,), name="broker-check", daemon=True)
            self._asking.start()

    def _ask(self, now: float) -> None:
        if not self._new(NEW_ANSWER_S):
            self._reached_since = None
        elif self._reached_since is None:
            self._reached_since = now
