"""Window stores as processors use them, over :class:`state.windowed.rows.TimedRows`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from processor_api.stores.builder import StoreBuilder
from processor_api.stores.windowed import Window
from state.engine.port import Engine
from state.formats.keys import MAX_TIME
from state.windowed.base import PutNumbers, TimedStoreReads
from state.windowed.key_layout import WINDOW, KeyFirst, RowLayout, TimeFirst
from state.windowed.kinds import WINDOWS, Values, timed_kinds
from state.windowed.rows import TimedReads, TimedRows
from state.windowed.segments import Retention
from state.write_buffer.iterators import OpenIterators, RowIterator
from state.write_buffer.store_kind import Opening, OpenStore, is_persistent

log = logging.getLogger("streams.state")


class WindowReads(TimedStoreReads):
    """A window store, for reading; of values, or of values and timestamps."""

    def reading(self, timed: TimedReads, iterators: OpenIterators, numbers: PutNumbers | None) -> WindowReads:
        """Returns a window store that reads other rows and is not written."""
        return WindowReads(timed, self._key_serde, self._shown, self._window_of, iterators, numbers)

    def fetch(self, key: Any, time: int) -> Any:
        self._iterators.check()
        data, start = self._write_key(key), self._limit(time, "time")
        if not 0 <= start <= MAX_TIME:
            return None
        if self.numbers is not None:  # as Java's: there is no single value to give
            return self._one(data, start, self.numbers.last) if self.persistent else None
        return self._one(data, start, 0)

    def fetch_range(self, key: Any, time_from: int, time_to: int) -> RowIterator:
        return self._of_key(key, time_from, time_to, reverse=False)

    def backward_fetch_range(self, key: Any, time_from: int, time_to: int) -> RowIterator:
        return self._of_key(key, time_from, time_to, reverse=True)

    def _of_key(self, key: Any, time_from: int, time_to: int, *, reverse: bool) -> RowIterator:
        self._iterators.check()
        low, high = self._limit(time_from, "time_from"), self._limit(time_to, "time_to")
        found = self._timed.of_key(self._write_key(key), low, high, reverse=reverse)
        show = self._shown.show
        return self._iterators.open((start, show(value, timestamp)) for _, start, _, value, timestamp in found)

    def fetch_keys(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> RowIterator:
        return self._of_keys(key_from, key_to, time_from, time_to, reverse=False)

    def backward_fetch_keys(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> RowIterator:
        return self._of_keys(key_from, key_to, time_from, time_to, reverse=True)

    def _of_keys(self, key_from: Any, key_to: Any, time_from: int, time_to: int, *, reverse: bool) -> RowIterator:
        self._iterators.check()
        low, high = self._limit(time_from, "time_from"), self._limit(time_to, "time_to")
        found = self._timed.of_keys(self._bound(key_from), self._bound(key_to), low, high, reverse=reverse)
        return self._listed(found)

    def fetch_all(self, time_from: int, time_to: int) -> RowIterator:
        return self._of_times(time_from, time_to, reverse=False)

    def backward_fetch_all(self, time_from: int, time_to: int) -> RowIterator:
        return self._of_times(time_from, time_to, reverse=True)

    def all(self) -> RowIterator:
        return self._of_times(0, MAX_TIME, reverse=False)

    def backward_all(self) -> RowIterator:
        return self._of_times(0, MAX_TIME, reverse=True)

    def _of_times(self, time_from: int, time_to: int, *, reverse: bool) -> RowIterator:
        self._iterators.check()
        low, high = self._limit(time_from, "time_from"), self._limit(time_to, "time_to")
        return self._listed(self._timed.of_times(low, high, reverse=reverse))


class WindowFacade(WindowReads):
    """A window store as processors get it."""

    _timed: TimedRows

    def put(self, key: Any, value: Any, window_start: int) -> None:
        self._iterators.check()
        data, start = self._write_key(key), self._time(window_start, "start of the window")
        value, timestamp = self._shown.parts(value)
        if self.numbers is not None:
            number = self._timed.add(data, start, value, timestamp, self._timed.rows.cursor.headers)
            if number is not None:
                self.numbers.last = number
        else:
            self._timed.put(data, start, 0, value, timestamp, self._timed.rows.cursor.headers)


def _open_with(values: Values, time_ordered: bool) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        builder = opening.builder
        parameters = builder.supplier.parameters
        duplicates = bool(parameters.get("retain_duplicates"))
        if duplicates and builder.caching:
            log.warning("store is not cached: it keeps duplicates", extra={"store": builder.name})
            opening = replace(opening, builder=builder.with_caching_disabled())
        end_of: Callable[[int], int] | None = parameters.get("window_end")
        size: int = parameters["window_size_ms"]
        timed = values.rows(opening, *_order(builder, opening.engine, time_ordered))

        new = tuple.__new__  # half the time of the class itself

        def window_of(start: int, sequence: int) -> Window:
            end = start + size
            return new(Window, (start, end if end <= MAX_TIME else MAX_TIME))

        def own_window_of(start: int, sequence: int) -> Window:
            assert end_of is not None
            return new(Window, (start, end_of(start)))

        made = window_of if end_of is None else own_window_of
        shown = values.shown(builder.name, opening.cursor)
        numbers = PutNumbers(timed.segments.numbers.last) if duplicates else None
        return OpenStore(
            kind=opening.kind,
            builder=builder,
            rows=timed.rows,
            facade=WindowFacade(timed, opening.key_serde, shown, made, numbers=numbers),
            operator=values.operator(opening, timed, made),
            participants=timed.participants,
        )

    return opened


def _order(builder: StoreBuilder[Any, Any], engine: Engine, time_ordered: bool) -> tuple[RowLayout, Retention]:
    layout = TimeFirst(WINDOW) if time_ordered else KeyFirst(WINDOW)
    return layout, Retention.of(builder, persistent=is_persistent(builder, engine), shows_limit=time_ordered)


KINDS = timed_kinds("window", WINDOWS, WINDOW, _open_with, _order)
