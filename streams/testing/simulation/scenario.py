"""The input of a simulation: a topology, its topics and records, and the checks of the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from processor_api.errors import UnreachableError
from processor_api.record import HeaderList


class InputRecord(NamedTuple):
    """A record to be written to an input topic; key and value are bytes, or texts that are encoded as UTF-8."""

    key: bytes | str | None
    value: bytes | str | None
    timestamp: int = 0
    """The timestamp in ms."""
    partition: int = -1
    """-1 leaves the choice to the key."""
    headers: HeaderList | None = None


class OutputRecord(NamedTuple):
    """A committed record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    partition: int
    offset: int
    headers: HeaderList | None


@dataclass(frozen=True)
class Outcome:
    """The state of the cluster when all input was processed, after everything has healed."""

    exactly_once: bool
    inputs: Mapping[str, Sequence[InputRecord]]
    topics: Mapping[str, Sequence[OutputRecord]]
    """All topics by name, with the committed records that are still in them, partition by partition."""
    overtaken: bool = False
    """Whether, at least once, a worker may have logged changes after another one had taken its tasks over: it was
    frozen or cut off at that moment. Aggregates may be too low then (semantics 194)."""

    def records(self, topic: str) -> Sequence[OutputRecord]:
        """Returns the committed records of a topic; none if there is no such topic."""
        return self.topics.get(topic, ())

    def table(self, topic: str) -> dict[bytes, bytes]:
        """Returns the last value of each key of a topic; keys whose last value is null are not in it."""
        found: dict[bytes, bytes] = {}
        for record in self.records(topic):
            if record.key is not None:
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = record.value
        return found


class SimulatedService:
    """A service outside of Kafka that records need, such as a schema registry: it answers the serdes and functions of a
    scenario, unless the schedule has taken it away.

    ::

        service = SimulatedService()

        def read(data):
            service.ask()
            return data.decode()
    """

    def __init__(self) -> None:
        self._now: Callable[[], float] = lambda: 0.0
        self._away_until = 0.0

    def begin(self, now: Callable[[], float]) -> None:
        """Begins a run, in which it is there.

        :param now: returns the simulated time in seconds.
        """
        self._now, self._away_until = now, 0.0

    def go_away(self, seconds: float) -> None:
        """Answers nothing for a time."""
        self._away_until = max(self._away_until, self._now() + seconds)

    def come_back(self) -> None:
        """Answers from now on."""
        self._away_until = 0.0

    def ask(self) -> None:
        """Returns if the service is there.

        :raises UnreachableError: if it is away.
        """
        if self._now() < self._away_until:
            raise UnreachableError("the simulated service is away")


Check = Callable[[Outcome], None]
"""Raises ``AssertionError`` for what should not be."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """An application and its input.

    :param topology: makes the topology; called by each worker.
    :param inputs: records by topic, written in this order while the workers run.
    :param checks: what has to hold at the end.
    :param topics: partitions of the topics that are there at the start; input topics that are not named have one
        partition.
    :param settings: of the application.
    :param restores: whether state that is restored from the changelogs must equal the state of the workers.
    """

    topology: Callable[[], Any]
    inputs: Mapping[str, Sequence[InputRecord]]
    checks: Sequence[Check] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    restores: bool = True
    feeding: Literal["bit by bit", "before", "at once"] = "bit by bit"
    """When the input is written: while workers run, before the first starts, or in one moment while they start."""
    growing: Set[str] = frozenset()
    """Topics that may be given more partitions."""
    cut: Set[str] = frozenset()
    """Topics of which records may be deleted that were not read yet."""
    deployed: Callable[[], Any] | None = None
    """Makes the topology after a deployment, which the schedule may do once; the first one if there is none."""
    rolls: bool = False
    """Whether a deployment may go from worker to worker, while others run the first topology: the layouts are equal."""
    passing: Mapping[str, int] = field(default_factory=dict)
    """Topics that come and go, with their partitions; nothing is written to them."""
    remade: Set[str] = frozenset()
    """Stores whose changelogs may be deleted and made again; then a run may also end with the refusal of a worker that
    lacks the store."""
    losing: Set[str] = frozenset()
    """Stores whose changelogs may lose their last records. Where the store is complete nowhere, its rows are lost with
    them: the checks are made only if a lone worker has it, and whether copies and changelogs agree always."""
    unread: Set[str] = frozenset()
    """Input topics for which no offsets are committed, such as those of global tables."""
    service: SimulatedService | None = None
    """A service that serdes or functions of the scenario ask, and that may be away for a time."""
    late: Set[str] = frozenset()
    """Topics that are made when their first record is written."""
