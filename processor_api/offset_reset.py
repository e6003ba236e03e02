"""The start of a partition that has no committed offset (KIP-1106)."""

from __future__ import annotations

from dataclasses import dataclass

from processor_api.durations import Duration, to_ms

__all__ = ["AutoOffsetReset"]


@dataclass(frozen=True)
class AutoOffsetReset:
    """The start without a committed offset: ``earliest()``, ``latest()``, ``none()`` or ``by_duration(...)``.

    ::

        history = builder.stream("orders", Consumed(offset_reset=AutoOffsetReset.earliest()))
        # orders("ann", "tea") -> history("ann", "tea")
    """

    policy: str
    duration_ms: int | None = None

    @classmethod
    def earliest(cls) -> AutoOffsetReset:
        """Starts at the first record of the partition.

        ::

            history = builder.stream("orders", Consumed(offset_reset=AutoOffsetReset.earliest()))
        """
        return cls("earliest")

    @classmethod
    def latest(cls) -> AutoOffsetReset:
        """Starts after the last record of the partition.

        ::

            news = builder.stream("orders", Consumed(offset_reset=AutoOffsetReset.latest()))
        """
        return cls("latest")

    @classmethod
    def none(cls) -> AutoOffsetReset:
        """Fails if there is no committed offset.

        ::

            known = builder.stream("orders", Consumed(offset_reset=AutoOffsetReset.none()))
        """
        return cls("none")

    @classmethod
    def by_duration(cls, duration: Duration) -> AutoOffsetReset:
        """Starts at the first record that is at most this old.

        ::

            last_day = builder.stream("orders", Consumed(offset_reset=AutoOffsetReset.by_duration(timedelta(days=1))))

        :param duration: a ``timedelta`` or integer milliseconds.
        :raises ValueError: if the duration is negative.
        """
        ms = to_ms(duration, "duration")
        if ms < 0:
            raise ValueError(f"duration must not be negative, got {ms} ms")
        return cls("by_duration", ms)
