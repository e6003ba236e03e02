"""Shows how far stores are restored: one line on a terminal that is drawn over and over.

Elsewhere the runtime's own log lines say the same.
"""

from __future__ import annotations

from typing import TextIO

from processor_api.clock import Clock, SystemClock
from processor_api.task_id import TopicPartition

__all__ = ["RestoreBar"]

WIDTH = 30
REDRAW_S = 0.1


class RestoreBar:
    """A listener for :meth:`KafkaStreams.set_global_state_restore_listener`; one or more stream threads call it."""

    def __init__(self, stream: TextIO, clock: Clock | None = None) -> None:
        self._stream = stream
        self._clock = clock or SystemClock()
        self._total: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._open = 0
        self._next = 0.0

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        if not self._open:
            self._total.clear()
            self._done.clear()
        self._open += 1
        self._total[partition] = max(0, end - max(start, 0))
        self._done[partition] = 0
        self._draw(now=False)

    def on_batch_restored(self, partition: TopicPartition, store: str, end_offset: int, restored: int) -> None:
        self._done[partition] = self._done.get(partition, 0) + restored
        self._draw(now=False)

    def on_restore_end(self, partition: TopicPartition, store: str, restored: int) -> None:
        self._open -= 1
        self._done[partition] = self._total.get(partition, restored)
        self._draw(now=self._open == 0)
        if self._open == 0:
            self._stream.write("\n")
            self._stream.flush()

    def on_restore_suspended(self, partition: TopicPartition, store: str, restored: int) -> None:
        self.on_restore_end(partition, store, restored)

    def _draw(self, *, now: bool) -> None:
        time = self._clock.monotonic()
        if time < self._next and not now:
            return
        self._next = time + REDRAW_S
        total, done = sum(self._total.values()), sum(self._done.values())
        part = 1.0 if total == 0 else min(1.0, done / total)
        filled = round(part * WIDTH)
        bar = "#" * filled + "." * (WIDTH - filled)
        self._stream.write(
            f"\rrestoring {len(self._total)} changelogs [{bar}] {part:4.0%} {done:,} of {total:,} records"
        )
        self._stream.flush()
