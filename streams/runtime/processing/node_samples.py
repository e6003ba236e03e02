"""Estimates what the nodes of a task do: how many records each is given, how long it takes, and how old they are.

Now and then some records are processed while Python reports each call (`sys.setprofile`). The functions of nodes are
known, so their calls are counted and timed. In between nothing is called and nothing is counted: a record costs what it
costs without this (docs/decisions/command-line-and-settings.md, "Node metrics come from a sample of records").
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from processor_api.clock import Clock
from processor_api.record import Forward
from state.row_format.record_context import Cursor
from streams.metrics.registry import Metrics
from streams.metrics.stats import Avg, Max, Min
from streams.metrics.windows import SampleWindows

SAMPLED_RECORDS = 16
"""The number of records that are processed while calls are reported."""
MOST_CALLS = 500
"""The most calls of nodes that are reported: one record, or a drain, may make a million."""
MOST_REPORTS = 5_000
"""The most calls and returns of any function that are reported: a drain of a cache calls few nodes and much else."""


class Latencies:
    """Keeps the end-to-end latencies of a node (KIP-613), in ms: the age of records when they are there."""

    def __init__(self, clock: Clock, metrics: Metrics | None) -> None:
        self._now_ms = clock.time_ms
        self.avg, self.least, self.largest = Avg(), Min(), Max()
        if metrics is not None:
            metrics.sampled_as_configured(self.avg, self.least, self.largest)

    def record(self, latency_ms: float, now_ms: int) -> None:
        """Adds a record."""
        for stat in (self.avg, self.least, self.largest):
            stat.record(latency_ms, now_ms)

    def measure(self, stat: Avg | Min | Max) -> float:
        """Returns a statistic as it is now."""
        return stat.measure(self._now_ms())


class NodeEstimate:
    """Holds what is estimated of one node; written by the thread of the task, read by any."""

    def __init__(self, name: str, metrics: Metrics | None) -> None:
        self.name = name
        self.records = 0.0
        """The records that it was given."""
        self.seconds = 0.0
        """The time that it took, without that of the nodes below."""
        self.is_source = False
        self.latencies: Latencies | None = None
        """Those of sources and of nodes without children; ``None`` for others."""
        self.windows: SampleWindows | None = None
        if metrics is not None:
            self.windows = metrics.windows(self, ("records", "seconds"))
        self.calls = 0
        """Calls in the sample that is taken now,"""
        self.own_s = 0.0
        """and the time of those."""

    def took(self, seconds: float) -> None:
        """Adds time of the sample."""
        if seconds > 0:
            self.own_s += seconds

    def apply(self, factor: float) -> None:
        """Takes a sample for this many times as much."""
        self.records += self.calls * factor
        self.seconds += self.own_s * factor
        self.calls, self.own_s = 0, 0.0


@dataclass(frozen=True)
class _Function:
    """The function of a node, as a frame shows it: functions of one definition differ in what they refer to."""

    node: NodeEstimate
    refers_to: tuple[tuple[str, int], ...]
    """The names and identities of the functions that it refers to."""
    timestamp: str | None
    """The name of its third argument."""

    @classmethod
    def of(cls, node: NodeEstimate, function: Any) -> _Function:
        code, refers_to = function.__code__, []
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # it is not set yet
                if callable(cell.cell_contents):
                    refers_to.append((name, id(cell.cell_contents)))
        return cls(node, tuple(refers_to), code.co_varnames[2] if code.co_argcount > 2 else None)

    def runs_in(self, names: dict[str, Any]) -> bool:
        return all(id(names.get(name)) == content for name, content in self.refers_to)


class NodeSamples:
    """The samples of one task. Used by the thread of the task."""

    def __init__(self, cursor: Cursor, clock: Clock, metrics: Metrics | None) -> None:
        self.nodes: dict[str, NodeEstimate] = {}
        self.is_due = self.is_drain_due = False
        """Whether the next records, and the next drain, are sampled."""
        self._cursor, self._clock, self._metrics = cursor, clock, metrics
        self._functions: dict[CodeType, list[_Function]] = {}
        self._sources: dict[str, NodeEstimate] = {}
        self._since = 0
        """Records that were processed up to the last sample."""
        self._drained_s = 0.0
        """The time of drains since the last one that was sampled."""

    # ------------------------------------------------------------------ the nodes

    def begin(self) -> None:
        """Forgets the functions, since nodes are compiled again; what was estimated remains."""
        self._functions.clear()
        self._sources.clear()

    def add(self, name: str, function: Forward, *, is_terminal: bool) -> None:
        """Adds the function of a node.

        :param is_terminal: whether no node is below it.
        """
        node = self._node(name, has_latency=is_terminal)
        code = getattr(function, "__code__", None)
        if code is not None:
            self._functions.setdefault(code, []).append(_Function.of(node, function))

    def add_source(self, name: str, topic: str) -> None:
        """Adds the source of a topic, which has no function of its own."""
        self._sources[topic] = self._node(name, has_latency=True)
        self._sources[topic].is_source = True

    def _node(self, name: str, *, has_latency: bool) -> NodeEstimate:
        if name not in self.nodes:
            self.nodes[name] = NodeEstimate(name, self._metrics)
        if has_latency and self.nodes[name].latencies is None:
            self.nodes[name].latencies = Latencies(self._clock, self._metrics)
        return self.nodes[name]

    def request(self) -> None:
        """Has the next records and the next drain sampled."""
        self.is_due = self.is_drain_due = True

    def sample(self) -> None:
        """Samples the estimates, for rates."""
        for node in self.nodes.values():
            if node.windows is not None:
                node.windows.sample()

    # ------------------------------------------------------------------ samples

    def process(self, run: Callable[[], int], before: int) -> int:
        """Processes records, and takes them as a sample of those since the last one; returns how many.

        :param before: how many were processed before.
        """
        self.is_due = False
        with self._watched() as watch:
            count = run()
        if count:
            self._apply(watch.time.factor() * (before + count - self._since) / count)
            self._since = before + count
        return count

    def drain(self, run: Callable[[], None]) -> None:
        """Sends on what caches and nodes hold back; where a sample is due, takes it for all since the last one."""
        now = self._clock.monotonic
        begin = now()
        if not self.is_drain_due:
            run()
            self._drained_s += now() - begin
            return
        self.is_drain_due = False
        with self._watched() as watch:
            run()
        took_s = watch.time.took_s()
        self._apply(watch.time.factor() * ((took_s + self._drained_s) / took_s if took_s > 0 else 1.0))
        self._drained_s = 0.0

    @contextmanager
    def _watched(self) -> Iterator[_Watch]:
        watch = _Watch(self._functions, self._sources, self._cursor, self._clock)
        if sys.getprofile() is not None:  # the user profiles the application
            yield watch
            return
        sys.setprofile(watch.event)
        try:
            yield watch
        finally:
            sys.setprofile(None)
            watch.time.end()

    def _apply(self, factor: float) -> None:
        for node in self.nodes.values():
            node.apply(factor)


class _Stopwatch:
    """Measures a sample without the time that the reports themselves take."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._event_s = _cost_of_event(clock)
        self.reports = 0
        """The calls and returns that were reported since the last lap."""
        self._all_reports = 0
        self._begin = self._last = self._now()
        self._cut: float | None = None
        self._ended = self._begin

    def lap(self) -> float:
        """Returns the seconds since the last lap."""
        now = self._now()
        seconds = now - self._last - self.reports * self._event_s
        self._all_reports += self.reports
        self._last, self.reports = now, 0
        return seconds

    def cut(self) -> None:
        """Notes that no more is reported, though more is done."""
        self._cut = self._now()

    def end(self) -> None:
        """Notes that all is done."""
        self._ended = self._now()

    def took_s(self) -> float:
        """Returns how long all of it took."""
        return max(0.0, self._ended - self._begin - self._all_reports * self._event_s)

    def factor(self) -> float:
        """Returns by how much more was done than was reported, by the time that it took."""
        if self._cut is None:
            return 1.0
        reported_s = self._cut - self._begin - self._all_reports * self._event_s
        return max(1.0, self.took_s() / reported_s) if reported_s > 0 else 1.0


class _Watch:
    """Counts and times the calls of nodes while one sample is taken."""

    def __init__(
        self,
        functions: dict[CodeType, list[_Function]],
        sources: dict[str, NodeEstimate],
        cursor: Cursor,
        clock: Clock,
    ) -> None:
        self.time = _Stopwatch(clock)
        self._functions, self._sources, self._cursor = functions, sources, cursor
        self._time_ms = clock.time_ms
        self._running: list[tuple[FrameType, NodeEstimate]] = []
        self._message: Any = None
        self._calls = self._reports = 0

    def event(self, frame: FrameType, kind: str, _: Any) -> None:
        """Takes a call or a return; for `sys.setprofile`."""
        self.time.reports += 1
        self._reports += 1
        if kind == "call":
            found = self._functions.get(frame.f_code)
            if found is not None:
                self._called(frame, found)
        elif kind == "return" and self._running and self._running[-1][0] is frame:
            self._pass_time()
            self._running.pop()
        if self._reports >= MOST_REPORTS:
            self._cut()

    def _cut(self) -> None:
        sys.setprofile(None)
        self._pass_time()
        self.time.cut()

    def _called(self, frame: FrameType, functions: list[_Function]) -> None:
        names = frame.f_locals
        found = [one for one in functions if len(functions) == 1 or one.runs_in(names)]
        if not found:
            return
        self._pass_time()
        now_ms, cursor = self._time_ms(), self._cursor
        if not self._running and cursor.message is not self._message:
            self._message = cursor.message
            self._read(cursor, now_ms)
        for one in found:  # several, if a node has the function of the one below as its own
            one.node.calls += 1
            timestamp = names.get(one.timestamp or "")
            if one.node.latencies is not None and isinstance(timestamp, int):
                one.node.latencies.record(now_ms - timestamp, now_ms)
        self._running.append((frame, found[-1].node))
        self._calls += 1
        if self._calls >= MOST_CALLS:
            self._cut()

    def _read(self, cursor: Cursor, now_ms: int) -> None:
        source = self._sources.get(cursor.source[0] or "")
        if source is not None:
            source.calls += 1
            if source.latencies is not None:
                source.latencies.record(now_ms - cursor.timestamp, now_ms)

    def _pass_time(self) -> None:
        """Gives the time since the last call or return to the node that was running."""
        seconds = self.time.lap()
        if self._running:
            self._running[-1][1].took(seconds)


_COSTS: list[float] = []


def _cost_of_event(clock: Clock) -> float:
    """Returns how long the report of one call or return takes, as measured once."""
    if not _COSTS:
        times = 200
        alone = min(_timed(clock, times, None) for _ in range(3))
        watched = min(_timed(clock, times, _seen) for _ in range(3))
        # A call and its return are reported one by one.
        _COSTS.append(max(0.0, watched - alone) / (2 * times))
    return _COSTS[0]


def _seen(frame: FrameType, kind: str, _: Any) -> None:
    # In both: what `_Watch.event` does for a call that is none of a node's.
    if kind == "call":
        _NONE.get(frame.f_code)


_NONE: dict[CodeType, Any] = {}


def _timed(clock: Clock, times: int, profile: Any) -> float:
    def nothing() -> None: ...

    begin = clock.monotonic()
    sys.setprofile(profile)
    for _ in range(times):
        nothing()
    sys.setprofile(None)
    return clock.monotonic() - begin
