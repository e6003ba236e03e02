"""Estimates what the nodes of a task do: how many records each is given, how long it takes, and how old they are.

Records enter the nodes at few edges: the inputs, the caches of stores, batches, punctuations. Each edge counts what it
passes on, once for each batch. Now and then a few records of each edge are processed while Python reports each call
(`sys.setprofile`); the functions of nodes are known, so their calls are counted and timed. These records stand for all
that the edge has passed on since. In between nothing is called and nothing is counted: a record costs what it costs
without this (docs/decisions/command-line-and-settings.md, "Node metrics come from a sample of records").
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType, MappingProxyType
from typing import Any, TypeVar

from processor_api.clock import Clock
from processor_api.record import Forward
from state.row_format.record_context import Cursor
from streams.metrics.registry import Metrics
from streams.metrics.stats import Avg, Max, Min
from streams.metrics.windows import SampleWindows

T = TypeVar("T")

SAMPLED_RECORDS = 16
"""The number of records of an edge that are processed while calls are reported."""
MOST_CALLS = 500
"""The most calls of nodes that are reported: one record may make a million."""
MOST_REPORTS = 2_000
"""The most calls and returns of any function that are reported."""


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

    def add(self, found: _NodeCalls, factor: float) -> None:
        """Takes a sample for this many times as much."""
        self.records += found.calls * factor
        self.seconds += found.own_s * factor


class _NodeCalls:
    """The calls of one node in one sample, and their time without that of the nodes below."""

    __slots__ = ("calls", "own_s")

    def __init__(self) -> None:
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


class _Edge:
    """A place where records enter the nodes."""

    __slots__ = ("served", "waiting")

    def __init__(self) -> None:
        self.served = 0
        """How many samples were requested when its last one was taken."""
        self.waiting = 0
        """The records that it has passed on since the last sample."""


class NodeSamples:
    """The samples of one task. Used by the thread of the task."""

    def __init__(self, cursor: Cursor, clock: Clock, metrics: Metrics | None) -> None:
        self.nodes: dict[str, NodeEstimate] = {}
        self.is_due = False
        """Whether the next records of the inputs are sampled."""
        self._cursor, self._clock, self._metrics = cursor, clock, metrics
        self._functions: dict[CodeType, list[_Function]] = {}
        self._sources: dict[str, NodeEstimate] = {}
        self._since = self._requests = 0
        """Records that were processed up to the last sample, and samples that were requested."""
        self._edges: defaultdict[tuple[str, str], _Edge] = defaultdict(_Edge)
        """The edges that are not inputs, by kind and name."""
        self._watch: _Watch | None = None
        """The sample that is being taken."""
        cursor.sent_on = self.changes

    # ------------------------------------------------------------------ the nodes

    def begin(self) -> None:
        """Forgets the functions, since nodes are compiled again; what was estimated remains."""
        self._functions.clear()
        self._sources.clear()
        self._edges.clear()

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
        """Has the next records of each edge sampled."""
        self.is_due = True
        self._requests += 1

    def sample(self) -> None:
        """Samples the estimates, for rates."""
        for node in self.nodes.values():
            if node.windows is not None:
                node.windows.sample()

    # ------------------------------------------------------------------ samples

    def process(self, run: Callable[[], int], before: int) -> int:
        """Processes records of the inputs, and takes them as a sample of those since the last one; returns how many.

        :param before: how many were processed before.
        """
        self.is_due = False
        with self._watched(self._sources) as watch:
            count = run()
            if count:
                watch.stands_for((before + count - self._since) / count)
                self._since = before + count
        return count

    def changes(self, store: str, count: int, changes: Iterator[T], send: Callable[[Iterator[T]], None]) -> None:
        """Passes on the changes that a cache held back, in order; where a sample is due, it is taken of the first.

        :param count: how many changes there are.
        """
        if self._counts("store", store, count):
            some = min(count, SAMPLED_RECORDS)
            with self._sampled("store", store, some):
                send(islice(changes, some))
        with self._unwatched():
            send(changes)

    def together(self, kind: str, name: str, count: int, send: Callable[[], T]) -> T:
        """Passes on records that are handled together; where a sample is due, it is taken of all of them.

        :param kind: what passes them on, such as ``batch``.
        :param name: of the node.
        """
        if self._counts(kind, name, count):
            with self._sampled(kind, name, count):
                return send()
        with self._unwatched():
            return send()

    def _counts(self, kind: str, name: str, count: int) -> bool:
        """Counts what an edge passes on; returns whether it is sampled now."""
        edge = self._edges[kind, name]
        edge.waiting += count
        return edge.served < self._requests and count > 0

    @contextmanager
    def _sampled(self, kind: str, name: str, count: int) -> Iterator[None]:
        edge = self._edges[kind, name]
        edge.served = self._requests
        with self._unwatched(), self._watched() as watch:
            watch.stands_for(edge.waiting / count)
            edge.waiting = 0
            yield

    @contextmanager
    def _watched(self, sources: Mapping[str, NodeEstimate] = MappingProxyType({})) -> Iterator[_Watch]:
        """Takes a sample, and what it stands for.

        :param sources: those that the records come from, if the edge is an input: others were counted when they came.
        """
        watch = _Watch(self._functions, sources, self._cursor, self._clock)
        if sys.getprofile() is not None:  # the user profiles the application
            yield watch
            return
        self._watch = watch
        watch.go_on()
        try:
            yield watch
        finally:
            watch.end()
            self._watch = None

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Leaves what is done out of the sample that is being taken, if there is one: its edge is another one."""
        watch = self._watch
        if watch is None:
            yield
            return
        watch.rest()
        self._watch = None
        try:
            yield
        finally:
            self._watch = watch
            watch.go_on()


class _Stopwatch:
    """Measures a sample without the time that the reports themselves take."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._event_s = _cost_of_event(clock)
        self.reports = 0
        """The calls and returns that were reported since the last lap."""
        self.measured_s = 0.0
        """The time of all laps."""
        self._last = self._now()

    def begin(self) -> None:
        """Begins a lap: what was done before it does not count."""
        self._last, self.reports = self._now(), 0

    def lap(self) -> float:
        """Ends a lap and begins the next one; returns the seconds of the lap."""
        now = self._now()
        seconds = now - self._last - self.reports * self._event_s
        self._last, self.reports = now, 0
        self.measured_s += seconds
        return seconds


class _Watch:
    """Counts and times the calls of nodes while one sample is taken."""

    def __init__(
        self,
        functions: dict[CodeType, list[_Function]],
        sources: Mapping[str, NodeEstimate],
        cursor: Cursor,
        clock: Clock,
    ) -> None:
        self._time = _Stopwatch(clock)
        self._functions, self._sources, self._cursor = functions, sources, cursor
        self._time_ms = clock.time_ms
        self._found: defaultdict[NodeEstimate, _NodeCalls] = defaultdict(_NodeCalls)
        self._running: list[tuple[FrameType, _NodeCalls]] = []
        self._message: Any = None
        self._calls = self._reports = 0
        self._times = 0.0
        self._reported_s: float | None = None
        """The time of what was reported, once no more is."""

    # ------------------------------------------------------------------ from begin to end

    def go_on(self) -> None:
        """Begins, or begins again after :meth:`rest`."""
        self._time.begin()
        if self._reported_s is None:
            sys.setprofile(self.event)

    def rest(self) -> None:
        """Leaves out what is done from now on."""
        sys.setprofile(None)
        self._pass_time()

    def end(self) -> None:
        """Ends the sample, and adds it to what is estimated."""
        self.rest()
        for node, found in self._found.items():
            node.add(found, self._factor())

    def stands_for(self, times: float) -> None:
        """Takes that the records of the sample stand for this many times as many."""
        self._times = times

    def _factor(self) -> float:
        """Returns for how many times as much the calls stand that were reported: none, if that was not told because
        the sample has failed. What was not reported is estimated by the time that it took."""
        if self._reported_s is None:
            return self._times
        return self._times * max(1.0, self._time.measured_s / self._reported_s if self._reported_s > 0 else 1.0)

    # ------------------------------------------------------------------ calls

    def event(self, frame: FrameType, kind: str, _: Any) -> None:
        """Takes a call or a return; for `sys.setprofile`."""
        self._time.reports += 1
        self._reports += 1
        if kind == "call":
            found = self._functions.get(frame.f_code)
            if found is not None:
                self._called(frame, found)
        elif kind == "return" and self._running and self._running[-1][0] is frame:
            self._pass_time()
            self._running.pop()
        if self._reports >= MOST_REPORTS or self._calls >= MOST_CALLS:
            self._cut()

    def _cut(self) -> None:
        sys.setprofile(None)
        self._pass_time()
        self._running.clear()
        self._reported_s = self._time.measured_s

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
            self._found[one.node].calls += 1
            timestamp = names.get(one.timestamp or "")
            if one.node.latencies is not None and isinstance(timestamp, int):
                one.node.latencies.record(now_ms - timestamp, now_ms)
        self._running.append((frame, self._found[found[-1].node]))
        self._calls += 1

    def _read(self, cursor: Cursor, now_ms: int) -> None:
        source = self._sources.get(cursor.source[0] or "")
        if source is not None:
            self._found[source].calls += 1
            if source.latencies is not None:
                source.latencies.record(now_ms - cursor.timestamp, now_ms)

    def _pass_time(self) -> None:
        """Gives the time since the last call or return to the node that was running."""
        seconds = self._time.lap()
        if self._running and seconds > 0:
            self._running[-1][1].own_s += seconds


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
