"""Ends what dead workers have left with the brokers, for their supervisor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError

if TYPE_CHECKING:  # the supervisor needs the client only when a worker has died
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin

log = logging.getLogger("streams.cli.supervisor")

LONGEST_S = 10.0
"""So long a restart waits at most until its predecessor is taken over."""


class TakeOvers:
    """Ends what dead workers of an application have left with the brokers, each on a thread of its own.

    :param make_admin: makes the client for one of them; one of librdkafka by default.
    """

    def __init__(
        self, config: StreamsConfig, make_admin: Callable[[], Admin] | None = None, clock: Clock | None = None
    ) -> None:
        self._config = config
        self._make_admin = make_admin or self._librdkafka
        self._clock = clock or SystemClock()
        self._running: list[threading.Thread] = []
        self._prepared = False

    def _librdkafka(self) -> Admin:
        from streams.config import clients as client_configs
        from streams.kafka.confluent.clients import ConfluentClients

        return ConfluentClients().admin(client_configs.admin(self._config, f"{self._config.application_id}-supervisor"))

    def prepare(self) -> None:
        """Imports what a take-over needs, on a thread of its own: that takes longer than the take-over."""
        if not self._prepared:
            self._prepared = True
            threading.Thread(target=self._import, name="take-over-imports", daemon=True).start()

    def begin(self, process: str, threads: int, reason: str) -> threading.Thread:
        """Begins to take over a worker; returns the thread that does so.

        :param process: the id of its process.
        :param threads: the highest number of a stream thread that it had.
        """
        thread = threading.Thread(
            target=self._take_over, args=(process, threads, reason), name="take-over", daemon=True
        )
        self._running = [one for one in self._running if one.is_alive()] + [thread]
        thread.start()
        return thread

    def wait(self) -> None:
        """Waits until all that were begun have ended, but not for long."""
        until = self._clock.monotonic() + LONGEST_S
        for thread in self._running:
            thread.join(max(0.0, until - self._clock.monotonic()))

    def _import(self) -> None:
        with suppress(StreamsError):  # a take-over logs it
            self._make_admin().close()

    def _take_over(self, process: str, threads: int, reason: str) -> None:
        from streams.kafka.suspects import ProcessMembers, take_over

        try:
            with closing(self._make_admin()) as admin:
                take_over(admin, ProcessMembers.of(self._config, process, threads), reason, self._clock)
        except StreamsError as error:
            log.warning(
                "a dead worker is not taken over: its tasks wait until its session times out",
                extra={"reason": reason, "error": error.message},
            )
