"""A member's request that every member of the application shuts down (KIP-671), over a control topic.

The request is a record in the first partition of the first control topic, which every member reads besides its tasks.
Requests from before a process joined do not count for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Consumer
from streams.threads import SYSTEM_THREADS, Threads

KEY = b"shutdown"


class ShutdownRequested(StreamsError):
    """Another member of the application asked all of them to shut down."""


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
            if self._from is None:
                self._from = consumer.end_offsets([partition])[partition]
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
