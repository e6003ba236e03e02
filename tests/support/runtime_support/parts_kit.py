"""A task whose results leave in parts, driven turn by turn, with a commit or a kill between any two parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processor_api.clock import ManualClock
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.task import TaskState

__all__ = ["Case", "Given", "PartsKit", "Row", "all_at_once", "killed_after_each_commit", "same_in_parts"]

Row = tuple[bytes | None, bytes | None, int]
Given = tuple[str, bytes | None, int, Any]
"""Topic, key, timestamp in ms and headers of a record."""


def value_of(record: Given) -> bytes | None:
    """The value of a record: ``v`` and its timestamp."""
    return f"v{record[2]}".encode()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A topology, with settings and the records that it gets."""

    topology: Topology
    settings: Mapping[str, Any]
    records: Sequence[Given]
    value_of: Callable[[Given], bytes | None] = value_of
    out: str = "out"
    """The topic of what it sends in parts."""


class PartsKit(TaskKit):
    """A task in a thread in which something else is due whenever the clock is looked at."""

    def __init__(self, directory: Path, case: Case, *, in_parts: bool = True, **options: Any) -> None:
        self.pace = Pace(ManualClock(), None, 300.0, lambda: True)
        self.case = case
        super().__init__(case.topology, directory, case.settings, pace=self.pace if in_parts else None, **options)

    def feed(self, starts: Mapping[str, int] | None = None) -> None:
        """Hands over the records, of each topic from an offset on."""
        offsets: dict[str, int] = {}
        for record in self.case.records:
            topic, key, timestamp, headers = record
            offset = offsets[topic] = offsets.get(topic, -1) + 1
            value = self.case.value_of(record)
            if offset < (starts or {}).get(topic, 0):
                self._input.produce(topic, value, key, 0, None, None, timestamp, headers)
            else:
                self.add(topic, key, value, timestamp, headers)

    def turn(self) -> None:
        self.pace.begin_turn(math.inf)
        self.task.process(1)

    def turns(self) -> int:
        """Takes turns, with a commit behind each, until all is processed; returns how many there were."""
        count = 0
        while self.task.has_records():
            self.turn()
            self.commit()
            count += 1
        return count

    def results(self) -> list[Row]:
        """Returns what was sent so far."""
        return self.sent(self.case.out)

    def steps(self) -> list[int]:
        """Takes turns until all is processed; returns how many results each sent."""
        sent = [0]
        while self.task.has_records():
            self.turn()
            self.commit()
            sent.append(len(self.results()))
        return [later - earlier for earlier, later in itertools.pairwise(sent)]


def all_at_once(directory: Path, case: Case) -> list[Row]:
    """Returns what a task sends that has no thread, so that nothing leaves in parts."""
    with PartsKit(directory, case, in_parts=False) as kit:
        kit.feed()
        while kit.task.has_records():
            kit.task.process(1)
            kit.commit()
        return kit.results()


def killed_after_each_commit(directory: Path, case: Case) -> list[list[Row]]:
    """Returns what two lives send together, the first of which was killed after a commit: for each commit. What it sent
    behind the commit is not counted, as under exactly-once."""
    with PartsKit(directory / "count", case) as kit:
        kit.feed()
        turns = kit.turns()
    found = []
    for killed_after in range(1, turns):
        place = directory / str(killed_after)
        with PartsKit(place, case) as kit:
            kit.feed()
            for _ in range(killed_after):
                kit.turn()
                kit.commit()
            committed, offsets = kit.results(), kit.task.inputs.known_offsets
            kit.turn()  # sent, and not committed
        with PartsKit(place, case, start=False) as again:
            again.task.become(TaskState.RESTORING)
            again.task.start(again.collector, offsets)
            again.feed({partition.topic: one.offset for partition, one in offsets.items()})
            again.turns()
            found.append([*committed, *again.results()])
    return found


def same_in_parts(folder: Path, case: Case, part: int) -> list[Row]:
    """Checks that parts have the results that come without them, in the same order; returns these."""
    expected = all_at_once(folder / "at-once", case)
    with PartsKit(folder / "parts", case) as kit:
        kit.feed()
        assert max(kit.steps()) <= 2 * part
        assert kit.results() == expected
    return expected
