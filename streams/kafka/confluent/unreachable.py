"""Logs while it lasts that no broker can be reached, so that a start does not wait in silence for its time-out."""

from __future__ import annotations

import logging
import re

from processor_api.clock import Clock

log = logging.getLogger("streams.kafka.client")

FIRST_S = 3.0
REPEAT_S = 10.0
_FRAME = re.compile(r"^\S+/(?:bootstrap|\d+): |^\S+/(?:bootstrap|\d+)$| \((?:after|in) .*state \w+.*\)$")
_HTTP = f"Invalid response size {int.from_bytes(b'HTTP')}"


class UnreachableNotice:
    """Logs that there is no answer, ``FIRST_S`` after it was made and then every ``REPEAT_S``.

    :param what: the beginning of the line, such as ``no broker can be reached at localhost:9092``.
    :param timeout_s: how long is tried in all, for the log.
    """

    def __init__(self, what: str, clock: Clock, timeout_s: float) -> None:
        self._what = what
        self._clock = clock
        self._timeout_s = timeout_s
        self._start = clock.monotonic()
        self.due = self._start + FIRST_S
        """The next time to call :meth:`say`, by the clock's monotonic time."""

    def say(self, reason: str) -> None:
        """Logs it if it is due."""
        now = self._clock.monotonic()
        if now < self.due:
            return
        self.due = now + REPEAT_S
        log.warning(
            "%s for %.0f s%s; trying for %.0f s in all",
            self._what,
            now - self._start,
            f": {reason}" if reason else "",
            self._timeout_s,
        )


def plain_reason(text: str) -> str:
    """Returns the reason that librdkafka gives for an error of a connection, without the names of its own states."""
    if _HTTP in text:
        return "what answers there speaks HTTP, and is no Kafka broker"
    while (shorter := _FRAME.sub("", text)) != text:
        text = shorter
    return text
