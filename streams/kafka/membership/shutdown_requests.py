"""A member's request that every member of the application shuts down (KIP-671), over a control topic.

The request is a record in the first partition of the first control topic, which every member reads besides its tasks.
Requests from before a process joined do not count for it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.membership.port import ShutdownRequested
from streams.kafka.ports import Consumer
from streams.log import RepeatedLines
from streams.threads import SYSTEM_THREADS, Threads

log = logging.getLogger("streams.membership")

KEY = b"shutdown"
LISTEN_DELAY_S = 1.0
"""Time between the first assignment and the first read of the control topic, which is mostly empty: a fetch that waits
for it delays those of input topics."""
RETRY_S = 1.0
ASK_S = 2.0
"""How long a thread waits for this: it processes meanwhile what it has, also where no broker is there."""


class ShutdownRequests:
    """The shutdown requests of one process; its threads share it.

    :param send: ``(topic, partition, key, value)``; returns when the record is written.
    """

    def __init__(self, send: Callable[[str, int, bytes, bytes], None], threads: Threads = SYSTEM_THREADS) -> None:
        self._send = send
        self._lock = threads.lock()
        self._from: int | None = None

    def ask(self, control_topic: str, reason: str) -> None:
        """Asks every member that runs now to shut down.

        :raises StreamsError: if the broker does not take it.
        """
        self._send(control_topic, 0, KEY, reason.encode())

    def listen(self, consumer: Consumer, control_topic: str) -> TopicPartition:
        """Starts reading where the process first listened; returns the partition."""
        partition = TopicPartition(control_topic, 0)
        with self._lock:
            if self._from is None:  # once for the process: a thread that is replaced misses nothing meanwhile
                self._from = consumer.end_offsets([partition], ASK_S)[partition]
        consumer.assign({partition: self._from})
        return partition

    def reason(self, messages: Iterable[Any]) -> str | None:
        """Returns the reason to shut down, if these records ask for it."""
        with self._lock:
            since = self._from
        for message in messages:
            if message.key() == KEY and since is not None and message.offset() >= since:
                return (message.value() or b"").decode(errors="replace")
        return None


class MemberRequests:
    """Reads the shutdown requests of others for one member, and sends its own.

    :param requests: those of the process.
    """

    def __init__(self, requests: ShutdownRequests, consumer: Consumer, clock: Clock) -> None:
        self._requests, self._consumer, self._clock = requests, consumer, clock
        self._repeated = RepeatedLines(log, clock)
        self._topic = ""
        self._next_try = math.inf
        self._partition: TopicPartition | None = None
        """The partition that is read, once it is."""

    def ask(self, control_topic: str, reason: str) -> None:
        """Asks every other member to shut down.

        :raises StreamsError: if the broker does not take it.
        """
        self._requests.ask(control_topic, reason)

    def listen_soon(self, control_topic: str) -> None:
        """Has :meth:`poll` start to read soon. To be called once the group has assigned partitions to this member:
        before that, the client takes none."""
        self._topic, self._next_try = control_topic, self._clock.monotonic() + LISTEN_DELAY_S

    def poll(self) -> None:
        """Starts to read if it is time for it."""
        if self._partition is not None or (now := self._clock.monotonic()) < self._next_try:
            return
        self._next_try = now + RETRY_S
        try:
            self._partition = self._requests.listen(self._consumer, self._topic)
        except RetryableError as error:
            ended = self._clock.monotonic()  # a thread that was held up is not held up again soon
            self._next_try = ended + max(RETRY_S, 4 * (ended - now))
            self._repeated.log("requests of other members cannot be read yet", error=str(error))
        except StreamsError as error:  # such as a missing right: requests are then not read
            self._next_try = math.inf
            log.warning("requests of other members to shut down are not read", extra={"error": str(error)})

    def take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        """Takes records that were consumed.

        :raises ShutdownRequested: if one asks all members to shut down.
        """
        if partition == self._partition and (reason := self._requests.reason(messages)) is not None:
            raise ShutdownRequested(f"a member of the application asked all of them to shut down: {reason}")
