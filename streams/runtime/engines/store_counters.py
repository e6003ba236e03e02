"""Counters of one store: of its commits always, of its operations only where ``metrics.recording.level`` is DEBUG.

Each operation is counted, and one in `TIMED_ONE_IN` is timed, since reading the clock twice costs as much as a get. At
other levels nothing stands between a processor and its store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from processor_api.metrics import RecordingLevel
from state.guards.guard import Policy, guarded
from state.write_buffer.iterators import RowIterator
from state.write_buffer.read_counts import ReadCounts
from streams.metrics.registry import Metrics
from streams.metrics.windows import SampleWindows

TIMED_ONE_IN = 16

OPERATIONS = {
    "get": "get",
    "put": "put",
    "put_if_absent": "put-if-absent",
    "put_all": "put-all",
    "delete": "delete",
    "remove": "remove",
    "all": "all",
    "reverse_all": "all",
    "backward_all": "all",
    "range": "range",
    "reverse_range": "range",
    "prefix_scan": "prefix-scan",
    "fetch": "fetch",
    "backward_fetch": "fetch",
    "fetch_range": "fetch",
    "backward_fetch_range": "fetch",
    "fetch_keys": "fetch",
    "backward_fetch_keys": "fetch",
    "fetch_all": "fetch",
    "backward_fetch_all": "fetch",
    "find_sessions": "fetch",
    "backward_find_sessions": "fetch",
    "find_sessions_of_keys": "fetch",
    "backward_find_sessions_of_keys": "fetch",
    "find_sessions_by_end": "fetch",
    "fetch_session": "fetch",
    "versions": "fetch",
    "backward_versions": "fetch",
}
"""The calls of stores, with the name of the operation that each counts as (Kafka Streams' names; for calls that Java
does not have, the nearest). An operator's calls count as those of the same name."""
OPERATOR_CALLS = OPERATIONS | {"get_as_of": "get", "add": "put"}
"""The same, with the calls that only operators make."""
ROW_CALLS = {"find": "fetch", "get_row": "fetch", "find_sessions": "fetch", "put_row": "put", "put": "put"}
"""The calls of operators that read and write rows of windows and sessions (``timed``), and not the store."""


class OperationCounter:
    """Counts one operation of one store. Times are in seconds."""

    def __init__(self, metrics: Metrics) -> None:
        self.calls = self.timed = 0
        self.seconds = self.seconds_max = 0.0
        self.windows = metrics.windows(self, ("calls", "timed", "seconds"), ("seconds_max",))

    def took(self, seconds: float) -> None:
        """Adds a call that was timed."""
        self.timed += 1
        self.seconds += seconds
        if seconds > self.seconds_max:
            self.seconds_max = seconds


class StoreCounters:
    """Counts the commits and operations of one store. Written by its stream thread, read by any.

    :param now: the time in seconds, for durations.
    """

    def __init__(self, metrics: Metrics, now: Callable[[], float]) -> None:
        self._metrics, self._now = metrics, now
        self.commits = 0
        self.commit_s = self.commit_s_max = 0.0
        self.windows = metrics.windows(self, ("commits", "commit_s"), ("commit_s_max",))
        self.operations: dict[str, OperationCounter] = {}
        """The operations that the store has, at DEBUG, by Kafka's names."""
        self.iterators: OperationCounter | None = None
        """The iterators that were closed, with the time that each was open."""
        self._open_since_ms: dict[int, int] = {}
        """When each iterator was opened that is open, by its number."""
        self._opened = 0
        self.reads: ReadCounts | None = None
        """The reads of rows, and those that memory has answered."""
        self.read_windows: SampleWindows | None = None
        if metrics.takes(RecordingLevel.DEBUG):
            self.reads = ReadCounts()
            self.read_windows = metrics.windows(self.reads, ("reads", "hits"))

    def committed(self, seconds: float) -> None:
        """Adds a commit of the engine that holds the store."""
        self.commits += 1
        self.commit_s += seconds
        if seconds > self.commit_s_max:
            self.commit_s_max = seconds

    def sample(self) -> None:
        """Samples the counters, for rates."""
        self.windows.sample()
        for operation in list(self.operations.values()):
            operation.windows.sample()
        if self.iterators is not None:
            self.iterators.windows.sample()
        if self.read_windows is not None:
            self.read_windows.sample()

    @property
    def open_iterators(self) -> int:
        """Iterators that are open."""
        return len(self._open_since_ms)

    def oldest_iterator_ms(self) -> float:
        """Returns when the oldest iterator that is open was opened, in ms since 1970; not a number if none is."""
        return next(iter(self._open_since_ms.copy().values()), math.nan)

    # ------------------------------------------------------------------ operations

    def measured(self, store: Any, calls: Mapping[str, str] = OPERATIONS) -> Any:
        """Returns a store, or its form for operators, whose calls are counted; the same unless the level is DEBUG.

        :param calls: the calls that are counted, with the operations that they count as.
        """
        if not self._metrics.takes(RecordingLevel.DEBUG):
            return store
        if self.iterators is None:
            self.iterators = OperationCounter(self._metrics)
        return guarded(Measured(store, self, calls))

    def counted(self, store: Any, call: str, name: str) -> Callable[..., Any]:
        """Returns a function that counts a call of a store as an operation, and makes it."""
        now = self._now
        counter = self.operations.get(name)
        if counter is None:
            counter = self.operations[name] = OperationCounter(self._metrics)

        def counting(*given: Any, **named: Any) -> Any:
            counter.calls += 1
            if counter.calls % TIMED_ONE_IN != 1:
                found = getattr(store, call)(*given, **named)
            else:
                begin = now()
                found = getattr(store, call)(*given, **named)
                counter.took(now() - begin)
            return self._iterating(found) if isinstance(found, RowIterator) else found

        return counting

    def _iterating(self, rows: RowIterator) -> RowIterator:
        begin, close, iterators = self._now(), rows.close, self.iterators
        assert iterators is not None
        number = self._opened = self._opened + 1
        self._open_since_ms[number] = self._metrics.now_ms()

        def closing() -> None:
            rows.close = close  # type: ignore[method-assign]
            close()
            del self._open_since_ms[number]
            iterators.calls += 1
            iterators.took(self._now() - begin)

        rows.close = closing  # type: ignore[method-assign]
        return rows


class Measured(Policy):
    """Counts the calls of a store that are operations, but not those that the store makes itself."""

    def __init__(self, store: Any, counters: StoreCounters, operations: Mapping[str, str]) -> None:
        super().__init__(store)
        self._counters, self._operations = counters, operations

    def calls(self) -> list[str]:
        store = self.store()
        return [*super().calls(), *(name for name in self._operations if callable(getattr(store, name, None)))]

    def over(self, store: Any) -> Measured:
        return Measured(store, self._counters, self._operations)

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        operation = self._operations.get(name)
        return call if operation is None else self._counters.counted(self.store(), name, operation)

    def attribute(self, name: str) -> Any:
        found = super().attribute(name)
        return _MeasuredRows(found, self._counters) if name == "timed" else found


class _MeasuredRows:
    """Counts the calls by which operators read and write rows of windows and sessions."""

    def __init__(self, rows: Any, counters: StoreCounters) -> None:
        self._rows, self._counters = rows, counters

    def __getattr__(self, name: str) -> Any:
        operation = ROW_CALLS.get(name)
        return getattr(self._rows, name) if operation is None else self._counters.counted(self._rows, name, operation)
