"""Sends on the results that a record of a task makes due, in parts, before the next record.

One record may make a million results due. Between two parts the thread looks at the clock, so that it can poll and
commit. What is left is no list: it is rows of a store, which a commit holds like all others, so that a task that is
opened again goes on with them.
"""

from __future__ import annotations

from collections.abc import Callable

from streams.runtime.processing.pace import Pace


class Remainders:
    """The operators of one task that have more to send on.

    :param task: its id, for messages.
    :param pace: says when the turn of the task is over; ``None`` where nothing but processing is ever due.
    """

    def __init__(self, task: str, pace: Pace | None) -> None:
        self._task = task
        self._pace = pace
        self._left: dict[Callable[[], bool], None] = {}
        self.meets_again: Callable[[str], bool] = lambda node: False
        """Says whether a record may meet the results of a node by another branch: then none may be left."""

    def __bool__(self) -> bool:
        return bool(self._left)

    def __contains__(self, send: Callable[[], bool]) -> bool:
        return send in self._left

    def add(self, send: Callable[[], bool]) -> None:
        """Has the rest sent on before the next record.

        :param send: sends a part on, and returns whether there is more.
        """
        self._left[send] = None

    def send(self) -> bool:
        """Sends parts on until all is sent, or the turn is over; returns whether all is."""
        pace = self._pace
        while self._left:
            send = next(iter(self._left))
            if pace is not None:
                pace.begin_run()
            if not send():
                self._left.pop(send, None)
            if pace is not None:
                pace.check(1, lambda: ("a part of the results that were due", {"task": self._task}))
                if pace.over:
                    break
        return not self._left

    def clear(self) -> None:
        """Forgets the operators."""
        self._left.clear()
