"""The windows of joins of two streams."""

from __future__ import annotations

from dataclasses import dataclass, replace

from processor_api.errors import TopologyError
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.durations import Duration, to_ms
from state.formats.keys import MAX_TIME


@explain_calls
@dataclass(frozen=True, kw_only=True)
class JoinWindows:
    """The window of a join: how far apart in time two records may be.

    A left record at time t meets the right records from t minus ``before_ms`` to t plus ``after_ms``, both included
    (semantics 54). The grace period says how late records may come: an unmatched record of a left or outer join is
    forwarded when its window has closed and that has passed.

    ::

        from datetime import timedelta

        from streams import JoinWindows

        windows = JoinWindows.of_time_difference_and_grace(timedelta(minutes=5), timedelta(minutes=1))
        assert (windows.before_ms, windows.after_ms, windows.grace_ms) == (300_000, 300_000, 60_000)
        assert windows.before(0).size_ms == 300_000

    :raises TopologyError: if the grace period is negative, or no time is left between ``before`` and ``after``.
    """

    before_ms: int
    after_ms: int
    grace_ms: int = 0
    emits_early: bool = False
    """Whether unmatched records are forwarded as soon as they come; see :meth:`emitting_early`."""

    def __post_init__(self) -> None:
        for name in ("before_ms", "after_ms", "grace_ms"):
            found = to_ms(getattr(self, name), name)
            if abs(found) > MAX_TIME:
                raise TopologyError(f"{name} of JoinWindows must be at most {MAX_TIME}, got {found}")
            object.__setattr__(self, name, found)
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"a window from {self.before_ms} ms before to {self.after_ms} ms after a record contains no time: their"
                " sum must not be negative"
            )
        if self.grace_ms < 0:
            raise TopologyError(f"the grace period of a join must not be negative, got {self.grace_ms} ms")

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> JoinWindows:
        """Returns the window of records at most ``difference`` apart, without time for late ones.

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
            paid = orders.join(payments, lambda item, cents: f"{item} for {cents}", windows=within)
            # orders("ann", "tea") @ 0, payments("ann", 300) @ 300_000, payments("ann", 9) @ 300_001
            #   -> ("ann", "tea for 300")

        :param difference: a ``timedelta`` or integer milliseconds.
        """
        return cls.of_time_difference_and_grace(difference, 0)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> JoinWindows:
        """Returns the window of records at most ``difference`` apart, with time for late ones.

        ::

            within = JoinWindows.of_time_difference_and_grace(timedelta(minutes=5), timedelta(minutes=1))
            paid = orders.join(payments, lambda item, cents: f"{item} for {cents}", windows=within)
            # orders("ann", "tea") @ 60_000, payments("ann", 300) @ 400_000, payments("ann", 9) @ 350_000
            #   -> ("ann", "tea for 9")

        :param difference: a ``timedelta`` or integer milliseconds.
        :param grace: how long a window takes records after its end, seen from stream time: likewise.
        """
        span = to_ms(difference, "difference")
        return cls(before_ms=span, after_ms=span, grace_ms=to_ms(grace, "grace"))

    def before(self, difference: Duration) -> JoinWindows:
        """Returns the same window but for its beginning: how much earlier a right record may be than a left one.

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
            paid = orders.join(payments, lambda item, cents: f"{item} for {cents}", windows=within.before(0))
            # payments("ann", 9) @ 0, orders("ann", "tea") @ 1_000, payments("ann", 300) @ 2_000
            #   -> ("ann", "tea for 300")

        :param difference: a ``timedelta`` or integer milliseconds; a negative one asks that it be later.
        """
        return replace(self, before_ms=to_ms(difference, "before"))

    def after(self, difference: Duration) -> JoinWindows:
        """Returns the same window but for its end: how much later a right record may be than a left one.

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
            paid = orders.join(payments, lambda item, cents: f"{item} for {cents}", windows=within.after(0))
            # payments("ann", 9) @ 0, orders("ann", "tea") @ 1_000, payments("ann", 300) @ 2_000 -> ("ann", "tea for 9")

        :param difference: a ``timedelta`` or integer milliseconds; a negative one asks that it be earlier.
        """
        return replace(self, after_ms=to_ms(difference, "after"))

    def emitting_early(self) -> JoinWindows:
        """Returns the same window, for joins that forward an unmatched record at once, and once more with each partner.

        This is what Kafka Streams does with its deprecated ``JoinWindows.of``; a left or outer join has no third store
        then. Without it a record is forwarded either with its partners or, later, without one (semantics 56, 63).

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5)).emitting_early()
            paid = orders.left_join(payments, lambda item, cents: f"{item} for {cents}", windows=within)
            # orders("ann", "tea") @ 0, payments("ann", 300) @ 700 -> ("ann", "tea for None"), ("ann", "tea for 300")
        """
        return replace(self, emits_early=True)

    @property
    def size_ms(self) -> int:
        """The length of the window in ms."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """The time in ms for which a record is kept to be met: size plus grace, but at least 1 (semantics 55)."""
        return max(self.size_ms + self.grace_ms, 1)
