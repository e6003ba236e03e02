"""Windows of time, and keys within them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from processor_api.texts import repr_of
from processor_api.user_code.durations import Timestamp, whole_ms

K = TypeVar("K")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Span(NamedTuple):
    start: int
    end: int


class Window(_Span):
    """A span of time in ms since 1970. The end of a window of fixed size is not part of it; a session's is.

    ::

        minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        window = minutes.windows_for(61_000)[0]
        assert (window.start, window.end) == (60_000, 120_000)
        assert window.start_time == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)

    :raises ValueError: if the start is negative, or the end before it.
    :raises TypeError: if one is neither a whole number of ms nor a datetime with a zone.
    """

    __slots__ = ()

    def __new__(cls, start: Timestamp, end: Timestamp) -> Window:
        if type(start) is not int or type(end) is not int or not 0 <= start <= end:
            start, end = _bounds(start, end)
        return tuple.__new__(cls, (start, end))

    @property
    def start_time(self) -> datetime:
        """The start as a ``datetime`` in UTC.

        :raises OverflowError: if it lies beyond the year 9999.
        """
        return _EPOCH + timedelta(milliseconds=self.start)

    @property
    def end_time(self) -> datetime:
        """The end as a ``datetime`` in UTC.

        :raises OverflowError: if it lies beyond the year 9999, as that of an unlimited window.
        """
        return _EPOCH + timedelta(milliseconds=self.end)


window_of: Callable[[tuple[int, int]], Window] = partial(tuple.__new__, Window)
"""Makes a window of a start and an end that are known to be right, as those that an operator computes."""


def _bounds(start: object, end: object) -> tuple[int, int]:
    begins, ends = whole_ms(start), whole_ms(end)
    if begins is None or ends is None:
        raise TypeError(f"a window needs a start and an end in whole ms, got {repr_of(start)} and {repr_of(end)}")
    if not 0 <= begins <= ends:
        raise ValueError(f"a window must not start before 0 or end before its start, got {begins} to {ends} ms")
    return begins, ends


class Windowed(NamedTuple, Generic[K]):
    """A key in a window.

    ::

        minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        counts = clicks.group_by_key().windowed_by(minutes).count()
        plain = counts.to_stream(lambda windowed, count: f"{windowed.key} from {windowed.window.start}")
        # ("ann", "home") @ 61_000 -> plain("ann from 60000", 1)
    """

    key: K
    window: Window
