"""Shows how far stores are restored: a bar on a terminal, above which log lines continue.

Elsewhere the runtime's own log lines say the same.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from processor_api.task_id import TopicPartition
from streams.cli.output.terminal import console, live_view

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class RestoreBar:
    """A listener for :meth:`KafkaStreams.set_global_state_restore_listener`; one or more stream threads call it.

    The bar appears with the first store that has records to restore, and stays on the screen when the last is done.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._total: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._open: set[TopicPartition] = set()
        self._shown: Progress | None = None
        self._bar: TaskID | None = None
        self._closing = ExitStack()

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        with self._lock:
            if not self._open:
                self._total.clear()
                self._done.clear()
            self._open.add(partition)
            self._total[partition] = max(0, end - max(start, 0))
            self._done[partition] = 0
            self._draw()

    def on_batch_restored(self, partition: TopicPartition, store: str, end_offset: int, restored: int) -> None:
        with self._lock:
            self._done[partition] = self._done.get(partition, 0) + restored
            self._draw()

    def on_restore_end(self, partition: TopicPartition, store: str, restored: int) -> None:
        with self._lock:
            # control records and records of other transactions have offsets too, and are not counted by anyone
            self._done[partition] = self._total.get(partition, restored)
            self._end(partition)

    def on_restore_suspended(self, partition: TopicPartition, store: str, restored: int) -> None:
        with self._lock:
            self._total[partition] = self._done.get(partition, restored)
            self._end(partition)

    def close(self) -> None:
        """Ends the bar as it is."""
        with self._lock:
            self._open.clear()
            self._closing.close()
            self._shown = None

    def _end(self, partition: TopicPartition) -> None:
        self._open.discard(partition)
        self._draw()
        if not self._open:
            self.close()

    def _draw(self) -> None:
        total, done = sum(self._total.values()), sum(self._done.values())
        changelogs = sum(1 for records in self._total.values() if records)
        if self._shown is None:
            if total == 0:
                return
            self._show(total, changelogs)
        assert self._shown is not None
        assert self._bar is not None
        self._shown.update(self._bar, total=total, completed=min(done, total), changelogs=changelogs)

    def _show(self, total: int, changelogs: int) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        drawn = console(self._stream)
        self._shown = Progress(
            TextColumn("restoring {task.fields[changelogs]} changelogs"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} records"),
            TimeRemainingColumn(compact=True),
            console=drawn,
            redirect_stdout=sys.stdout.isatty(),  # what is written to a pipe has to get there
        )
        self._bar = self._shown.add_task("", total=total, changelogs=changelogs)
        self._closing.enter_context(self._shown)
        drawn.show_cursor(True)  # which a process that is ended hard could not bring back
        self._closing.enter_context(live_view(drawn))
