"""Follows records through one task: made with it, and asked for the functions that take the place of its own.

A record is followed from its source on, or from the first node or store at which its key is one of those to follow.
Everything that happens until the source's call returns belongs to it; what waits in a buffer is remembered until it is
logged or forwarded (:mod:`streams.runtime.tracing.store_trace`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import Any

from processor_api.context import HandleTogether, HeldRecord
from processor_api.record import Forward, HeaderList
from processor_api.texts import MOST_VALUE, kind_and_text, shown
from processor_api.topology.nodes import Node, SinkNode, SourceNode
from state.row_format.record_context import NO_SOURCE, Cursor
from streams.runtime.processing.probe import ProbeMaker
from streams.runtime.tracing.store_trace import StoreTrace
from streams.runtime.tracing.tracer import Followed, Tracer

HEADER = "streams.trace"
"""The header of followed records in repartition topics, which says what they are followed as. It is taken off where the
topic is read (docs/decisions/command-line-and-settings.md, "Record traces cost nothing when they are off")."""


class _Read:
    """The current record, as its source read it."""

    __slots__ = ("at", "followed", "key", "message", "node", "place", "value")

    def __init__(self, node: str, place: str, message: Any, key: Any, value: Any, at: float) -> None:
        self.node = node
        self.place = place
        self.message = message
        self.key = key
        self.value = value
        self.at = at
        self.followed: Followed | None = None


def traced_by(tracer: Tracer | None) -> ProbeMaker | None:
    """Returns what makes the probe of each task of a thread, if it follows records."""
    return None if tracer is None else partial(TaskTrace, tracer)


class TaskTrace:
    """The trace of one task, which is its `Probe`.

    :param dropped: how many records the task has dropped.
    """

    def __init__(self, tracer: Tracer, task: str, cursor: Cursor, dropped: Callable[[], int]) -> None:
        self.tracer = tracer
        self.task = task
        self._cursor = cursor
        self._dropped = dropped
        self._read: _Read | None = None
        self._punctuation: str | None = None
        self._uncommitted: dict[int, Followed] = {}
        self._held: dict[str, Followed] = {}
        """The followed records that nodes hold back, by where they came from."""
        self.rows = StoreTrace(tracer, self.begin_at_key, self._position, dropped)
        self.store, self.changelog = self.rows.store, self.rows.changelog

    # ------------------------------------------------------------------ which records

    def _position(self) -> str:
        """Returns where the current record came from, which is its id unless it is followed under another name."""
        topic, partition = self._cursor.source
        if topic is not None:
            return f"{topic}-{partition}@{self._cursor.message.offset()}"
        return self._punctuation or f"no-record-{self.task}"

    def _begin(self, id_: str, at: float) -> Followed:
        followed = Followed(id_, self.task, at)
        self._uncommitted[id(followed)] = followed
        return followed

    def begin_at_key(self, key: Any) -> Followed | None:
        """Returns the current record, followed from here on, if a rule says so for this key, which a node or a store
        got."""
        rules = self.tracer.rules
        if not rules.by_key or not rules.has_key(key) or not rules.has_topic(self._cursor.source[0]):
            return None
        read = self._read
        if read is None or read.message is not self._cursor.message:  # a punctuation, or a change that waited
            return self._begin(self._position(), self.tracer.now())
        if read.followed is None:
            self._begin_read(read, self._position(), "")
        return read.followed

    def _begin_read(self, read: _Read, id_: str, note: str) -> None:
        read.followed = followed = self._begin(id_, read.at)
        notes = f"timestamp {int(self._cursor.message.timestamp()[1])}", note
        self.tracer.step(
            followed,
            "read",
            place=read.place,
            key=read.key,
            value=read.value,
            note=", ".join(filter(None, notes)),
            at=read.at,
            node=read.node,
        )

    # ------------------------------------------------------------------ nodes

    def node(self, node: Node, call: Forward, *, is_internal: bool, is_below_users: bool) -> Forward:
        """Returns the function of a node, with lines for the records that are followed."""
        if isinstance(node, SourceNode):
            return self._source(node.name, call, is_internal)
        tracer, name, is_sink = self.tracer, node.name, isinstance(node, SinkNode)

        def run_traced(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            parent, followed = tracer.node, tracer.current
            tracer.outcomes += 1  # of the parent: it forwarded
            if followed is None:
                followed = self.begin_at_key(key)
            with tracer.at(followed, name):
                if followed is None:
                    call(key, value, timestamp, headers)
                    return
                if is_sink:
                    tracer.sink = key, value
                    if is_internal:  # the record is followed on at the other side
                        headers = [*(headers or ()), (HEADER, followed.id.encode())]
                else:
                    note = f"from {parent}" if parent is not None else ""
                    tracer.step(followed, "process", key=key, value=value, note=note)
                try:
                    self._run(followed, call, key, value, timestamp, headers)
                finally:
                    tracer.sink = None

        return run_traced

    def forwards(
        self, source: str, seen: Forward, plain: Forward, headers: Sequence[HeaderList | None]
    ) -> Iterator[Forward]:
        """Returns what sees each record: rules choose records by their keys, and count them."""
        return repeat(seen)

    def passed(self, records: int) -> None:
        """Does nothing: records are counted when they are seen."""

    def _source(self, node: str, forward: Forward, is_internal: bool) -> Forward:
        tracer, cursor, rules = self.tracer, self._cursor, self.tracer.rules

        def read_traced(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            topic, id_ = cursor.source[0], None
            if is_internal and headers:
                id_, headers = _split(headers)
            self.rows.take_over()
            self._read = read = _Read(node, self._position(), cursor.message, key, value, tracer.now())
            if id_ is not None:
                self._begin_read(read, id_, "continued from the other side of this topic")
            elif rules.has_topic(topic) and (
                rules.has_key(key) if rules.by_key else rules.takes_next(topic, internal=is_internal)
            ):
                self._begin_read(read, read.place, "")
            with tracer.at(read.followed, node):
                forward(key, value, timestamp, headers)

        return read_traced

    def _run(
        self, followed: Followed, function: Forward, key: Any, value: Any, timestamp: int, headers: HeaderList | None
    ) -> None:
        """Runs a node for a followed record, and says so if nothing comes of it."""
        tracer = self.tracer
        outcomes, dropped = tracer.outcomes, self._dropped()
        self.rows.waits = ""
        try:
            function(key, value, timestamp, headers)
        except BaseException as error:
            self._failed(followed, error)
            raise
        if tracer.outcomes != outcomes:
            return
        if self._dropped() != dropped:
            tracer.step(followed, "drop", note="dropped, and counted in dropped-records")
            return
        note = "forwarded nothing"
        if self.rows.waits:
            note += f" yet, waits in the cache of {self.rows.waits}"
        tracer.step(followed, "stop", note=note)

    def _failed(self, followed: Followed, error: BaseException) -> None:
        tracer = self.tracer
        if tracer.failure is not error:
            tracer.failure = error
            tracer.step(followed, "fail", note=_why(error))

    def dropped(self, node: str, why: str) -> None:
        """Adds the line of a node that has dropped the current record."""
        tracer = self.tracer
        if tracer.current is not None:
            tracer.outcomes += 1
            tracer.step(tracer.current, "drop", note=shown(why, MOST_VALUE), node=node)

    def unread(self, node: str, key: Any, why: str) -> None:
        """Adds the lines of a record that was dropped before it reached the nodes."""
        rules, tracer, topic, message = self.tracer.rules, self.tracer, self._cursor.source[0], self._cursor.message
        if rules.has_topic(topic) and (rules.has_key(key) if rules.by_key else rules.takes_next(topic)):
            place = self._position()
            followed = self._begin(place, tracer.now())
            raw_key, raw_value = message.key(), message.value()
            tracer.step(followed, "read", place=place, key=raw_key, value=raw_value, node=node)
            tracer.step(followed, "drop", note=shown(why, MOST_VALUE), node=node)

    def holding(self, node: str, hold: Forward) -> Forward:
        """Returns the function of a node that holds the current record back, with a line for it."""
        tracer = self.tracer

        def hold_traced(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if tracer.current is not None:
                self._held[self._position()] = tracer.current
                tracer.outcomes += 1
                tracer.step(tracer.current, "hold", note="waits for its batch", node=node)
            hold(key, value, timestamp, headers)

        return hold_traced

    def batch(self, node: str, handle: HandleTogether) -> HandleTogether:
        """Returns the function of a node that handles what it held, each record followed as it was."""
        tracer = self.tracer

        def handle_traced(held: list[HeldRecord], resume: Callable[[HeldRecord], None]) -> None:
            def resume_traced(record: HeldRecord) -> None:
                resume(record)
                tracer.current, tracer.node = self._held.get(self._position()), node

            with tracer.at(None, node):
                handle(held, resume_traced)

        return handle_traced

    # ------------------------------------------------------------------ punctuations and commits

    @contextmanager
    def punctuation(self, node: str, now_ms: int) -> Iterator[None]:
        """Marks the steps within as those of a punctuation; a context manager."""
        tracer = self.tracer
        self.rows.take_over()
        self._read, self._punctuation = None, f"punctuation-{node}@{now_ms}"
        followed = None
        if tracer.rules.takes_next(NO_SOURCE[0]):
            followed = self._begin(self._punctuation, tracer.now())
            tracer.step(followed, "punctuate", node=node, note=f"at {now_ms}")
        try:
            with tracer.at(followed, node):
                yield
        except BaseException as error:
            if followed is not None:
                self._failed(followed, error)
                tracer.failure = None
            raise
        finally:
            self._punctuation = None

    def committed(self) -> None:
        """Adds the line of a commit that has succeeded."""
        self._end("commit", "")

    def rolled_back(self) -> None:
        """Adds the line of a rollback to the last commit."""
        self._end("rollback", "not committed: the record is read again, here or by another task")
        self.rows.forget()

    def _end(self, step: str, note: str) -> None:
        for followed in self._uncommitted.values():
            self.tracer.step(followed, step, note=note)
        self._uncommitted.clear()
        self._held.clear()
        self._read = self.tracer.failure = None
        self.rows.committed()


def _split(headers: HeaderList) -> tuple[str | None, HeaderList | None]:
    """Returns the id under which a record is followed, and the headers that are its own."""
    found = [value for name, value in headers if name == HEADER]
    if not found:
        return None, headers
    rest = [header for header in headers if header[0] != HEADER]
    return shown((found[-1] or b"").decode(errors="replace"), MOST_VALUE), rest or None


def _why(error: BaseException) -> str:
    return shown(f"{kind_and_text(error)}", MOST_VALUE)
