"""Times that are drawn from an operator's own borders: a window's end, its end and grace, a gap, what a store keeps.

A time is the largest one so far and a border, or a border less, and one more or less than that. Times at random meet
such a border now and then; here each record is at one, or right beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from processor_api.serde import Serdes
from simulation_support.operators import OPERATORS
from simulation_support.stateful import EMITS, STRINGS
from streams import StreamsBuilder
from streams.testing import TopologyTestDriver

__all__ = ["Inputs", "Results", "borders_of", "drawn_at_borders", "results_of"]

S = Serdes.STRING
GRACE: Mapping[str, tuple[int, int]] = {
    "windows": (10, 7),
    "sliding": (6, 7),
    "sessions": (5, 7),
    "streams": (6, 4),
    "one stream": (6, 4),
    "suppressed table": (8, 0),
    "stream and versions": (5, 0),
}
"""Size and grace of the operators whose names contain these words (`simulation_support.operators`)."""
Inputs = Sequence[tuple[str, str, str | None, int]]
Results = Mapping[str, Sequence[tuple[str | None, int]]]


def borders_of(operator: str) -> list[int]:
    """The distances in time at which an operator does something else."""
    size, grace = next((found for word, found in reversed(GRACE.items()) if word in operator), (10, 7))
    return [0, size, grace, size + grace, 2 * size, 2 * size + grace, 2 * (size + grace)]


def drawn_at_borders(operator: str, chance: Random, count: int = 50) -> Inputs:
    """Draws records of the operator's topics: topic, key, value and time."""
    borders, now, found = borders_of(operator), 100, list[tuple[str, str, str | None, int]]()
    for number in range(count):
        step = chance.choice(borders) + chance.choice((-1, 0, 0, 1))
        time = max(0, now + (step if chance.random() < 0.35 else -step))
        now = max(now, time)
        found.append((chance.choice(OPERATORS[operator].topics), chance.choice("xy"), f"v{number}", time))
    # Records far behind all others bring out what waits.
    found += [
        (topic, key, f"end{n}", now + 1000 * (n + 1))
        for n in range(2)
        for topic in OPERATORS[operator].topics
        for key in "xy"
    ]
    return found


def results_of(operator: str, inputs: Inputs, settings: Mapping[str, Any]) -> Results:
    """The results of each key, in order."""
    config = {**STRINGS, **EMITS, **settings}
    builder = StreamsBuilder()
    OPERATORS[operator].build(builder)
    found: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    with TopologyTestDriver(builder.build(config), config) as driver:
        topics = {topic: driver.create_input_topic(topic, S, S) for topic in OPERATORS[operator].topics}
        for topic, key, value, time in inputs:
            topics[topic].pipe_input(key, value, timestamp=time)
        for out in driver.create_output_topic("out", S, S).read_records():
            found[out.key].append((out.value, out.timestamp))
    return found
