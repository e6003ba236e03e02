"""Logs the loss of all brokers of a cluster, and their return: one line each, whatever its clients report meanwhile."""

from __future__ import annotations

import logging
import threading
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from processor_api.clock import Clock, SystemClock

log = logging.getLogger("streams.kafka.client")

REPEAT_S = 10.0
PROBE_S = 1.0
PROBE_INTERVAL_S = 2.0
SILENT_S = 120.0
"""Time after which an outage of which no client says anything more is forgotten: the clients were closed."""
CONNECTION = frozenset({"_RESOLVE", "_TIMED_OUT", "_TRANSPORT"})
"""Errors of one connection. The client connects again, or goes on with another broker."""


def failure_of_request(client: Any, topic: str | None, timeout_s: float) -> str | None:
    """Asks for metadata; returns the text of the error, or ``None`` if a broker answers in time and names brokers. One
    that is fenced names none, and then the client drops those that it knows.

    :param topic: an existing topic to ask for; without one, the answer is about all topics.
    """
    try:
        asked = client.list_topics
        found = asked(topic, timeout=timeout_s) if topic is not None else asked(timeout=timeout_s)
    except (KafkaException, SystemError, RuntimeError) as error:
        return str(error)  # the error itself would keep the frames, and so the client, alive
    return None if found.brokers else "the answer names no brokers"


class ClientLog:
    """Receives the lines that librdkafka logs, in place of a logger; without one, it writes them to standard error.

    They are logged at level debug: what follows from them is reported as an error or an event as well.
    """

    def log(self, level: int, template: str, *fields: str) -> None:
        log.log(logging.ERROR if level >= logging.CRITICAL else logging.DEBUG, template, *fields)


class OutageLog:
    """Logs the errors of connections that the clients of one cluster report. May be used by any thread.

    When a client reports that a connection failed, or that all brokers are down, or a call takes long, the next call of
    :meth:`check` asks a broker for an answer: the report may be old, or about one broker of several, and the one about
    all of them does not come each time. The outage is logged when there is no answer, and its end when there is one
    again.

    :param servers: the ``bootstrap.servers``, for the log.
    """

    def __init__(self, servers: str | None, clock: Clock | None = None) -> None:
        self.suspected = False
        """Whether a client reported a failed connection, and no broker has answered since; for a quick look."""
        self._servers = servers
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._since = 0.0
        self._is_logged = False
        self._reason = ""
        self._next_probe = 0.0
        self._last_sign = 0.0
        self._logged_at: dict[str, float] = {}
        self._broken_at: float | None = None

    def was_broken(self, within_s: float) -> bool:
        """Whether a client has reported a failed connection, or that all brokers are down, in the last seconds."""
        return self._broken_at is not None and self._clock.monotonic() - self._broken_at < within_s

    @property
    def lasts(self) -> bool:
        return self.suspected and self._clock.monotonic() - self._last_sign < SILENT_S

    def report(self, error: KafkaError) -> None:
        """Takes an error that a client reports by itself.

        Errors of connections are at level debug; any other, such as one of TLS or of a login, is a warning, which is
        repeated once in a while.
        """
        name, now = error.name(), self._clock.monotonic()
        if name in CONNECTION:
            self._reason = error.str()
        if error.code() == KafkaError._ALL_BROKERS_DOWN or name in CONNECTION:
            self._broken_at = now
            self.suspect()
        text = f"{error.str()} ({name})"
        if error.code() == KafkaError._ALL_BROKERS_DOWN or name in CONNECTION:
            log.debug("client error", extra={"error": text})
            return
        logged_at = self._logged_at.get(name)
        if logged_at is None or now - logged_at >= REPEAT_S:
            self._logged_at[name] = now
            log.warning("client error", extra={"error": text})

    def suspect(self) -> None:
        """Has the next :meth:`check` ask, as if a client had reported that all brokers are down.

        For calls that take long: a client reports nothing while its thread is inside of one.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._last_sign = now
            if not self.suspected:
                self.suspected, self._since, self._next_probe = True, now, now

    def check(self, client: Any, topic: str | None = None) -> bool | None:
        """Asks a broker for an answer, if all seem to be down and none was asked in the last seconds.

        It takes a second at most. To be called where the thread waits for the brokers in any case.

        :param client: the client that asks.
        :param topic: an existing topic to ask for; without one, the answer is about all topics.
        :returns: whether a broker has answered this client, ``None`` if none was asked.
        """
        now = self._clock.monotonic()
        with self._lock:
            if not self.suspected or now < self._next_probe:
                return None
            self._next_probe = now + PROBE_INTERVAL_S
        error = failure_of_request(client, topic, PROBE_S)
        if error is not None:
            self.missed(error)
        else:
            self.answered()
        return error is None

    def missed(self, error: str) -> None:
        """Takes that no broker answered a client, which may be none of those that report errors here."""
        with self._lock:
            self._last_sign = self._clock.monotonic()
            if self._is_logged or not self.suspected:
                return
            self._is_logged = True
        log.warning(
            "the brokers are lost: records wait until one answers",
            extra={"servers": self._servers, "error": self._reason or error},
        )

    def answered(self) -> None:
        """Takes that a broker has answered a client."""
        with self._lock:
            was_logged, after_s = self._is_logged, self._clock.monotonic() - self._since
            self.suspected = self._is_logged = False
            self._reason = ""
        if was_logged:
            log.info("the brokers are back", extra={"servers": self._servers, "after_s": round(after_s, 1)})
