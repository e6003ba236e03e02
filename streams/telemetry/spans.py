"""The spans of one task: reading a record, the nodes that users name, what waited, and sending (semantics 180).

They are the task's `Probe`. A record has spans if the trace that it comes with, in its header ``traceparent`` (W3C), is
sampled, or if it has no trace and is one of the share ``otel.traces``. All others pass the functions here after one
comparison, and OpenTelemetry is not asked about them.

A record carries its headers along, so the trace continues too. Where they do not, as in caches and buffers, the traces
of the records that wait are remembered beside it, by store and key (docs/decisions/command-line-and-settings.md,
"Traces of buffered records are saved apart from the rows"). This room is the only one that imports OpenTelemetry, and
nothing imports the room unless the setting is there.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from processor_api.context import HandleTogether, HeldRecord
from processor_api.record import Forward, HeaderList
from processor_api.texts import error_text, repr_of
from processor_api.topology.nodes import Node, SinkNode, SourceNode
from state.row_format.record_context import Cursor
from state.write_buffer.store_kind import OpenStore
from streams.kafka.producing.record_collector import Changelog
from streams.runtime.processing.probe import LogFunctions, RecordWatch
from streams.version import __version__

if TYPE_CHECKING:
    from streams.config import StreamsConfig

log = logging.getLogger("streams.telemetry")

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_SEND = {"messaging.system": "kafka", "messaging.operation.type": "send", "messaging.operation.name": "send"}
WHOLE = 1_000_000_000
"""The share of all records, as it is counted: floats would lose a part of a record."""
WAITING_MAX = 10_000
"""Keys in caches and buffers, and records that are held, of which the traces are remembered."""
LINKS_MAX = 32
"""Traces of one result that are remembered."""
_GENERATED = re.compile(r"-\d{10}(?!\d)")
_FLAGS = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-([0-9a-f]{2})(?:-|$)")
_W3C = TraceContextTextMapPropagator()

Headers = HeaderList | None


def last_header(headers: HeaderList, key: str) -> bytes | None:
    """Returns the data of the last header with a name, empty ones for null; ``None`` if there is none."""
    return next((data or b"" for name, data in reversed(headers) if name == key), None)


class _Headers(Getter[HeaderList], Setter[HeaderList]):
    """Reads and writes the headers of records for a propagator."""

    def get(self, carrier: HeaderList, key: str) -> list[str] | None:
        # The last one counts: a service that passes a record on may add its own without removing those before.
        found = last_header(carrier, key)
        return None if found is None else [found.decode("latin-1")]

    def keys(self, carrier: HeaderList) -> list[str]:
        return [name for name, _ in carrier]

    def set(self, carrier: HeaderList, key: str, value: str) -> None:
        carrier.append((key, value.encode()))


_HEADERS = _Headers()


def with_trace(headers: Headers) -> HeaderList:
    """Returns headers with the current span as their trace, instead of the one that they had."""
    kept = [one for one in headers or () if one[0] not in (TRACEPARENT, TRACESTATE)]
    _W3C.inject(kept, setter=_HEADERS)
    return kept


def is_sampled(traceparent: bytes | None) -> bool | None:
    """Returns whether a trace is sampled; ``None`` for a header that is none."""
    found = _FLAGS.match(traceparent or b"")
    return None if found is None else bool(int(found[1], 16) & 1)


def watch_of(config: StreamsConfig, share: float) -> RecordWatch:
    """Returns what makes the spans of an application.

    :param share: of the records without a trace that get spans; none do where the user's sampler begins no trace,
        which need not be asked for each record.
    """
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        log.warning(
            "otel.traces is set, and no tracer provider is: no span is exported. Set one, or start the application by"
            " opentelemetry-instrument"
        )
    sampler = getattr(provider, "sampler", None)
    if sampler is not None and re.match(r"(ParentBased\{root:)?AlwaysOffSampler", sampler.get_description()):
        share = 0.0
    tracer = provider.get_tracer("streams", __version__)
    return RecordWatch(partial(TaskSpans, tracer, share, config.application_id), partial(_sending, tracer))


def _sending(tracer: trace.Tracer, produce: Callable[..., None]) -> Callable[..., None]:
    """Returns a ``produce`` that makes the span of sending for a record with a trace: the header names that span.

    A record that has spans has this header from its source on, so that others need no look.
    """

    def produce_in_span(
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        delivered: Any,
        none: None,
        timestamp: int,
        headers: Headers = None,
    ) -> None:
        if headers and any(name == TRACEPARENT for name, _ in headers) and trace.get_current_span().is_recording():
            attributes = {**_SEND, "messaging.destination.name": topic}
            with tracer.start_as_current_span(f"send {topic}", None, SpanKind.PRODUCER, attributes):
                headers = with_trace(headers)
                produce(topic, value, key, partition, delivered, none, timestamp, headers)
            return
        produce(topic, value, key, partition, delivered, none, timestamp, headers)

    return produce_in_span


class _WaitingTraces:
    """The traces of records that wait in caches and buffers, or are held back, by where they wait.

    They are limited: what is beyond continues without a trace, the oldest first.
    """

    def __init__(self) -> None:
        self.found: OrderedDict[Any, list[SpanContext]] = OrderedDict()

    def add(self, place: Any, span: Span) -> None:
        """Remembers that a record of a trace waits."""
        waiting = self.found.setdefault(_hashable(place), [])
        if len(waiting) < LINKS_MAX and span.get_span_context() not in waiting:
            waiting.append(span.get_span_context())
        if len(self.found) > WAITING_MAX:
            self.found.popitem(last=False)

    def holds(self, place: Any) -> bool:
        """Whether a record of a trace waits."""
        if not self.found:
            return False
        try:
            return place in self.found
        except TypeError:
            return _hashable(place) in self.found

    def take(self, place: Any) -> list[SpanContext]:
        """Returns the traces of what waits no more."""
        return self.found.pop(_hashable(place), [])

    def clear(self) -> None:
        self.found.clear()


class _RowTraces:
    """The traces of the records that put rows, by store and key, for the joins that find these rows.

    They are limited: the row that was put first is forgotten.
    """

    def __init__(self) -> None:
        self.found: OrderedDict[Any, tuple[str, int, SpanContext]] = OrderedDict()

    def put(self, place: Any, node: str, timestamp: int, span: Span | None) -> None:
        """Takes that a node has put a row, or deleted it, for a record with this span, if it has one."""
        place = _hashable(place)
        self.found.pop(place, None)  # a row that is put again is the last to be forgotten
        if span is not None:
            self.found[place] = node, timestamp, span.get_span_context()
            if len(self.found) > WAITING_MAX:
                self.found.popitem(last=False)

    def of(self, place: Any, node: str, timestamp: int) -> SpanContext | None:
        """Returns the trace of a row with this timestamp that another node has put; ``None`` if it is not known."""
        known = self.found.get(_hashable(place))
        return None if known is None or known[0] == node or known[1] != timestamp else known[2]

    def clear(self) -> None:
        self.found.clear()


def _hashable(place: Any) -> Any:
    try:
        hash(place)
    except TypeError:  # a key that is a list or a mapping
        return repr_of(place)
    return place


class TaskSpans:
    """The spans of one task, which are its `Probe`.

    :param share: of the records without a trace that get spans.
    :param application_id: the consumer group, for attributes.
    """

    rows = None

    def __init__(
        self,
        tracer: trace.Tracer,
        share: float,
        application_id: str,
        task: str,
        cursor: Cursor,
        dropped: Callable[[], int],
    ) -> None:
        self._tracer, self._share, self._cursor = tracer, round(share * WHOLE), cursor
        self._number = self._begun = 0
        """The records without a trace that were read, now and before the batch that is read now."""
        self._common = {"messaging.system": "kafka", "messaging.consumer.group.name": application_id}
        self._task = task
        self.current: Span | None = None
        """The innermost span of the current record; ``None`` if it has none."""
        self.waiting = _WaitingTraces()
        self.rows_put = _RowTraces()
        self._stores: dict[str, list[str]] = {}
        """The names of the stores that nodes have."""

    @contextmanager
    def _within(self, span: Span | None) -> Iterator[None]:
        """Makes a span the current one, and ends it; ``None`` leaves the current trace for some time."""
        before, self.current = self.current, span
        made = context.Context() if span is None else trace.set_span_in_context(span)
        token = context.attach(made)
        try:
            yield
        except BaseException as error:
            if span is not None:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, error_text(error)))
            raise
        finally:
            context.detach(token)
            self.current = before
            if span is not None:
                span.end()

    # ------------------------------------------------------------------ nodes

    def node(self, node: Node, call: Forward, *, is_internal: bool, is_below_users: bool) -> Forward:
        """Returns the function of a source, or of a node that users have named, with its span."""
        if isinstance(node, SourceNode):
            return self._source(node.name, call)
        if isinstance(node, SinkNode):
            return self._below_users(call) if is_below_users else call
        name = node.name
        if _GENERATED.search(name):
            return call

        def run_in_span(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if self.current is None:
                return call(key, value, timestamp, headers)
            attributes = {"streams.node": name, "streams.task": self._task}
            if stores := self._stores.get(name):
                attributes["streams.stores"] = ", ".join(stores)
            with self._within(self._tracer.start_span(name, attributes=attributes)):
                call(key, value, timestamp, headers)

        return run_in_span

    def forwards(self, source: str, seen: Forward, plain: Forward, headers: Sequence[Headers]) -> Iterator[Forward]:
        """Returns what takes each record of a batch: a function that makes spans for those that may have some."""
        if any(headers):
            self._begun = -1
            return repeat(seen)
        self._begun = self._number
        if not self._share:
            return repeat(plain)
        return chain.from_iterable(self._chosen(source, plain, len(headers)))

    def _chosen(self, source: str, plain: Forward, records: int) -> Iterator[Iterable[Forward]]:
        """Yields what takes the records of a batch: the share among them, and those between."""
        at, last = self._begun, self._begun + records
        while (chosen := self._next(at)) <= last:
            yield repeat(plain, chosen - at - 1)
            yield (partial(self._read, source, plain),)
            at = chosen
        yield repeat(plain, last - at)

    def _next(self, number: int) -> int:
        """Returns the number of the record after this one that is one of the share."""
        return -(-(number * self._share // WHOLE + 1) * WHOLE // self._share)

    def passed(self, records: int) -> None:
        """Counts the records of a batch that were read."""
        if self._begun >= 0:
            self._number = self._begun + records

    def _source(self, node: str, forward: Forward) -> Forward:
        share = self._share

        def read_in_span(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if not (headers or share):
                return forward(key, value, timestamp, headers)
            follows = None
            if headers:
                for name, data in reversed(headers):
                    if name == TRACEPARENT:
                        follows = is_sampled(data)
                        break
            if follows is None:
                number = self._number = self._number + 1
                if number * share % WHOLE >= share:  # it has not become whole by this record
                    return forward(key, value, timestamp, headers)
            elif not follows:
                return forward(key, value, timestamp, headers)
            self._read(node, forward, key, value, timestamp, headers)

        return read_in_span

    def _read(self, node: str, forward: Forward, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Forwards a record in its span."""
        span = self._reading(node, headers)
        if not span.is_recording():  # the sampler of the user has left it out
            return forward(key, value, timestamp, headers)
        with self._within(span):
            forward(key, value, timestamp, with_trace(headers))

    def _reading(self, node: str, headers: Headers) -> Span:
        topic, partition = self._cursor.source
        attributes = {
            **self._common,
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.destination.name": str(topic),
            "messaging.destination.partition.id": str(partition),
            "messaging.kafka.offset": self._cursor.message.offset(),
            "streams.task": self._task,
            "streams.node": node,
        }
        parent = _W3C.extract(headers or [], context.Context(), _HEADERS)
        return self._tracer.start_span(f"process {topic}", parent, SpanKind.CONSUMER, attributes)

    def _below_users(self, send: Forward) -> Forward:
        """Returns the function of a sink that gets records of which a processor has dropped the headers."""

        def send_with_trace(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if self.current is not None:
                headers = with_trace(headers)
            send(key, value, timestamp, headers)

        return send_with_trace

    def dropped(self, node: str, why: str) -> None:
        """Adds that a node has dropped the current record, and why, to its span."""
        if self.current is not None:
            self.current.add_event("dropped", {"streams.node": node, "streams.reason": why})

    def unread(self, node: str, key: Any, why: str) -> None:
        """Makes the span of a record that was dropped before it reached the nodes, if its trace is sampled."""
        headers = self._cursor.message.headers()
        if headers and is_sampled(last_header(headers, TRACEPARENT)):
            with self._within(self._reading(node, headers)):
                self.dropped(node, why)

    @contextmanager
    def punctuation(self, node: str, now_ms: int) -> Iterator[None]:
        """Makes the span of a punctuation, which begins a trace; a context manager."""
        attributes: dict[str, Any] = {"streams.node": node, "streams.task": self._task, "streams.time": now_ms}
        span = self._tracer.start_span(f"punctuate {node}", context.Context(), attributes=attributes)
        with self._within(span if span.is_recording() else None):
            yield

    # ------------------------------------------------------------------ what waits

    def store(self, node: str, store: OpenStore) -> OpenStore:
        """Returns a store as a node gets it, which remembers the traces of what waits in it."""
        self._stores.setdefault(node, []).append(store.builder.name)
        is_buffer = hasattr(store.operator, "evict_while")
        if store.cached or is_buffer:
            store = replace(store, operator=_WaitingStore(store, node, self))
        # A node that reads what it has put itself is not linked, and no other node reads a store of one node.
        return replace(store, operator=_MetStore(store, node, self)) if store.is_shared and not is_buffer else store

    def met(self, store: str, node: str, key: Any, timestamp: int) -> bool:
        """Links the span of the current record to the trace of a row that its join has found; returns whether it did.

        A row of the same trace needs no link.
        """
        if self.current is None:
            return False
        found = self.rows_put.of((store, key), node, timestamp)
        if found is None or found.trace_id == self.current.get_span_context().trace_id:
            return False
        self.current.add_link(found)
        return True

    def changelog(self, store: str, changelog: Changelog) -> LogFunctions:
        """Returns the functions by which a store logs, as they are: changelogs have no traces."""
        return changelog.log, changelog.log_many

    def later(self, node: str, store: str, key: Any, forward: Callable[..., None], headers: Headers) -> None:
        """Forwards what has waited in a store: in the trace of its record, or linked to those of all its records.

        :param forward: takes the headers.
        """
        traces = self.waiting.take((store, key))
        if not traces:
            with self._within(None):
                return forward(headers)
        parent, links = context.Context(), [Link(one) for one in traces]
        if len(traces) == 1:
            parent, links = trace.set_span_in_context(NonRecordingSpan(traces[0])), []
        attributes = {"streams.node": node, "streams.task": self._task, "streams.stores": store}
        span = self._tracer.start_span(f"release {node}", parent, SpanKind.INTERNAL, attributes, links)
        with self._within(span if span.is_recording() else None):
            forward(with_trace(headers) if span.is_recording() else headers)

    def holding(self, node: str, hold: Forward) -> Forward:
        """Returns the function of a node that holds the current record back, which remembers its trace."""

        def hold_traced(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if self.current is not None:
                self.waiting.add(self._position(node), self.current)
            hold(key, value, timestamp, headers)

        return hold_traced

    def batch(self, node: str, handle: HandleTogether) -> HandleTogether:
        """Returns the function of a node that handles what it held: each record continues in its own trace."""

        def handle_traced(held: list[HeldRecord], resume: Callable[[HeldRecord], None]) -> None:
            tokens: list[Any] = []

            def leave() -> None:
                self.current = None
                if tokens:
                    context.detach(tokens.pop())

            def resume_traced(record: HeldRecord) -> None:
                leave()
                resume(record)
                if traces := self.waiting.take(self._position(node)):
                    self.current = NonRecordingSpan(traces[0])
                    tokens.append(context.attach(trace.set_span_in_context(self.current)))

            with self._within(None):
                try:
                    handle(held, resume_traced)
                finally:
                    leave()

        return handle_traced

    def _position(self, node: str) -> tuple[Any, ...]:
        return (node, *self._cursor.source, self._cursor.message.offset())

    def committed(self) -> None:
        """Does nothing: what waits in buffers outlives a commit."""

    def rolled_back(self) -> None:
        """Forgets what waits and what was put: the records are read again, with their traces."""
        self.waiting.clear()
        self.rows_put.clear()


class _MetStore:
    """A store, as an operator of the DSL gets it, that remembers who put its rows, for the joins that find them.

    An operator that reads what it has put itself, as an aggregation does, continues with its own row, and is not
    linked.
    """

    def __init__(self, store: OpenStore, node: str, spans: TaskSpans) -> None:
        self._operator, self._name, self._node, self._spans = store.operator, store.builder.name, node, spans

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._operator, name)
        if name == "put":
            return self._putting(found)
        if name == "add":
            return self._adding(found)
        if name in ("get", "get_forwarded"):
            return self._getting(found)
        if name == "get_as_of":
            return self._getting_as_of(found)
        return _MetRows(found, self._name, self._node, self._spans) if name == "timed" else found

    def _putting(self, put: Callable[..., Any]) -> Callable[..., Any]:
        spans, name, node = self._spans, self._name, self._node
        known, rows = spans.rows_put.found, spans.rows_put

        def put_traced(key: Any, value: Any, timestamp: int, *headers: Headers) -> Any:
            if known or spans.current is not None:
                rows.put((name, key), node, timestamp, None if value is None else spans.current)
            return put(key, value, timestamp, *headers)

        return put_traced

    def _adding(self, add: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `add` of the store of one side of a join of streams, which has a row for each key and time."""
        spans, name, node = self._spans, self._name, self._node

        def add_traced(key: bytes, time: int, *row: Any) -> Any:
            spans.rows_put.put((name, (key, time)), node, time, spans.current)
            return add(key, time, *row)

        return add_traced

    def _getting(self, get: Callable[..., Any]) -> Callable[..., Any]:
        spans, name, node = self._spans, self._name, self._node

        def get_traced(key: Any) -> Any:
            found = get(key)
            if spans.current is not None and found is not None:
                spans.met(name, node, key, found[1])
            return found

        return get_traced

    def _getting_as_of(self, get: Callable[..., Any]) -> Callable[..., Any]:
        spans, name, node = self._spans, self._name, self._node

        def get_traced(key: Any, as_of: int) -> Any:
            found = get(key, as_of)
            if found is not None and spans.current is not None:
                spans.met(name, node, key, found[1])
            return found

        return get_traced


class _MetRows:
    """The rows of a store of windows, as a join of streams reads them."""

    def __init__(self, rows: Any, name: str, node: str, spans: TaskSpans) -> None:
        self._rows, self._name, self._node, self._spans = rows, name, node, spans

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rows, name)
        return self._finding(found) if name == "find" else found

    def _finding(self, find: Callable[..., Any]) -> Callable[..., Any]:
        spans, name, node = self._spans, self._name, self._node

        def find_traced(key: bytes, *times: int) -> Any:
            found = find(key, *times)
            if spans.current is not None:
                met = (one for one in found if spans.met(name, node, (key, one[1]), one[1]))
                for _ in islice(met, LINKS_MAX):
                    pass
            return found

        return find_traced


class _WaitingStore:
    """A cached store, or a buffer, as an operator of the DSL gets it."""

    def __init__(self, store: OpenStore, node: str, spans: TaskSpans) -> None:
        self._operator, self._name, self._node, self._spans = store.operator, store.builder.name, node, spans

    def __getattr__(self, name: str) -> Any:
        if name == "put":
            is_buffer = hasattr(self._operator, "evict_while")
            return self._buffering() if is_buffer else self._putting()
        return getattr(self._operator, name)

    def _putting(self) -> Callable[..., Any]:
        put, spans, name = self._operator.put, self._spans, self._name

        def put_traced(key: Any, value: Any, timestamp: int, headers: Headers = None) -> Any:
            if spans.current is not None:
                spans.waiting.add((name, key), spans.current)
            return put(key, value, timestamp, headers)

        return put_traced

    def _buffering(self) -> Callable[..., Any]:
        """Returns `put` of a buffer, which may take a time before the key."""
        put, spans, name = self._operator.put, self._spans, self._name

        def put_traced(*args: Any) -> Any:
            if spans.current is not None:
                spans.waiting.add((name, args[-4]), spans.current)
            return put(*args)

        return put_traced

    def on_flush(self, callback: Callable[..., None], *, old_values: bool) -> None:
        """Has a function called with each change that leaves the cache, in its trace."""
        spans, node, name = self._spans, self._node, self._name
        waiting = spans.waiting

        def flush_traced(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
            if spans.current is None and not waiting.holds((name, key)):
                return callback(key, new, old, timestamp, headers)
            spans.later(node, name, key, lambda own: callback(key, new, old, timestamp, own), headers)

        self._operator.on_flush(flush_traced, old_values=old_values)

    def evict_while(self, predicate: Callable[[], bool], callback: Callable[..., None], **how: bool) -> None:
        """Forwards what leaves the buffer, in its trace."""
        spans, node, name = self._spans, self._node, self._name
        waiting = spans.waiting

        def release_traced(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if spans.current is None and not waiting.holds((name, key)):
                return callback(key, value, timestamp, headers)
            spans.later(node, name, key, lambda own: callback(key, value, timestamp, own), headers)

        self._operator.evict_while(predicate, release_traced, **how)
