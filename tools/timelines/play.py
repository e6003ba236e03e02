"""Running a topology record by record, and keeping what each record did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from streams import Serde, Serdes, StreamsBuilder, TopologyTestDriver
from streams.testing import TestRecord

__all__ = ["SECOND", "Play", "Step", "seconds"]

SECOND = 1000
DROPPED = "dropped-records-total"
SETTINGS = {"default.key.serde": "string", "default.value.serde": "string"}


@dataclass(frozen=True)
class Step:
    """A record that was piped in, and what the topology did with it."""

    number: int
    topic: str
    key: str
    value: Any
    time: int
    results: tuple[TestRecord, ...]
    dropped: bool


class Play:
    """A topology in the test driver whose results go to topic ``out``; a context manager.

    :param key_serde: reads the keys of the results.
    :param value_serde: reads their values.
    """

    def __init__(
        self, builder: StreamsBuilder, key_serde: Serde[Any] = Serdes.STRING, value_serde: Serde[Any] = Serdes.STRING
    ) -> None:
        self.driver = TopologyTestDriver(builder, SETTINGS)
        self._out = self.driver.create_output_topic("out", key_serde, value_serde)
        self.steps: list[Step] = []

    def pipe(self, topic: str, records: Iterable[tuple[int, Any]], key: str = "k") -> None:
        """Pipes records of one key, each a time in seconds and a value."""
        for time_s, value in records:
            before = self.driver.metrics()[DROPPED]
            self.driver.create_input_topic(topic).pipe_input(key, value, timestamp=time_s * SECOND)
            dropped = self.driver.metrics()[DROPPED] > before
            results = tuple(self._out.read_records())
            self.steps.append(Step(len(self.steps) + 1, topic, key, value, time_s * SECOND, results, dropped))

    def __enter__(self) -> Play:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.driver.close()


def seconds(time_ms: int) -> str:
    """Returns a time as text: 1500 is "1.5 s", 61000 "61 s"."""
    return f"{time_ms / SECOND:g} s"
