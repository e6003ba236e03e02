"""The network between the clients of a simulation and its broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.client_errors import error_of
from streams.kafka.ports import ClientUnusable, CommitAgain, OffsetAndMetadata, TransactionAborted
from streams.testing.simulation.scheduler import Scheduler, SimulatedProcess

R = TypeVar("R")

API_TIMEOUT_S = 10.0
_QUERIES = ("committed", "beginning_offsets", "end_offsets", "offsets_for_time", "topics", "group_members")
_CHANGES = ("commit", "create_topics", "add_partitions", "delete_records")
_TRANSACTIONS = ("init_transactions", "send_offsets", "commit_transaction", "abort_transaction")
_REPEATABLE = (*_QUERIES, *_CHANGES)
_OF_LEADERS = ("beginning_offsets", "end_offsets", "offsets_for_time", "log_ends")
_OF_COORDINATORS = ("committed", "group_members", "group_offsets", "commit")
_BY_ITSELF = "is fenced by itself"
UNKNOWN_ERROR = "an error that is not known"

ERRORS: Mapping[str, tuple[str, ...]] = {
    "FENCED_LEADER_EPOCH": _OF_LEADERS,
    "NOT_COORDINATOR": _OF_COORDINATORS,
    "_DESTROY_BROKER": (*_OF_LEADERS, *_OF_COORDINATORS, "topic_states"),
    "_DESTROY": (*_OF_LEADERS, "committed", "commit"),
    "_STATE": (*_TRANSACTIONS, "committed", "commit", "end_offsets"),
    UNKNOWN_ERROR: (*_OF_LEADERS, *_OF_COORDINATORS, "topic_states", *_TRANSACTIONS),
}
"""The errors of clients that a call may meet around a pause of a broker, by the client's names."""

FAULTS: Mapping[str, tuple[str, ...]] = {
    "loses the request": (*_QUERIES, *_CHANGES, *_TRANSACTIONS),
    "loses the answer": (*_QUERIES, *_CHANGES, *_TRANSACTIONS),
    "is late": (*_QUERIES, *_CHANGES, *_TRANSACTIONS),
    "answers late": (*_QUERIES, *_CHANGES, *_TRANSACTIONS),
    "does it twice": _REPEATABLE,
    "is in a rebalance": ("commit",),
    "does not come back": ("commit",),
    "wants an abort": ("send_offsets", "commit_transaction"),
    "has a full queue": ("produce",),
    _BY_ITSELF: ("consume", "commit"),
    **ERRORS,
}
"""The faults that a broker, or the way to it, may cause, with the calls that may meet each."""


class ClientGivenUp(ClientUnusable):
    """A call has not come back, so that its client takes no other."""


@dataclass
class Fault:
    """The fault that the next call of a kind meets."""

    kind: str
    call: str
    process: SimulatedProcess | None
    """The process that meets it; ``None`` is any."""
    seconds: float = 0.0


class Network:
    """The network of all clients; the schedule changes its state.

    :param broken: called with a text when something happens that must never happen.
    :param offsets: the committed offsets of the group, as the broker has them.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        broken: Callable[[str], None],
        offsets: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]],
    ) -> None:
        self.scheduler = scheduler
        self.step = scheduler.step
        self.faults: list[Fault] = []
        self.has_events = False
        """Whether there are events for the consumers."""
        self.acts = True
        """Whether requests may meet faults that no schedule has."""
        self._broken = broken
        self._down_until = 0.0
        self._events: list[str] = []
        self._sent: dict[Any, dict[TopicPartition, OffsetAndMetadata]] = {}
        self._offsets = offsets
        self._seen: dict[TopicPartition, int] = {}

    # ------------------------------------------------------------------ chance

    def chance(self, one_in: int) -> bool:
        return self.scheduler.draw() % one_in == 0

    def batch_limit(self, most: int) -> int:
        """Returns how many messages a poll brings at most."""
        return min(most, (1, 2, 3, 7, 50, most, most, most)[self.scheduler.draw() & 7])

    # ------------------------------------------------------------------ calls

    def go_down(self, seconds: float) -> None:
        """Makes all brokers unreachable for a time."""
        self._down_until = max(self._down_until, self.scheduler.now + seconds)
        self.send_event("_ALL_BROKERS_DOWN")

    def heal(self) -> None:
        """Ends all faults."""
        self._down_until = 0.0
        self.faults.clear()
        self.acts = False

    def is_down(self) -> bool:
        return self.scheduler.now < self._down_until

    def down_for(self) -> float:
        return max(0.0, self._down_until - self.scheduler.now)

    def send_event(self, event: str) -> None:
        """Sends the consumers an event with one of their next polls."""
        self._events.append(event)
        self.has_events = True

    def take_events(self) -> list[str]:
        events, self._events, self.has_events = self._events, [], False
        return events

    def fails(self, call: str) -> bool:
        """Whether this call meets a fault that only makes it fail."""
        return self._take(call) is not None if self.faults else False

    def fails_by(self, kind: str, call: str) -> bool:
        """Whether this call meets a fault of a kind."""
        return self._take(call, kind) is not None

    def _take(self, call: str, kind: str | None = None) -> Fault | None:
        thread = self.scheduler.this()
        process = None if thread is None else thread.process
        for fault in self.faults:
            of_kind = fault.kind != _BY_ITSELF if kind is None else fault.kind == kind
            if of_kind and fault.call == call and fault.process in (None, process):
                self.faults.remove(fault)
                return fault
        return None

    def call(self, name: str, do: Callable[[], R], timeout_s: float = API_TIMEOUT_S) -> R:
        """Sends a request and returns its answer."""
        self.step(name)
        if self.is_down():
            self.scheduler.sleep(min(timeout_s, self.down_for()))
            if self.is_down():
                raise RetryableError(f"simulated: no broker answers to {name}")
        fault = self._take(name) if self.faults else None
        result = do() if fault is None else self._meet(fault, do)
        self.step(name + " done")
        return result

    def _meet(self, fault: Fault, do: Callable[[], R]) -> R:
        sleep = self.scheduler.sleep
        if fault.kind in ERRORS:
            if fault.kind == UNKNOWN_ERROR and self.chance(2):
                do()  # whether it was done is not known either
            transactional = fault.call in _TRANSACTIONS
            raise error_of(fault.kind, f"simulated: {fault.call} met {fault.kind}", transactional=transactional)
        if fault.kind == "wants an abort":
            raise TransactionAborted(f"simulated: {fault.call} was refused; abort the transaction")
        if fault.kind == "is in a rebalance":
            raise CommitAgain("simulated: the group is in a rebalance: poll, then commit again")
        if fault.kind in ("loses the request", "is late", "does not come back"):
            sleep(fault.seconds)
        if fault.kind == "does not come back":
            if self.chance(2):
                do()
            raise ClientGivenUp(f"simulated: {fault.call} does not come back, and its client is given up")
        if fault.kind == "loses the request":
            raise RetryableError(f"simulated: no answer to {fault.call}")
        result = do()
        if fault.kind == "does it twice":
            result = do()
        if fault.kind in ("loses the answer", "answers late"):
            sleep(fault.seconds)
        if fault.kind == "loses the answer":
            raise RetryableError(f"simulated: no answer to {fault.call}")
        return result

    # ------------------------------------------------------------------ what must never happen

    def note_commit(self, consumer: Any, do: Callable[[], R]) -> R:
        """Makes a commit without a transaction, and checks the offsets after it."""
        result = do()
        self._check_offsets(consumer.process)
        return result

    def note_offsets(self, producer: Any, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._sent.setdefault(producer, {}).update(offsets)

    def note_transaction(self, producer: Any, do: Callable[[], R]) -> R:
        """Ends a transaction, and checks its offsets."""
        wrote = producer.inner.has_written
        sent = self._sent.pop(producer, {})
        result = do()
        if wrote and not sent:
            self._broken(
                f"{producer.process} committed a transaction that carries no offsets, so that no group fences it"
            )
        self._check_offsets(producer.process)
        return result

    def _check_offsets(self, process: SimulatedProcess) -> None:
        for partition, committed in self._offsets().items():
            before = self._seen.get(partition, 0)
            if committed.offset < before:
                self._broken(f"{process} committed {committed.offset} for {partition}, after {before}")
            self._seen[partition] = committed.offset

    def forget(self, topic: str) -> None:
        """Forgets the offsets of a topic, which was deleted or starts again."""
        for partition in [one for one in self._seen if one.topic == topic]:
            del self._seen[partition]


class GivenUpNetwork(Network):
    """The network of a client that takes no more calls."""

    def __init__(self) -> None: ...

    def __getattribute__(self, name: str) -> Any:
        raise ClientUnusable("simulated: this client was given up")
