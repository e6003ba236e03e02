"""Session stores as processors use them, over :class:`state.windowed.rows.TimedRows`: a session's time is its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.errors import StoreError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.windowed import Window, window_of
from processor_api.texts import repr_of
from state.engine.port import Engine
from state.formats.keys import MAX_TIME
from state.windowed.base import PutNumbers, TimedStoreReads
from state.windowed.key_layout import SESSION, KeyFirst, RowLayout, TimeFirst
from state.windowed.kinds import SESSIONS, Values, timed_kinds
from state.windowed.rows import TimedReads, TimedRows
from state.windowed.segments import Retention
from state.write_buffer.iterators import OpenIterators, RowIterator
from state.write_buffer.store_kind import Opening, OpenStore, is_persistent


class SessionReads(TimedStoreReads):
    """A session store, for reading; of aggregates, or of aggregates and timestamps."""

    def reading(self, timed: TimedReads, iterators: OpenIterators, numbers: PutNumbers | None) -> SessionReads:
        """Returns a session store that reads other rows and is not written."""
        return SessionReads(timed, self._key_serde, self._shown, self._window_of, iterators)

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        self._iterators.check()
        data = self._write_key(key)
        start, end = self._limit(session_start, "session_start"), self._limit(session_end, "session_end")
        if not 0 <= start <= end <= MAX_TIME:
            return None
        return self._one(data, end, start)

    def fetch(self, key: Any) -> RowIterator:
        return self._of_key(key, 0, MAX_TIME, reverse=False)

    def backward_fetch(self, key: Any) -> RowIterator:
        return self._of_key(key, 0, MAX_TIME, reverse=True)

    def fetch_keys(self, key_from: Any, key_to: Any) -> RowIterator:
        return self._of_keys(key_from, key_to, 0, MAX_TIME, reverse=False)

    def backward_fetch_keys(self, key_from: Any, key_to: Any) -> RowIterator:
        return self._of_keys(key_from, key_to, 0, MAX_TIME, reverse=True)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> RowIterator:
        return self._of_key(key, earliest_end, latest_start, reverse=False)

    def backward_find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> RowIterator:
        return self._of_key(key, earliest_end, latest_start, reverse=True)

    def find_sessions_of_keys(self, key_from: Any, key_to: Any, earliest_end: int, latest_start: int) -> RowIterator:
        return self._of_keys(key_from, key_to, earliest_end, latest_start, reverse=False)

    def backward_find_sessions_of_keys(
        self, key_from: Any, key_to: Any, earliest_end: int, latest_start: int
    ) -> RowIterator:
        return self._of_keys(key_from, key_to, earliest_end, latest_start, reverse=True)

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> RowIterator:
        """Reads sessions by their ends, in a store whose rows are in order of time, or in memory."""
        self._iterators.check()
        low, high = self._limit(earliest_end, "earliest_end"), self._limit(latest_end, "latest_end")
        return self._listed(self._timed.of_times(low, high, reverse=False))

    def _of_key(self, key: Any, earliest_end: int, latest_start: int, *, reverse: bool) -> RowIterator:
        self._iterators.check()
        low, latest = self._limit(earliest_end, "earliest_end"), self._limit(latest_start, "latest_start")
        # To the end of time: a session that begins early enough may end at any.
        return self._starting(self._timed.of_key(self._write_key(key), low, MAX_TIME, reverse=reverse), latest)

    def _of_keys(
        self, key_from: Any, key_to: Any, earliest_end: int, latest_start: int, *, reverse: bool
    ) -> RowIterator:
        self._iterators.check()
        low, latest = self._limit(earliest_end, "earliest_end"), self._limit(latest_start, "latest_start")
        first, last = self._bound(key_from), self._bound(key_to)
        return self._starting(self._timed.of_keys(first, last, low, MAX_TIME, reverse=reverse), latest)

    def _starting(self, found: Any, latest_start: int) -> RowIterator:
        if latest_start < MAX_TIME:
            found = (session for session in found if session[2] <= latest_start)
        return self._listed(found)


class SessionFacade(SessionReads):
    """A session store as processors get it."""

    _timed: TimedRows

    def put(self, session_key: Any, aggregate: Any) -> None:
        self._iterators.check()
        data, start, end = self._session(session_key)
        value, timestamp = self._shown.parts(aggregate)
        self._timed.put(data, end, start, value, timestamp, self._timed.rows.cursor.headers)

    def remove(self, session_key: Any) -> None:
        """Removes a session.

        A store in memory without a cache does nothing for a session after the store's time: such a session was never
        put, and as in Java the time does not move. (Java logs a tombstone, which moves the time of a restored store.)
        """
        self._iterators.check()
        # The key is checked before the store decides that there is nothing to do.
        data, start, end = self._session(session_key)
        _, timestamp = self._shown.parts(None)
        if not self.persistent and not self._timed.rows.cached and end > self._timed.segments.stream_time:
            return
        self._timed.put(data, end, start, None, timestamp, self._timed.rows.cursor.headers)

    def _session(self, session_key: Any) -> tuple[bytes, int, int]:
        if not isinstance(session_key, tuple) or len(session_key) != 2:
            raise StoreError(
                f"store {self.name!r} needs sessions as Windowed(key, Window(start, end)), got {repr_of(session_key)}",
                store=self.name,
            )
        key, window = session_key
        if not isinstance(window, tuple) or len(window) != 2:
            raise StoreError(f"store {self.name!r} needs a Window(start, end), got {repr_of(window)}", store=self.name)
        data = self._write_key(key)
        start, end = self._time(window[0], "start of the session"), self._time(window[1], "end of the session")
        if end < start:
            raise StoreError(
                f"store {self.name!r}: a session must not end before it starts, got {start} to {end}", store=self.name
            )
        return data, start, end


def _window_of(end: int, start: int) -> Window:
    return window_of((start, end))


def _open_with(values: Values, time_ordered: bool) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        builder = opening.builder
        timed = values.rows(opening, *_order(builder, opening.engine, time_ordered))
        shown = values.shown(builder.name, opening.cursor)
        return OpenStore(
            kind=opening.kind,
            builder=builder,
            rows=timed.rows,
            facade=SessionFacade(timed, opening.key_serde, shown, _window_of),
            operator=values.operator(opening, timed, _window_of),
            participants=timed.participants,
        )

    return opened


def _order(builder: StoreBuilder[Any, Any], engine: Engine, time_ordered: bool) -> tuple[RowLayout, Retention]:
    persistent = is_persistent(builder, engine)
    # Among sessions that end together, Java's store in memory returns the one that starts last first.
    layout = TimeFirst(SESSION) if time_ordered else KeyFirst(SESSION, descending=not persistent)
    return layout, Retention.of(builder, persistent=persistent)


KINDS = timed_kinds("session", SESSIONS, SESSION, _open_with, _order)
