"""Time to live: how long the keys of a key-value store are kept."""

from __future__ import annotations

from dataclasses import dataclass

from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.user_code.durations import Duration, to_ms

RECORD_TIME = "record_time"
ACCESS = "access"


@dataclass(frozen=True)
class TimeToLive:
    """A time to live: a key that was not used for this long has expired.

    Reads no longer show it, and its row and its record on the changelog are deleted in the background.

    ::

        month = TimeToLive(timedelta(days=30), "access")
        seen = builder.table("seen", materialized=Materialized(name="seen", time_to_live=month))
        # seen("ann", 1) @ 0 -> seen("ann", 1)

    :param duration: a ``timedelta``, or an integer number of milliseconds; of stream time, not of the clock's.
    :param by: from when it counts. ``"record_time"``: from the timestamp of the value. ``"access"``: from the stream
        time at which the key was last put, or read with ``get`` by the stream thread; scans and queries do not count.
    :raises TopologyError: if the duration is not positive, or ``by`` neither of the two.
    """

    duration: Duration
    by: str = RECORD_TIME

    def __post_init__(self) -> None:
        if to_ms(self.duration, "a time to live") < 1:
            raise TopologyError(f"a time to live must be at least 1 ms, got {repr_of(self.duration)}")
        if type(self.by) is not str or self.by not in (RECORD_TIME, ACCESS):
            raise TopologyError(f"a time to live must count by {RECORD_TIME!r} or {ACCESS!r}, got {repr_of(self.by)}")

    @property
    def ms(self) -> int:
        """The duration in ms."""
        return to_ms(self.duration, "a time to live")
