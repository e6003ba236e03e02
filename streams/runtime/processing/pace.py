"""How long a stream thread goes on processing before it sees to what else is due: a commit, the consumer, a stop.

The clock is looked at between records, each time about as much work was done as makes the look cheap: every few dozen
records of a fast topology, and after each record of a slow one (docs/decisions/0021-the-clock-between-records.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from processor_api.clock import Clock
from processor_api.errors import ProcessingError
from processor_api.task_id import TaskId, TopicPartition

__all__ = ["Pace", "SlowCall"]

LOOK_INTERVAL_S = 200e-6
"""Of work between two looks, which cost about a microsecond each."""
RUN_MAX = 128
"""Records between two looks, at most."""
TURN_S = 0.1
"""The longest time between two calls of the consumer, as far as user code lets it be."""
TURN_MIN_S = 0.01
"""What a turn may take when a commit is due already: records that came together are committed together."""
DRAIN_S = 5.0
"""What the drain of the caches may take at a commit: user code behind a cache runs there."""
WORTH_TELLING_S = 0.1


class _HasId(Protocol):
    id: TaskId


T = TypeVar("T", bound=_HasId)

DRAIN = "the drain of the caches"


class SlowCall(NamedTuple):
    """The longest that user code took since the last commit."""

    seconds: float
    what: str
    """The record or the punctuation."""
    place: dict[str, Any]
    records: int = 1
    """As many records it was, up to the one at the place."""

    @property
    def partition(self) -> TopicPartition | None:
        """Of the record; ``None`` for other calls."""
        topic, number = self.place.get("topic"), self.place.get("partition")
        return None if topic is None or number is None else TopicPartition(topic, number)

    @property
    def offsets(self) -> range:
        """Where the record is."""
        last: int = self.place.get("offset", -1)
        return range(last - self.records + 1, last + 1)

    def holds(self, other: SlowCall) -> bool:
        """Whether the other one is the same call again, or a part of it."""
        if self.partition is None:
            return (self.what, self.place) == (other.what, other.place)
        return other.partition == self.partition and other.offsets.stop - 1 in self.offsets

    def __str__(self) -> str:
        return f"{self.what} took {self.seconds:.1f} s"

    def too_slow(self, name: str, limit_s: float, what_happens: str) -> ProcessingError:
        """What to fail with when it took longer than a setting allows."""
        return ProcessingError(
            f"{self} in user code, longer than {name} ({limit_s * 1000:.0f}): {what_happens}, so that it would never be"
            f" committed. Make it quicker, or raise {name}",
            **self.place,
        )


def _no() -> bool:
    return False


class Pace:
    """Of one life of a stream thread.

    :param transaction_timeout_s: of the producer; ``None`` without transactions.
    :param poll_interval_s: how long the consumer may go without a call.
    :param is_full: whether memory has to be freed by a commit.
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
        self._turn_s = min(TURN_S, shortest / 4)
        self._drain_s = min(DRAIN_S, shortest / 4)
        self._until = self._looked = 0.0
        self.over = False
        """Whether the turn is over, as of the last look."""
        self.served: TaskId | None = None
        """The task that was the last to have a turn, where others wait for the next one."""
        self.slowest: SlowCall | None = None
        self._calls: set[str] = set()
        self.committed_calls: set[str] = set()
        """Calls for no record, such as punctuations, that the last commit held the effects of."""
        self._records = 0
        """Processed since the last commit."""
        self._records_max = 1 << 62
        """How many may be processed between two commits, for caches to be drained in time."""

    def learn_from(self, former: Pace) -> None:
        """Of the life before: how long drains took."""
        self._records_max = former._records_max

    # ------------------------------------------------------------------ turns

    def begin_turn(self, commit_due: float) -> None:
        """Before the tasks of a thread process.

        :param commit_due: when the next commit is due, in seconds of the clock; one record is processed all the same.
        """
        now = self._looked = self._now()
        self._until = min(max(commit_due, now + min(TURN_MIN_S, self._turn_s)), now + self._turn_s)
        self.over = False

    def ends_here(self) -> bool:
        """Looks, between two tasks."""
        now = self._looked = self._now()
        self.over = self.over or now >= self._until or self.stopping()
        return self.over

    def in_turn(self, tasks: list[T]) -> list[T]:
        """The tasks in the order of this turn: those first that the last one did not come to."""
        served, self.served = self.served, None
        last = next((number for number, task in enumerate(tasks) if task.id == served), -1)
        return tasks[last + 1 :] + tasks[: last + 1]

    def begin_run(self) -> None:
        """What follows is measured by the next :meth:`look`."""
        self._looked = self._now()

    def look(self, run: int, slow: Callable[[], tuple[str, dict[str, Any]]]) -> int:
        """Looks, after so many records; returns how many go before the next look, if the turn is not :attr:`over`.

        :param slow: tells what the last record was.
        """
        now = self._now()
        took = now - self._looked
        self._looked = now
        if now >= self._until or self.stopping() or self._is_full():
            self.over = True
        if took <= LOOK_INTERVAL_S:
            return run * 2 if took <= LOOK_INTERVAL_S / 2 and run < RUN_MAX else run
        if took > WORTH_TELLING_S:
            self._slow(SlowCall(took, *slow(), records=run))
        return max(1, int(run * LOOK_INTERVAL_S / took))

    # ------------------------------------------------------------------ what takes long

    def took(self, seconds: float, what: str, place: dict[str, Any]) -> None:
        """A call of user code that was not for one record took so long."""
        self._calls.add(what)
        if seconds > WORTH_TELLING_S:
            self._slow(SlowCall(seconds, what, place))

    def _slow(self, call: SlowCall) -> None:
        if self.slowest is None or call.seconds > self.slowest.seconds:
            self.slowest = call

    @property
    def poll_is_late(self) -> bool:
        """Whether a call since the last commit took so long that the group has thrown the member out."""
        return self.slowest is not None and self.slowest.seconds >= self.poll_interval_s

    def processed(self, records: int) -> None:
        self._records += records

    @property
    def records_left(self) -> int:
        """How many records may be processed before the next commit."""
        return self._records_max - self._records

    def drained(self, seconds: float) -> None:
        """The drain of a commit took so long: the next one is to take no longer than it may."""
        if seconds > WORTH_TELLING_S:
            self._slow(SlowCall(seconds, DRAIN, {}))
        per_record = seconds / max(1, self._records)
        self._records_max = max(1, int(self._drain_s / per_record)) if per_record > 0 else 1 << 62

    def committed(self) -> None:
        """A new measure begins."""
        self._records = 0
        self.slowest = None
        self.committed_calls, self._calls = self._calls, set()
