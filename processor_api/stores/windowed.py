"""Windows of time, and keys within them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Window", "Windowed"]

K = TypeVar("K")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Window(NamedTuple):
    """A span of time in ms since 1970. The end of a window of fixed size is not part of it; a session's is.

    ::

        minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        window = minutes.windows_for(61_000)[0]
        assert (window.start, window.end) == (60_000, 120_000)
        assert window.start_time == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    """

    start: int
    end: int

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
