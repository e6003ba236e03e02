"""The windows that records of a key are aggregated in, and when their results are sent on."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from processor_api.errors import TopologyError
from processor_api.stores.windowed import Window, window_of
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.durations import Duration, to_ms, to_timestamp_ms
from state.formats.keys import MAX_TIME, window_end


def _at_least(value: Duration, least: int, what: str) -> int:
    found = to_ms(value, what)
    if found < least:
        raise TopologyError(f"{what} must be at least {least} ms, got {found} ms")
    if found > MAX_TIME:
        raise TopologyError(f"{what} must be at most {MAX_TIME} ms, the largest 64-bit number, got {found} ms")
    return found


class EmitStrategy(enum.Enum):
    """When the results of windows are sent on (KIP-825).

    Wherever one is taken, :meth:`on_window_close` or :meth:`on_window_update` gives it, as in Kafka Streams.

    ::

        minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        windowed = clicks.group_by_key().windowed_by(minutes)
        final = windowed.emit_strategy(EmitStrategy.on_window_close()).count()
        # ("ann", "home") @ 0, ("ann", "cart") @ 9_000, ("bob", "home") @ 60_000 -> (("ann", (0, 60_000)), 2)
    """

    ON_WINDOW_UPDATE = "on window update"
    """Sends each update, or the last of a key per commit where there is a cache."""
    ON_WINDOW_CLOSE = "on window close"
    """Once for each window and key, when stream time has passed the window's end by the grace period."""

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Returns the strategy that sends each update on.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            windowed = clicks.group_by_key().windowed_by(minutes)
            counts = windowed.emit_strategy(EmitStrategy.on_window_update()).count()
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000 -> (("ann", (0, 60_000)), 1), (("ann", (0, 60_000)), 2)
        """
        return cls.ON_WINDOW_UPDATE

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Returns the strategy that sends only final results on.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            windowed = clicks.group_by_key().windowed_by(minutes)
            final = windowed.emit_strategy(EmitStrategy.on_window_close()).count()
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000, ("bob", "home") @ 60_000 -> (("ann", (0, 60_000)), 2)
        """
        return cls.ON_WINDOW_CLOSE


class Windows(ABC):
    """Windows with fixed bounds; base of windows of the user's own.

    ::

        from streams import StreamsBuilder, TopologyTestDriver, Window, Windows

        class WorkingHours(Windows):
            DAY, OPENS, CLOSES = 86_400_000, 9 * 3_600_000, 17 * 3_600_000

            size_ms, grace_ms = CLOSES - OPENS, 0

            def windows_for(self, timestamp: int) -> list[Window]:
                day = timestamp // self.DAY * self.DAY
                inside = day + self.OPENS <= timestamp < day + self.CLOSES
                return [Window(day + self.OPENS, day + self.CLOSES)] if inside else []

        builder = StreamsBuilder()
        calls = builder.stream("calls").group_by_key().windowed_by(WorkingHours()).count()
        calls.to_stream(lambda windowed, count: windowed.key).to("counts")

        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(builder.build(), settings) as driver:
            calls = driver.create_input_topic("calls")
            for hour in (8, 10, 16, 18):
                calls.pipe_input("ann", "rings", timestamp=hour * 3_600_000)
            counts = driver.create_output_topic("counts").read_records()
            assert [record.key for record in counts] == ["ann", "ann"]
    """

    size_ms: int
    """The length of the longest window, in ms: the store keeps rows for that and the grace period."""
    grace_ms: int
    """The time in ms, by stream time, for which a window takes records after its end."""

    @abstractmethod
    def windows_for(self, timestamp: int) -> Iterable[Window]:
        """Returns the windows that a record of this time belongs to, in ms, in order; their ends do not belong to them.

        Two windows of one key with the same start are the same window.
        """

    def end_of(self, start: int) -> int:
        """Returns the end, in ms, of the window that starts at ``start``: topics and stores keep only its start.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            assert minutes.end_of(60_000) == 120_000
        """
        ends = (end for begin, end in self.windows_for(start) if begin == start)
        return next(ends, window_end(start, self.size_ms))


@explain_calls
@dataclass(frozen=True, kw_only=True)
class TimeWindows(Windows):
    """Windows of one size that start at multiples of their advance: tumbling, or hopping where they overlap.

    A window has its start and not its end; none starts before 0 (semantics 43).

    ::

        minutes = TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(seconds=10))
        assert minutes.windows_for(61_000) == [(60_000, 120_000)]
        hopping = minutes.advance_by(timedelta(seconds=30))
        assert hopping.windows_for(61_000) == [(30_000, 90_000), (60_000, 120_000)]

    :raises TopologyError: if the size is below 1 ms, the advance not from 1 ms to the size, or the grace negative.
    """

    size_ms: int
    grace_ms: int = 0
    advance_ms: int = 0
    """The time from the start of a window to that of the next; the size if it is 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_ms", _at_least(self.size_ms, 1, "the size of windows"))
        object.__setattr__(self, "grace_ms", _at_least(self.grace_ms, 0, "the grace period"))
        object.__setattr__(self, "advance_ms", to_ms(self.advance_ms, "the advance of windows") or self.size_ms)
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"the advance of windows must be at least 1 ms and at most their size, {self.size_ms} ms, got"
                f" {self.advance_ms} ms"
            )

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> TimeWindows:
        """Returns tumbling windows that take no records after their end.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            counts = clicks.group_by_key().windowed_by(minutes).count()
            # ("ann", "home") @ 0, ("ann", "cart") @ 60_000, ("ann", "late") @ 9_000
            #   -> (("ann", (0, 60_000)), 1), (("ann", (60_000, 120_000)), 1)

        :param size: a ``timedelta`` or integer milliseconds.
        """
        return cls(size_ms=to_ms(size, "size"))

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> TimeWindows:
        """Returns tumbling windows that take records for a while after their end.

        ::

            minutes = TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(seconds=10))
            counts = clicks.group_by_key().windowed_by(minutes).count()
            # ("ann", "home") @ 0, ("bob", "cart") @ 65_000, ("ann", "late") @ 9_000
            #   -> (("ann", (0, 60_000)), 1), (("bob", (60_000, 120_000)), 1), (("ann", (0, 60_000)), 2)

        :param size: a ``timedelta`` or integer milliseconds.
        :param grace: how long a window takes records after its end, by stream time: likewise.
        """
        return cls(size_ms=to_ms(size, "size"), grace_ms=to_ms(grace, "grace"))

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Returns windows of this size that start so far from each other: hopping windows.

        ::

            hopping = TimeWindows.of_size_with_no_grace(timedelta(minutes=1)).advance_by(timedelta(seconds=30))
            counts = clicks.group_by_key().windowed_by(hopping).count()
            # ("ann", "home") @ 61_000 -> (("ann", (30_000, 90_000)), 1), (("ann", (60_000, 120_000)), 1)

        :param advance: a ``timedelta`` or integer milliseconds, from 1 ms to the size.
        """
        return replace(self, advance_ms=_at_least(advance, 1, "the advance of windows"))

    def windows_for(self, timestamp: int) -> list[Window]:
        """Returns the windows that a record of this time belongs to, the oldest first.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            assert minutes.windows_for(61_000) == [Window(60_000, 120_000)]
        """
        size, advance = self.size_ms, self.advance_ms
        first = max(0, timestamp - size + advance) // advance * advance
        return [window_of((start, window_end(start, size))) for start in range(first, timestamp + 1, advance)]


@explain_calls
@dataclass(frozen=True, kw_only=True)
class UnlimitedWindows(Windows):
    """One window without an end, from a start on; records before it are ignored.

    ::

        counts = clicks.group_by_key().windowed_by(UnlimitedWindows.of().start_on(60_000)).count()
        # ("ann", "home") @ 0, ("ann", "cart") @ 61_000 -> (("ann", (60_000, 9_223_372_036_854_775_807)), 1)

    :raises TopologyError: if the start is negative.
    """

    start_ms: int = 0
    size_ms: int = field(default=MAX_TIME, init=False, repr=False)
    grace_ms: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start_ms", _at_least(self.start_ms, 0, "the start of an unlimited window"))

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """Returns the window that begins at 0.

        ::

            always = UnlimitedWindows.of()
            assert always.start_ms == 0
        """
        return cls()

    def start_on(self, start: datetime | int) -> UnlimitedWindows:
        """Returns the window that begins at a time: a ``datetime`` with a time zone, or integer ms since 1970.

        ::

            from_2026 = UnlimitedWindows.of().start_on(datetime(2026, 1, 1, tzinfo=UTC))
            assert from_2026.start_ms == 1_767_225_600_000
        """
        return replace(self, start_ms=to_timestamp_ms(start, "start"))

    def windows_for(self, timestamp: int) -> list[Window]:
        """Returns the window, if it has begun.

        ::

            later = UnlimitedWindows.of().start_on(60_000)
            assert later.windows_for(0) == []
        """
        return [window_of((self.start_ms, MAX_TIME))] if timestamp >= self.start_ms else []


@explain_calls
@dataclass(frozen=True, kw_only=True)
class SlidingWindows:
    """Windows that end with a record, or start just behind one, so that each set of records close in time has its own.

    A window holds records that are at most the time difference apart; both ends belong to it (KIP-450, semantics 46).

    ::

        sliding = SlidingWindows.of_time_difference_and_grace(timedelta(seconds=10), timedelta(seconds=5))
        hottest = readings.group_by_key().windowed_by(sliding).reduce(max)
        # ("roof", 40) @ 20_000, ("roof", 12) @ 25_000
        #   -> (("roof", (10_000, 20_000)), 40), (("roof", (20_001, 30_001)), 12), (("roof", (15_000, 25_000)), 40)

    :raises TopologyError: if a duration is negative.
    """

    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "difference_ms", _at_least(self.difference_ms, 0, "the time difference of sliding windows")
        )
        object.__setattr__(self, "grace_ms", _at_least(self.grace_ms, 0, "the grace period"))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> SlidingWindows:
        """Returns windows that take no records after their end.

        ::

            sliding = SlidingWindows.of_time_difference_with_no_grace(timedelta(seconds=10))
            hottest = readings.group_by_key().windowed_by(sliding).reduce(max)
            # ("roof", 40) @ 20_000 -> (("roof", (10_000, 20_000)), 40)

        :param difference: how far apart two records of a window may be: a ``timedelta`` or integer milliseconds.
        """
        return cls(difference_ms=to_ms(difference, "difference"))

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> SlidingWindows:
        """Returns windows that take records for a while after their end.

        ::

            sliding = SlidingWindows.of_time_difference_and_grace(timedelta(seconds=10), timedelta(seconds=5))
            hottest = readings.group_by_key().windowed_by(sliding).reduce(max)
            # ("roof", 40) @ 20_000 -> (("roof", (10_000, 20_000)), 40)

        :param difference: how far apart two records of a window may be: a ``timedelta`` or integer milliseconds.
        :param grace: how long a window takes records after its end, by stream time: likewise.
        """
        return cls(difference_ms=to_ms(difference, "difference"), grace_ms=to_ms(grace, "grace"))


@explain_calls
@dataclass(frozen=True, kw_only=True)
class SessionWindows:
    """Sessions: records of a key with no more than a gap of inactivity between one and the next (KIP-94).

    A record between two sessions merges them; both ends of a session are records of it (semantics 48).

    ::

        sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
        visits = clicks.group_by_key().windowed_by(sessions).count()
        # ("ann", "home") @ 0, ("ann", "cart") @ 9_000
        #   -> (("ann", (0, 0)), 1), (("ann", (0, 0)), None), (("ann", (0, 9_000)), 2)

    :raises TopologyError: if a duration is negative.
    """

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap_ms", _at_least(self.gap_ms, 0, "the inactivity gap of sessions"))
        object.__setattr__(self, "grace_ms", _at_least(self.grace_ms, 0, "the grace period"))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration) -> SessionWindows:
        """Returns sessions that take no records once the gap has passed.

        ::

            sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
            visits = clicks.group_by_key().windowed_by(sessions).count()
            # ("ann", "home") @ 0, ("ann", "home") @ 300_001 -> (("ann", (0, 0)), 1), (("ann", (300_001, 300_001)), 1)

        :param gap: a ``timedelta`` or integer milliseconds.
        """
        return cls(gap_ms=to_ms(gap, "gap"))

    @classmethod
    def of_inactivity_gap_and_grace(cls, gap: Duration, grace: Duration) -> SessionWindows:
        """Returns sessions that take records for a while after the gap has passed.

        ::

            sessions = SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=5), timedelta(minutes=1))
            visits = clicks.group_by_key().windowed_by(sessions).count()
            # ("ann", "home") @ 0 -> (("ann", (0, 0)), 1)

        :param gap: a ``timedelta`` or integer milliseconds.
        :param grace: how long a session takes records after the gap, by stream time: likewise.
        """
        return cls(gap_ms=to_ms(gap, "gap"), grace_ms=to_ms(grace, "grace"))
