"""Records that nodes hold back to handle them together, of one task.

A record is held while its node waits for more: until there are enough of them, until the round of processing ends or
the wait is over, and in any case until the next punctuation or commit (semantics 144). So nothing is committed that
waits here, and a task that fails loses nothing: what it held is read again.
"""

from __future__ import annotations

from typing import Any

from processor_api.clock import Clock
from processor_api.context import BatchLimits, HandleTogether, HeldBack, HeldRecord, LookForHeld
from processor_api.record import HeaderList
from state.row_format.record_context import Cursor
from streams.runtime.processing.pace import Pace
from streams.runtime.processing.punctuations import NEVER


class HoldingNode:
    """Holds the records of one node.

    :param handle: takes the records, in order; it calls :meth:`resume`, which it is given, for each before it forwards.
    """

    def __init__(self, node: str, handle: HandleTogether, limits: BatchLimits, cursor: Cursor, clock: Clock) -> None:
        self.node = node
        self.limits = limits
        self.due_ms = NEVER
        """When the first record that is held has waited long enough, by the wall clock."""
        self._handle = handle
        self._cursor = cursor
        self._clock = clock
        self._held: list[HeldRecord] = []

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        """Holds the current record back; handles the batch if it is complete."""
        cursor, held, limits = self._cursor, self._held, self.limits
        held.append((key, value, timestamp, headers, cursor.own_message(), cursor.source))
        if len(held) >= limits.max_records:
            self.release()
        elif limits.max_wait_ms is not None and len(held) == 1:
            self.due_ms = self._clock.time_ms() + limits.max_wait_ms

    def resume(self, record: HeldRecord) -> None:
        """Makes a record that was held the current one."""
        cursor = self._cursor
        _, _, cursor.timestamp, cursor.headers, cursor.message, cursor.source = record

    def release(self) -> None:
        """Handles what is held; the current record is the same afterwards."""
        held, self._held, self.due_ms = self._held, [], NEVER
        if not held:
            return
        cursor = self._cursor
        saved = cursor.message, cursor.source, cursor.timestamp, cursor.headers
        try:
            self._handle(held, self.resume)
        finally:
            cursor.message, cursor.source, cursor.timestamp, cursor.headers = saved


class HeldResults:
    """Knows the operators of one task that hold results back in stores until its stream time advances."""

    def __init__(self) -> None:
        self._looks: dict[str, tuple[str, LookForHeld]] = {}
        self.latest: tuple[tuple[str, HeldBack], ...] = ()
        """The results that the thread of the task has found last; any thread may read it."""

    def __bool__(self) -> bool:
        return bool(self._looks)

    def add(self, node: str, store: str, look: LookForHeld) -> None:
        """Adds the look into a store; nodes come children first, and the first parent is kept."""
        self._looks.pop(store, None)
        self._looks[store] = node, look

    def clear(self) -> None:
        """Forgets the operators."""
        self._looks.clear()
        self.latest = ()

    def find(self, most: int | None = None) -> tuple[tuple[str, HeldBack], ...]:
        """Returns the nodes that hold something back, with what they hold; for the thread of the task.

        :param most: how many rows are read of a store, about.
        """
        found = [(node, look(most)) for node, look in reversed(self._looks.values())]
        self.latest = tuple((node, held) for node, held in found if held is not None)
        return self.latest


class HeldRecords:
    """The records that the nodes of one task hold back.

    :param pace: records how long batches take; ``None`` where nothing but processing is ever due.
    """

    def __init__(self, task: str, clock: Clock, pace: Pace | None) -> None:
        self._task = task
        self._now = clock.monotonic
        self._pace = pace
        self._nodes: list[HoldingNode] = []

    def add(self, node: HoldingNode) -> None:
        """Adds a node; nodes come children first."""
        self._nodes.insert(0, node)  # what one forwards may be held by a later one

    def clear(self) -> None:
        """Forgets the nodes, and what they hold."""
        self._nodes.clear()

    def __len__(self) -> int:
        return sum(map(len, self._nodes))

    @property
    def due_ms(self) -> int:
        """The wall-clock time at which a node has waited long enough; :data:`NEVER` if none waits for it."""
        return min((node.due_ms for node in self._nodes), default=NEVER)

    def end_round(self) -> None:
        """Handles what waits only for the end of the round."""
        for node in self._nodes:
            if node and node.limits.max_wait_ms is None:
                self._release(node)

    def release_due(self, now_ms: int) -> bool:
        """Handles what has waited long enough by the wall clock; returns whether there was anything."""
        due = [node for node in self._nodes if node.due_ms <= now_ms]
        for node in due:
            self._release(node)
        return bool(due)

    def release(self) -> None:
        """Handles all that is held."""
        for node in self._nodes:
            if node:
                self._release(node)

    def _release(self, node: HoldingNode) -> None:
        begin, pace = self._now(), self._pace
        node.release()
        if pace is not None:
            place = {"node": node.node, "task": self._task}
            pace.calls.record(self._now() - begin, f"a batch of node {node.node!r}", place)
