"""The setups that `make chaos` goes through, and which faults each of them has."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

__all__ = ["SETUPS", "Setup", "dealt_kinds"]


@dataclass(frozen=True)
class Setup:
    """The configuration of the workers of a run."""

    name: str
    protocol: str
    """``group.protocol``."""
    exactly_once: bool
    threads: int = 1
    workers: int = 3
    processes: int = 1
    """The processes of each worker (``streams run --workers``); with 1 there is no supervisor."""
    standbys: int = 0
    snapshots: bool = False

    @property
    def guarantee(self) -> str:
        return "exactly_once_v2" if self.exactly_once else "at_least_once"

    def __str__(self) -> str:
        parts = [f"group.protocol={self.protocol}", self.guarantee, _many(self.workers, "worker")]
        parts += [f"--workers {self.processes} each"] if self.processes > 1 else []
        parts += [_many(self.threads, "thread") + " each"] if self.threads > 1 else []
        parts += [_many(self.standbys, "standby copy", "standby copies")] if self.standbys else []
        parts += ["snapshots"] if self.snapshots else []
        return ", ".join(parts)


def _many(number: int, one: str, more: str | None = None) -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


SETUPS = (
    Setup("classic", "classic", exactly_once=True, snapshots=True),
    Setup("classic-standbys", "classic", exactly_once=True, threads=2, standbys=1),
    Setup("streams", "streams", exactly_once=True, threads=2, workers=2, processes=2),
    Setup("changelogs", "classic", exactly_once=True, workers=1),
    Setup("classic-at-least-once", "classic", exactly_once=False, threads=2, workers=2, processes=2, standbys=1),
    Setup("streams-processes-at-least-once", "streams", exactly_once=False, workers=2, processes=2, snapshots=True),
    Setup("streams-at-least-once", "streams", exactly_once=False, threads=2, standbys=1, snapshots=True),
)
"""Each pair of a protocol, a guarantee, ``--workers``, standby copies and snapshots is in one of them. In `changelogs`
a single worker has all stores on its disk, so that it can write them into changelogs that are made again."""


def dealt_kinds(kinds: Mapping[str, Sequence[str]], seed: int) -> Iterator[dict[str, str]]:
    """Deals kinds of faults, one to each setup at a time, for ever; every kind comes before any comes much more often.

    What a setup gets depends on the seed alone, not on how many faults it will have.

    :param kinds: the kinds that a setup can have, by its name.
    """
    chance = random.Random(seed)
    dealt: Counter[str] = Counter()
    own: dict[str, Counter[str]] = {name: Counter() for name in kinds}
    able = Counter(chain.from_iterable(kinds.values()))
    while True:
        turn = {}
        for name in chance.sample(sorted(kinds), len(kinds)):
            some = chance.sample(sorted(kinds[name]), len(kinds[name]))
            kind = min(some, key=lambda kind: (dealt[kind], own[name][kind], able[kind]))
            dealt[kind] += 1
            own[name][kind] += 1
            turn[name] = kind
        yield turn
