"""The state that the tasks of one thread share while records are followed: the current record, and where steps go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.topology.partitioner import partition_for_key
from state.row_format.row_probe import RowAccess
from streams.kafka.producing.record_collector import Sent
from streams.runtime.tracing.rules import TraceRules
from streams.runtime.tracing.steps import ABSENT, Texts, TraceStep, log_step

if TYPE_CHECKING:
    from streams.config import StreamsConfig

log = logging.getLogger("streams.trace")


class Followed:
    """A record that is followed through one task.

    :param task: the task.
    :param began: when the task read it, in seconds of the tracer's time.
    """

    __slots__ = ("began", "id", "task")

    def __init__(self, id_: str, task: str, began: float) -> None:
        self.id = id_
        self.task = task
        self.began = began


class HeldChange(NamedTuple):
    """A put of a followed record that waits in a buffer."""

    followed: Followed
    key: Any
    value: Any
    at: float

    def waited_us(self, now: float) -> int:
        """Returns for how long it has waited."""
        return int((now - self.at) * 1_000_000)


class StoreCall:
    """A call of a store that is going on."""

    __slots__ = ("accesses", "key", "value")

    def __init__(self, key: Any, value: Any) -> None:
        self.key = key
        self.value = value
        self.accesses: list[RowAccess] = []


class Tracer:
    """Used by one thread.

    :param take: gets the steps, in order.
    :param now: seconds that never go back, for times between steps; the clock's if not given.
    """

    def __init__(
        self,
        rules: TraceRules,
        clock: Clock,
        take: Callable[[TraceStep], None] = log_step,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.rules = rules
        self.now = now or clock.monotonic
        self._clock = clock
        self._take = take
        self.current: Followed | None = None
        """The current record, if it is followed."""
        self.node: str | None = None
        """The current node, also for records that are not followed."""
        self.call: StoreCall | None = None
        """The current call of a store."""
        self.outcomes = 0
        """Counts what the nodes have done with followed records: forwarded, sent or dropped them."""
        self.deferred: list[TraceStep] | None = None
        """Where steps wait until the call of a store that they are a part of has its own line."""
        self.failure: BaseException | None = None
        """The error that a line was written about, on its way through the nodes."""
        self.sink: tuple[Any, Any] | None = None
        """Key and value of what a sink is about to send."""
        self.mutes_producer = False
        """Whether what is produced has a line already."""

    @classmethod
    def of(cls, config: StreamsConfig, clock: Clock) -> Tracer | None:
        """The tracer of a thread, which writes to the log; ``None`` if nothing is followed."""
        rules = TraceRules.of(config)
        return None if rules is None else cls(rules, clock)

    @contextmanager
    def at(self, followed: Followed | None, node: str | None, call: StoreCall | None = None) -> Iterator[None]:
        """Marks what happens within as done for a record, in a node, and by a call of a store."""
        before = self.current, self.node, self.call
        self.current, self.node, self.call = followed, node, call
        try:
            yield
        except BaseException as error:
            if self.failure is error and before[1] is None:
                self.failure = None  # it leaves the nodes
            raise
        finally:
            self.current, self.node, self.call = before

    def step(
        self,
        followed: Followed,
        step: str,
        *,
        place: str | None = None,
        key: Any = ABSENT,
        value: Any = ABSENT,
        old: Any = ABSENT,
        note: str = "",
        at: float | None = None,
        node: str | None = None,
    ) -> None:
        """Takes one step of a followed record down.

        :param at: when it began; now if not given.
        :param node: the current node if not given.
        """
        now = self.now() if at is None else at
        made = TraceStep(
            record=followed.id,
            step=step,
            node=node or self.node,
            place=place,
            key=None if key is ABSENT else key,
            value=None if value is ABSENT else value,
            old=None if old is ABSENT else old,
            note=note,
            us=int((now - followed.began) * 1_000_000),
            time_ms=self._clock.time_ms(),
            task=followed.task,
            texts=Texts(key, value, old),
        )
        if self.deferred is not None:
            self.deferred.append(made)
        else:
            self._take(made)

    def release(self, steps: list[TraceStep]) -> None:
        """Takes down what was deferred."""
        if self.deferred is not None:
            self.deferred += steps
        else:
            for step in steps:
                self._take(step)

    def sent(self, partition_count: Callable[[str], int], *, chooses_by_key: bool = True) -> Sent:
        """Returns what takes each record that was handed to the producer down.

        :param partition_count: of a topic.
        :param chooses_by_key: whether a record with a key and without a partition goes to murmur2 of the key.
        """

        def partition_of(topic: str, key: bytes | None, partition: int) -> int | str:
            """Returns the partition as far as it is known; the client chooses for a record without a key."""
            if partition >= 0:
                return partition
            try:
                count = partition_count(topic)
            except StreamsError:
                return "?"
            if count == 1:
                return 0
            return "?" if key is None or not chooses_by_key else partition_for_key(bytes(key), count)

        def sent(topic: str, value: bytes | None, key: bytes | None, partition: int, timestamp: int) -> None:
            if self.current is None or self.mutes_producer:
                return
            shown_key, shown_value = self.sink or (key, value)
            what = "handed to the producer" if self.sink is not None else "handed to the producer, a dead letter"
            self.outcomes += 1
            place = f"{topic}-{partition_of(topic, key, partition)}"
            note = f"{what}, timestamp {timestamp}"
            self.step(self.current, "send", place=place, key=shown_key, value=shown_value, note=note)

        return sent


def warn_if_unseen(config: StreamsConfig) -> None:
    """Warns, once for an application, if records are followed and their lines are not logged."""
    if TraceRules.of(config) is not None and not log.isEnabledFor(logging.INFO):
        log.warning(
            "records are followed, and no line of it is shown: set the level of logger streams.trace to INFO, or"
            " take out trace.keys and trace.every"
        )
