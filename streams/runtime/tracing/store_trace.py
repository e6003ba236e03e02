"""Follows records through the stores of one task: calls of stores, the buffer below them, and their changelogs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import get_ident
from typing import Any

from processor_api.record import HeaderList
from processor_api.texts import MOST_VALUE, kind_and_text, repr_of, shown
from state.guards.guard import Policy, guarded
from state.row_format.row_probe import CACHE, ENGINE, LOGGED, NOWHERE, WAITING, RowAccess
from state.write_buffer.iterators import RowIterator
from state.write_buffer.store_kind import OpenStore
from streams.kafka.producing.record_collector import Changelog
from streams.runtime.processing.probe import LogFunctions
from streams.runtime.tracing.steps import ABSENT, TraceStep, value_text
from streams.runtime.tracing.tracer import Followed, HeldChange, StoreCall, Tracer

BUFFERED_MAX = 10_000
"""Records in buffers of suppressions and joins that are remembered: they may wait for days."""
ROWS_MAX = 100
"""Rows of one iterator that have lines."""

_CHANGES = frozenset(("put", "put_if_absent", "delete", "remove"))
_FROM = {
    WAITING: "from the write buffer, not logged yet",
    LOGGED: "from the write buffer, logged and not committed yet",
    CACHE: "from the cache",
    ENGINE: "from the engine",
    NOWHERE: "not in the store",
}
_SILENT = frozenset(("approximate_num_entries", "close", "commit", "flush", "init", "num_records", "buffer_size"))
_FORMS = frozenset(("without_headers", "without_timestamps"))
_WITH_VALUES = frozenset(("put", "put_if_absent"))


class StoreTrace:
    """The stores of one task, as processors and operators get them, and their rows: a `RowProbe`.

    :param begin_at_key: follows the current record from here on, if a rule says so for a key.
    :param position: where the current record came from.
    :param dropped: how many records the task has dropped.
    """

    def __init__(
        self,
        tracer: Tracer,
        begin_at_key: Callable[[Any], Followed | None],
        position: Callable[[], str],
        dropped: Callable[[], int],
    ) -> None:
        self._tracer = tracer
        self._begin_at_key = begin_at_key
        self._position = position
        self._dropped = dropped
        self._thread = get_ident()
        self.waits = ""
        """The store in whose cache a change waits that was put since this was emptied."""
        self._held: dict[tuple[str, bytes], HeldChange] = {}
        """Puts that are not logged yet, by store and row."""
        self._cached: dict[tuple[str, str], HeldChange] = {}
        """Changes that a cache has not forwarded yet, by store and key."""
        self._buffered: OrderedDict[tuple[str, str], HeldChange] = OrderedDict()
        """Records that wait in buffers of operators, by store and position."""
        self._logged: tuple[HeldChange | None] | None = None
        """Whose row a buffer is logging; ``None`` while none is."""

    def committed(self) -> None:
        """Forgets the puts of a commit that has succeeded, except those in the buffers of operators."""
        self._held.clear()
        self._cached.clear()

    def forget(self) -> None:
        """Forgets all puts, which an abort has taken back."""
        self.committed()
        self._buffered.clear()

    def take_over(self) -> None:
        """Reports the rows that the calling thread reads, and no other: queries of other threads read the same ones."""
        self._thread = get_ident()

    # ------------------------------------------------------------------ calls

    def store(self, node: str, store: OpenStore) -> OpenStore:
        """Returns a store as a node gets it, with lines for its calls."""
        name = store.builder.name
        facade = guarded(_TracedFacade(store.facade, name, self))
        operator = _TracedOperator(store.operator, node, name, self)
        return replace(store, facade=facade, operator=operator, bare=store.unguarded)

    def call(
        self,
        store: str,
        name: str,
        key: Any,
        value: Any,
        call: Callable[[], Any],
        note: str = "",
        *,
        in_pair: bool = False,
    ) -> Any:
        """Makes a call of a store, with a line for it where a record is followed.

        :param key: `ABSENT` if the call has none; so is ``value``.
        :param note: the other arguments.
        :param in_pair: whether it returns a value and its timestamp, as operators get them.
        """
        tracer = self._tracer
        followed = tracer.current or (None if key is ABSENT else self._begin_at_key(key))
        if followed is None:
            return call()
        at, dropped, outer, made = tracer.now(), self._dropped(), tracer.deferred, StoreCall(key, value)
        within: list[TraceStep] = []
        tracer.deferred = within
        found, notes = ABSENT, [note]
        try:
            with tracer.at(followed, tracer.node, made):
                found = call()
        except Exception as error:
            notes.append(shown(f"failed: {kind_and_text(error)}", MOST_VALUE))
            raise
        finally:
            tracer.deferred = outer
            if self._dropped() != dropped:
                notes.append("dropped by the store as too late")
            if in_pair and isinstance(found, tuple):
                notes.insert(0, f"timestamp {found[1]}")
            self._call_step(followed, store, name, made, found[0] if in_pair and found else found, notes, at)
            tracer.release(within)
        return RowIterator(self._read_rows(found, store, followed), store) if isinstance(found, RowIterator) else found

    def _call_step(
        self, followed: Followed, store: str, name: str, made: StoreCall, found: Any, notes: list[str], at: float
    ) -> None:
        value, old = made.value, ABSENT
        main = next((one for one in made.accesses if one.is_put and one.rows.logging.log is not None), None)
        main = main or next((one for one in made.accesses if one.is_put), None)
        if main is not None and name in _CHANGES:
            value, old = (None if name in ("delete", "remove") else value), main.old
            notes.append(_where_put(main))
        elif name in _CHANGES:
            value = None if name in ("delete", "remove") else value
            notes.append("changed nothing" if name == "put_if_absent" and found is not None else "")
        elif found is not ABSENT and value is ABSENT:
            value = found
            if made.accesses:
                notes.append(_FROM[made.accesses[0].place])
        if isinstance(value, RowIterator):
            value = ABSENT
            notes.append("rows follow as they are read")
        text = ", ".join(filter(None, notes))
        self._tracer.step(followed, name, place=store, key=made.key, value=value, old=old, note=text, at=at)

    def _read_rows(self, rows: RowIterator, store: str, followed: Followed) -> Iterator[tuple[Any, Any]]:
        tracer = self._tracer
        with rows:
            for number, row in enumerate(rows):
                if tracer.current is followed and number < ROWS_MAX:
                    key, value = row if type(row) is tuple and len(row) == 2 else (ABSENT, row)
                    tracer.step(followed, "row", place=store, key=key, value=value)
                elif tracer.current is followed and number == ROWS_MAX:
                    tracer.step(followed, "row", place=store, note="the rows that follow have no lines")
                yield row

    # ------------------------------------------------------------------ rows

    def watches(self) -> bool:
        """Whether accesses are to be reported now."""
        return (self._tracer.current is not None or bool(self._held)) and get_ident() == self._thread

    def accessed(self, access: RowAccess) -> None:
        """Takes a read or a put of a row down, for the call of the store that makes it."""
        tracer = self._tracer
        if access.is_put and access.rows.logging.log is not None:
            self._hold(access)
        if tracer.call is not None:
            tracer.call.accesses.append(access)
        elif tracer.current is not None:  # by an operator whose store has calls of its own
            self._row_step(tracer.current, access)

    def logging(self, store: str, row_key: bytes | None) -> None:
        """Notes whose row is about to be logged."""
        if get_ident() == self._thread:
            self._logged = None if row_key is None else (self._held.pop((store, row_key), None),)

    def _row_step(self, followed: Followed, access: RowAccess) -> None:
        rows, key = access.rows, access.row_key
        try:
            key = rows.format.keys.key_of(key)
        except Exception:  # no key of the user's
            key = access.row_key
        name, value, old = ("put", access.new, access.old) if access.is_put else ("get", access.old, ABSENT)
        note = _where_put(access) if access.is_put else _FROM[access.place]
        self._tracer.step(followed, name, place=rows.name, key=key, value=value, old=old, note=note)

    def _hold(self, access: RowAccess) -> None:
        """A row is about to be put that is logged later; what it replaces is never logged."""
        tracer, rows = self._tracer, access.rows
        place = rows.name, rows.format.keys.write(access.row_key)
        before, followed = self._held.pop(place, None), tracer.current
        if before is not None and before.followed is not followed and access.place == WAITING:
            by, what = followed.id if followed else self._position(), "logged or forwarded" if rows.cached else "logged"
            note = f"put again by {by} before it was {what}"
            tracer.step(before.followed, "replace", place=rows.name, key=before.key, value=before.value, note=note)
        if followed is not None:
            call = tracer.call
            key, value = (access.row_key, access.new) if call is None else (call.key, call.value)
            self._held[place] = HeldChange(followed, key, value, tracer.now())

    # ------------------------------------------------------------------ changelogs

    def changelog(self, store: str, changelog: Changelog) -> LogFunctions:
        """Returns the functions by which a store logs, one row or many."""
        tracer, send = self._tracer, changelog.log

        def log_traced(key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
            followed, held = tracer.current, None
            if self._logged is not None:
                (held,) = self._logged
                followed = None if held is None else held.followed
            offset, before = changelog.end, tracer.mutes_producer
            tracer.mutes_producer = True
            try:
                send(key, value, timestamp, headers)
            finally:
                tracer.mutes_producer = before
            if followed is None:
                return
            note = f"of store {store}"
            if held is not None:
                shown_key, shown_value = held.key, held.value
                note += f", {held.waited_us(tracer.now())} us after the put"
            elif tracer.call is not None:
                shown_key, shown_value = tracer.call.key, tracer.call.value
            else:
                shown_key, shown_value = key, value
            place = f"{changelog.topic}-{changelog.partition}@{offset}"
            if value is None:
                shown_value = None
            tracer.step(followed, "changelog", place=place, key=shown_key, value=shown_value, note=note)

        def log_many_traced(rows: Iterator[tuple[bytes, bytes | None, int]]) -> None:
            for key, value, timestamp in rows:
                log_traced(key, value, timestamp)

        return log_traced, log_many_traced

    # ------------------------------------------------------------------ caches, and buffers of operators

    def cache(self, store: str, key: Any, value: Any) -> None:
        """An operator puts into a cache, which will forward it."""
        tracer = self._tracer
        place = store, value_text(key)
        if tracer.current is None:
            self._cached.pop(place, None)
            return
        self._cached[place] = HeldChange(tracer.current, key, value, tracer.now())
        self.waits = store

    def flushing(self, node: str, store: str, callback: Callable[..., None]) -> Callable[..., None]:
        """The function by which a cache forwards a change."""

        def flush_traced(key: Any, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
            held = self._cached.pop((store, value_text(key)), None)
            self._late(node, held, "drain", store, key, new, old, lambda: callback(key, new, old, timestamp, headers))

        return flush_traced

    def buffer(self, store: str, key: Any, value: Any) -> None:
        """Adds the line of an operator that puts the current record into its buffer."""
        tracer = self._tracer
        if tracer.current is not None:
            self._buffered[store, self._position()] = HeldChange(tracer.current, key, value, tracer.now())
            if len(self._buffered) > BUFFERED_MAX:
                self._buffered.popitem(last=False)

    def releasing(self, node: str, store: str, callback: Callable[..., None]) -> Callable[..., None]:
        """The function that gets what leaves a buffer."""

        def release_traced(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            held = self._buffered.pop((store, self._position()), None)
            self._late(
                node, held, "release", store, key, value, ABSENT, lambda: callback(key, value, timestamp, headers)
            )

        return release_traced

    def _late(
        self,
        node: str,
        held: HeldChange | None,
        step: str,
        store: str,
        key: Any,
        value: Any,
        old: Any,
        forward: Callable[[], None],
    ) -> None:
        """Forwards what has waited, as a part of the record that it came from."""
        tracer = self._tracer
        with tracer.at(None if held is None else held.followed, node):
            if held is not None:
                note = f"waited {held.waited_us(tracer.now())} us; came from this record"
                tracer.step(held.followed, step, place=store, key=key, value=value, old=old, note=note)
            forward()


def _where_put(access: RowAccess) -> str:
    rows = access.rows
    if rows.cached:
        return "waits in the cache"
    return "logged at once" if rows.log_each and rows.logging.log is not None else "waits for the commit"


class _TracedFacade(Policy):
    """Makes the calls of a store through the trace."""

    def __init__(self, store: Any, name: str, trace: StoreTrace) -> None:
        super().__init__(store)
        self._place = name
        self._trace = trace

    def over(self, store: Any) -> _TracedFacade:
        return _TracedFacade(store, self._place, self._trace)

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        if name in _SILENT or name in _FORMS:
            return call
        trace, place = self._trace, self._place

        def traced(*args: Any, **named: Any) -> Any:
            key, value, note = _parts(name, args, named)
            return trace.call(place, name.strip("_"), key, value, lambda: call(*args, **named), note)

        return traced


def _parts(call: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, str]:
    """Key, value and the other arguments of a call, as text."""
    if call in ("put_all", "__len__", "__iter__"):
        return ABSENT, ABSENT, ""
    key = args[0] if args else named.get("key", ABSENT)
    rest = args[1:]
    value = ABSENT
    if call in _WITH_VALUES or call == "__setitem__":
        value, rest = (rest[0], rest[1:]) if rest else (named.get("value", ABSENT), ())
    given = [*map(repr_of, rest), *(f"{one}={repr_of(named[one])}" for one in named if one not in ("key", "value"))]
    return key, value, f"with {', '.join(given)}" if given else ""


class _TracedOperator:
    """A store as an operator of the DSL gets it, with lines for its calls."""

    def __init__(self, operator: Any, node: str, name: str, trace: StoreTrace) -> None:
        self._operator = operator
        self._node = node
        self._name = name
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._operator, name)
        if name == "put":
            return self._putting(found)
        if name in ("get", "get_as_of"):
            return self._getting(name, found)
        if name == "on_flush":
            return self._on_flush
        if name == "evict_while":
            return self._evict_while
        return found

    def _getting(self, name: str, get: Callable[..., Any]) -> Callable[..., Any]:
        trace, place = self._trace, self._name

        def get_traced(key: Any, *more: Any) -> Any:
            note = f"as of {more[0]}" if more else ""
            return trace.call(place, "get", key, ABSENT, lambda: get(key, *more), note, in_pair=True)

        return get_traced

    def _putting(self, put: Callable[..., Any]) -> Callable[..., Any]:
        trace, place, cached = self._trace, self._name, bool(self._operator.cached)
        if hasattr(self._operator, "evict_while"):
            return self._buffering(put)

        def put_traced(key: Any, value: Any, timestamp: int, headers: Any = None) -> Any:
            def call() -> Any:
                if cached:
                    trace.cache(place, key, value)
                return put(key, value, timestamp, headers)

            return trace.call(place, "put", key, value, call, f"timestamp {timestamp}")

        return put_traced

    def _buffering(self, put: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `put` of a buffer, which may take a time before the key."""
        trace, place = self._trace, self._name

        def put_traced(*args: Any) -> Any:
            key, value, timestamp, _ = args[-4:]

            def call() -> Any:
                trace.buffer(place, key, value)
                return put(*args)

            return trace.call(place, "buffer", key, value, call, f"timestamp {timestamp}")

        return put_traced

    def _on_flush(self, callback: Callable[..., None], *, old_values: bool) -> None:
        traced = self._trace.flushing(self._node, self._name, callback)
        self._operator.on_flush(traced, old_values=old_values)

    def _evict_while(self, predicate: Callable[[], bool], callback: Callable[..., None], **how: bool) -> None:
        self._operator.evict_while(predicate, self._trace.releasing(self._node, self._name, callback), **how)
