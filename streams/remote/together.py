"""Gathers single keys that several threads ask for at a time into one request.

A thread that asks while few requests are under way sends its own at once. Those that ask meanwhile wait, and the first
of them sends the keys of all when one of the requests is answered: so the more threads ask, the fewer requests there
are for each key, and one thread alone never waits. A key is never joined to a request that was sent before it was
asked for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from processor_api.errors import RetryableError, StreamsError

MOST_AT_A_TIME = 2
"""Requests of single keys of one store that are under way at a time."""
MOST_TOGETHER = 500
"""Keys of one request; a worker takes 1000."""

Fields = dict[str, Any]
"""A row, or what is said of a key that is not there, as an object of JSON."""


class _Asked:
    """One key that a thread waits for."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.found: Fields | None = None
        self.sends = False
        """Whether its thread sends the next request."""
        self.signal = threading.Lock()
        """Free when the key was asked for, or its thread is to send."""
        self.signal.acquire()


class Together:
    """The reads of single keys of one store on the same terms; any thread may call.

    :param alone: asks for one key until there is an answer, or raises what is to be raised.
    :param once: asks for some keys once, and returns a row for each, in their order.
    """

    def __init__(self, alone: Callable[[Any], Fields], once: Callable[[Sequence[Any]], list[Fields]]) -> None:
        self._alone = alone
        self._once = once
        self._lock = threading.Lock()
        self._waiting: deque[_Asked] = deque()
        self._under_way = 0

    def row(self, key: Any) -> Fields:
        """Returns the row of a key, or what is said of one that is not there.

        A request for several keys that fails says nothing of each of them: then each thread asks for its own. Nor does
        a thread hold up others while it waits for a partition that moves.
        """
        asked = _Asked(key)
        try:
            with self._lock:
                if self._under_way < MOST_AT_A_TIME:
                    asked.sends = True
                    self._under_way += 1
                else:
                    self._waiting.append(asked)
            if not asked.sends:
                asked.signal.acquire()
            if asked.sends:
                self._send(asked)
        finally:  # also after an interrupt: no thread would send for those that wait otherwise
            self._leave(asked)
        return self._alone(key) if asked.found is None else asked.found

    def _send(self, own: _Asked) -> None:
        with self._lock:
            others = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER - 1))]
        try:
            all_ = [own, *others]
            found = self._once([one.key for one in all_])
            if len(found) == len(all_):
                for one, row in zip(all_, found, strict=True):
                    one.found = row
        except StreamsError as error:  # of one key or its partition: each thread determines for itself of which
            if not others and not isinstance(error, RetryableError):
                raise
        finally:
            for one in others:
                one.signal.release()

    def _leave(self, asked: _Asked) -> None:
        with self._lock:
            if asked in self._waiting:
                self._waiting.remove(asked)
            if not asked.sends:
                return
            asked.sends = False
            if not self._waiting:
                self._under_way -= 1
                return
            following = self._waiting.popleft()
            following.sends = True
        following.signal.release()
