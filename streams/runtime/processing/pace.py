"""Limits how long a stream thread processes records before it does what else is due: a commit, a poll, a stop.

The clock is read between records, as often as keeps that cheap: every few dozen records of a fast topology, and after
each record of a slow one (docs/decisions/commits-and-transactions.md, "The thread checks the clock between short runs
of records").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import ProcessingError
from processor_api.task_id import TaskId, TopicPartition
from state.row_format.record_context import Cursor

CHECK_INTERVAL_S = 200e-6
"""How much work to do between two checks of the clock, which cost about a microsecond each."""
RUN_MAX = 128
"""The most records between two checks of the clock."""
TURN_S = 0.1
"""The longest time between two calls of the consumer, unless user code takes longer."""
TURN_MIN_S = 0.01
"""How long a turn may take when a commit is due already: records that came together are committed together."""
DRAIN_S = 5.0
"""How long the drain of the caches may take at a commit: user code behind a cache runs there."""
SLOW_CALL_S = 0.1
"""Calls that take longer are kept for messages."""
DRAIN = "the drain of the caches"
NO_LIMIT = 1 << 62


class SlowCall(NamedTuple):
    """Describes the call of user code that took longest since the last commit."""

    seconds: float
    what: str
    """The record or the punctuation."""
    place: dict[str, Any]
    records: int = 1
    """How many records the call was for; the last of them is the one at the place."""

    @property
    def partition(self) -> TopicPartition | None:
        """The partition of the record; ``None`` for other calls."""
        topic, number = self.place.get("topic"), self.place.get("partition")
        return None if topic is None or number is None else TopicPartition(topic, number)

    @property
    def offsets(self) -> range:
        """The offsets of the records."""
        last: int = self.place.get("offset", -1)
        return range(last - self.records + 1, last + 1)

    def holds(self, other: SlowCall) -> bool:
        """Whether another call is this one again, or a part of it."""
        if self.partition is None:
            return (self.what, self.place) == (other.what, other.place)
        return other.partition == self.partition and other.offsets.stop - 1 in self.offsets

    def __str__(self) -> str:
        return f"{self.what} took {self.seconds:.1f} s"

    def too_slow(self, name: str, limit_s: float, what_happens: str) -> ProcessingError:
        """Returns the error to fail with when the call took longer than a setting allows."""
        return ProcessingError(
            f"{self} in user code, longer than {name} ({limit_s * 1000:.0f}): {what_happens}, so it would never be"
            f" committed. Make it faster, or raise {name}",
            **self.place,
        )


class UserCalls:
    """Keeps what is known of the calls of user code since the last commit."""

    def __init__(self) -> None:
        self.slowest: SlowCall | None = None
        self._names: set[str] = set()
        self.committed: set[str] = set()
        """Calls that were not for a record, such as punctuations, whose effects the last commit held."""
        self.late: list[bool] = []
        """Not empty if the turn is over, as another thread has seen (`Pace.look`): read after each record."""
        self.cursor: Cursor | None = None
        """The cursor of the task whose records are processed now, one after the other."""

    def record(self, seconds: float, what: str, place: dict[str, Any]) -> None:
        """Records a call that was not for one record."""
        self._names.add(what)
        if seconds > SLOW_CALL_S:
            self.took(SlowCall(seconds, what, place))

    @property
    def message(self) -> Any:
        """The message that is processed now; ``None`` between tasks; any thread may ask."""
        cursor = self.cursor
        return None if cursor is None else cursor.message

    def took(self, call: SlowCall) -> None:
        """Keeps a slow call, if none was slower."""
        if self.slowest is None or call.seconds > self.slowest.seconds:
            self.slowest = call

    def begin(self) -> None:
        """Begins to keep them again, after a commit."""
        self.slowest = None
        self.committed, self._names = self._names, set()


class DrainLimit:
    """Limits the records between two commits, so that the caches that they fill are drained in time.

    :param drain_s: how long a drain may take.
    """

    def __init__(self, drain_s: float) -> None:
        self._drain_s = drain_s
        self._records = 0
        """How many were processed since the last commit."""
        self._most = NO_LIMIT

    def learn_from(self, former: DrainLimit) -> None:
        """Takes over how long drains took, from before the last join of the group."""
        self._most = former._most

    def processed(self, records: int) -> None:
        """Counts records that were processed."""
        self._records += records

    @property
    def records_left(self) -> int:
        """Returns how many records may be processed before the next commit."""
        return self._most - self._records

    def drained(self, seconds: float) -> None:
        """Records the time of a drain, so that the next one takes no longer than it may."""
        per_record = seconds / max(1, self._records)
        self._most = max(1, int(self._drain_s / per_record)) if per_record > 0 else NO_LIMIT

    def begin(self) -> None:
        """Begins to count again, after a commit."""
        self._records = 0


def _no() -> bool:
    return False


class Pace:
    """Decides when a turn of a stream thread ends, from one join of the group to its end.

    :param transaction_timeout_s: of the producer; ``None`` without transactions.
    :param poll_interval_s: how long the consumer may go without a call.
    :param is_full: whether memory must be freed by a commit.
    """

    def __init__(
        self,
        clock: Clock,
        transaction_timeout_s: float | None,
        poll_interval_s: float,
        is_full: Callable[[], bool] = _no,
    ) -> None:
        self._now = clock.monotonic
        self._is_full = is_full
        self.stopping: Callable[[], bool] = _no
        """Whether the thread is asked to end."""
        self.transaction_timeout_s = transaction_timeout_s
        self.poll_interval_s = poll_interval_s
        shortest = min(poll_interval_s, transaction_timeout_s or poll_interval_s)
        # A part of the limit: the drain of the caches and the commit have to be over before it as well.
        self._turn_s = min(TURN_S, shortest / 4)
        self._until = self._checked = 0.0
        self.over = False
        """Whether the turn is over, as of the last check."""
        self.served: TaskId | None = None
        """The task that had the last turn, if others have to wait for the next one."""
        self.calls = UserCalls()
        self.drains = DrainLimit(min(DRAIN_S, shortest / 4))

    def begin_turn(self, commit_due: float) -> None:
        """Begins a turn of the thread's tasks.

        :param commit_due: when the next commit is due, in seconds of the clock; one record is processed all the same.
        """
        now = self._checked = self._now()
        self._until = min(max(commit_due, now + min(TURN_MIN_S, self._turn_s)), now + self._turn_s)
        self.over = False
        self.calls.late.clear()

    def ends_here(self) -> bool:
        """Checks the clock between two tasks; returns whether the turn is over."""
        now = self._checked = self._now()
        self.over = self.over or now >= self._until or self.stopping()
        return self.over

    def last_served(self) -> TaskId | None:
        """Returns the task behind which this turn begins; ``None`` if the last one reached all of them."""
        served, self.served = self.served, None
        return served

    def look(self) -> None:
        """Notes that the turn is over, while a record is being processed; called by another thread."""
        if not self.calls.late and (self._now() >= self._until or self.stopping()):
            self.calls.late.append(True)

    def begin_run(self) -> None:
        """Begins the time that the next :meth:`check` measures."""
        self._checked = self._now()

    def check(self, run: int, slow: Callable[[], tuple[str, dict[str, Any]]]) -> int:
        """Checks the clock after a run of records; returns how many are to be processed before the next check.

        :attr:`over` says whether there is a next one in this turn.

        :param slow: returns what the last record was, and its place.
        """
        now = self._now()
        took = now - self._checked
        self._checked = now
        if now >= self._until or self.stopping() or self._is_full():
            self.over = True
        if took <= CHECK_INTERVAL_S:
            return run * 2 if took <= CHECK_INTERVAL_S / 2 and run < RUN_MAX else run
        if took > SLOW_CALL_S:
            self.calls.took(SlowCall(took, *slow(), records=run))
        return max(1, int(run * CHECK_INTERVAL_S / took))

    @property
    def poll_is_late(self) -> bool:
        """Whether a call since the last commit took so long that the member was removed from the group."""
        slowest = self.calls.slowest
        return slowest is not None and slowest.seconds >= self.poll_interval_s

    def record_drain(self, seconds: float) -> None:
        """Records the time of a drain, which calls user code."""
        if seconds > SLOW_CALL_S:
            self.calls.took(SlowCall(seconds, DRAIN, {}))
        self.drains.drained(seconds)

    def committed(self) -> None:
        """Begins to measure again, after a commit."""
        self.calls.begin()
        self.drains.begin()
