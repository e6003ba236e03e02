"""The start of a partition that has no committed offset (KIP-1106)."""

from __future__ import annotations

from dataclasses import dataclass

from processor_api.texts import repr_of
from processor_api.user_code.durations import Duration, to_ms

_POLICIES = ("earliest", "latest", "none", "by_duration")


@dataclass(frozen=True)
class AutoOffsetReset:
    """The start without a committed offset: ``earliest()``, ``latest()``, ``none()`` or ``by_duration(...)``.

    ::

        history = builder.stream("orders", Consumed(offset_reset=AutoOffsetReset.earliest()))
        # orders("ann", "tea") -> history("ann", "tea")
    """

    policy: str
    duration_ms: int | None = None

    def __post_init__(self) -> None:
        if type(self.policy) is not str or self.policy not in _POLICIES:
            raise ValueError(f"the start must be one of {', '.join(_POLICIES)}, got {repr_of(self.policy)}")
        if (self.policy == "by_duration") != (self.duration_ms is not None):
            raise ValueError("only by_duration accepts a duration")
        if self.duration_ms is not None and to_ms(self.duration_ms, "duration") < 0:
            raise ValueError(f"duration must not be negative, got {self.duration_ms} ms")

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
        return cls("by_duration", to_ms(duration, "duration"))
