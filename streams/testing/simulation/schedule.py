"""The schedule of a simulation: the events besides the application, drawn from the seed or written down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from streams.testing.simulation.network import FAULTS, UNKNOWN_ERROR

HOUR_S = 3600.0

KINDS = {
    "kill": "kills the process; it starts again on its own state directory",
    "kill, empty": "kills the process; it starts again on an empty state directory",
    "kill, swap": "kills the process; it starts again on a state directory that another one had",
    "power": "cuts the power: writes that were not synced are lost",
    "damage": "kills the process and damages a database of it",
    "freeze": "stops the process for a time; it continues from the next instruction",
    "stop": "closes the application in order; it starts again",
    "join": "starts one more worker",
    "fault": "makes a call fail",
    "outage": "makes all brokers unreachable for a time",
    "event": "gives consumers an error, after which they continue or are replaced",
    "fence": "makes another producer take the transactional ids of the worker",
    "suspect": "has another process take over the worker, dead or alive: fences it and removes its members",
    "expire": "ends open transactions of the worker by their timeout",
    "evict": "removes the worker's members from the group",
    "clock": "sets the wall clock to another time",
    "leap": "lets hours pass in which nothing happens",
    "slow": "makes the user's code slow for the next record",
    "raise": "makes the user's code fail at the next record",
    "add thread": "adds a stream thread",
    "remove thread": "removes a stream thread",
    "pause": "pauses the application for a time",
    "full disk": "lets no write to the disk succeed for a time",
    "clean": "compacts the internal topics, and deletes what is due",
    "trim": "deletes records that were processed and committed",
    "cut": "deletes records that were not read yet, where the scenario allows it",
    "overtake": "pauses the application until retention has deleted what it has not read, where the scenario allows it",
    "truncate": "deletes records of changelogs that later ones replace",
    "registry away": "takes a service away for a time that records need, where the scenario has one",
    "partitions": "gives a topic one more partition, where the scenario allows it",
    "made again": "deletes changelogs and makes them again, where the scenario allows it",
    "topic": "makes a topic that comes and goes, or deletes it, where the scenario has some",
    "lost tail": "elects leaders of changelogs that lack their last records, where the scenario allows it",
    "deploy": "stops all workers, or one, which start again with a changed topology, where the scenario has one",
}
"""The kinds of actions, and what each does."""

_WEIGHTS = {
    "kill": 8, "kill, empty": 4, "kill, swap": 3, "power": 3, "damage": 2, "freeze": 8, "stop": 3, "join": 2,
    "fault": 14, "outage": 4, "event": 2, "fence": 3, "suspect": 5, "expire": 3, "evict": 3, "clock": 2, "leap": 2,
    "slow": 4, "raise": 3, "add thread": 2, "remove thread": 2, "pause": 2, "full disk": 2, "clean": 2, "trim": 2,
    "cut": 3, "overtake": 3, "truncate": 3, "partitions": 3, "made again": 3, "topic": 3,
    "registry away": 4, "lost tail": 3, "deploy": 3,
}  # fmt: skip

_MOMENTS = (
    "commit_transaction", "commit_transaction done", "send_offsets", "send_offsets done", "begin_transaction", "commit",
    "commit done", "flush", "write database", "init_transactions done", "committed done", "assign", "produce",
    "open database", "abort_transaction", "subscribe", "close consumer", "flush database",
)  # fmt: skip
"""Calls at which it is worth being killed or frozen."""

_EVENTS = (
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "NOT_LEADER_FOR_PARTITION", "COORDINATOR_NOT_AVAILABLE", "_TIMED_OUT",
    "FENCED_LEADER_EPOCH", "_DESTROY_BROKER", "_STATE", UNKNOWN_ERROR,
)  # fmt: skip


@dataclass(frozen=True)
class Action:
    """An action of the schedule.

    :param kind: one of :data:`KINDS`.
    :param at: the step from which on it happens.
    :param worker: to which worker, by its number from 0.
    :param call: it waits for this call of the worker, and happens before it; ``"... done"`` is after it.
    :param seconds: for how long, or how much later.
    :param detail: of a fault, what it does (`streams.testing.simulation.network.FAULTS`); of an event, its name.
    """

    kind: str
    at: int = 0
    worker: int = 0
    call: str = ""
    seconds: float = 0.0
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no action {self.kind!r}; there are {', '.join(KINDS)}")
        if self.kind == "fault" and self.call not in FAULTS.get(self.detail, ()):
            raise ValueError(f"no call {self.call!r} can meet the fault {self.detail!r}: see FAULTS")

    def __str__(self) -> str:
        where = f" at {self.call!r}" if self.call else ""
        what = f"{self.kind} ({self.detail})" if self.detail else self.kind
        seconds = f", {self.seconds:g} s" if self.seconds else ""
        return f"from step {self.at}: {what} worker {self.worker}{where}{seconds}"


@dataclass(frozen=True)
class Shape:
    """The shape of a run: its workers, threads and settings."""

    workers: int
    threads: int
    switching: float
    """The probability that another thread continues after a step."""
    replaces_threads: bool
    """Whether threads that fail are replaced; otherwise the worker ends, and is started again."""
    wraps: bool
    """Whether the user's code can be slow and fail, which takes a wrapper around each processor."""
    steps: int
    """The number of steps for which the schedule acts."""


def draw_shape(chance: Random, *, workers: int, threads: int, wraps: bool) -> Shape:
    """Draws the shape of a run.

    :param workers: the most workers at the start.
    :param threads: the most stream threads of each.
    """
    return Shape(
        workers=chance.randint(1, workers),
        threads=chance.randint(1, threads),
        switching=chance.choice((0.02, 0.1, 0.3, 0.6)),
        replaces_threads=chance.random() < 0.5,
        wraps=wraps and chance.random() < 0.5,
        steps=chance.choice((1500, 2500, 4000)),
    )


def draw_actions(chance: Random, shape: Shape, kinds: Sequence[str]) -> list[Action]:
    """Draws the actions of a seed, in order."""
    count = chance.choice((0, 1, 1, 2, 2, 3, 4, 5, 7))
    weights = [_WEIGHTS[kind] for kind in kinds]
    drawn = [_draw(chance, shape, kind) for kind in chance.choices(kinds, weights, k=count)] if kinds else []
    return sorted(drawn, key=lambda action: action.at)


def _draw(chance: Random, shape: Shape, kind: str) -> Action:
    at, worker = chance.randrange(20, shape.steps), chance.randrange(shape.workers)
    call, seconds, detail = "", 0.0, ""
    if kind in ("kill", "kill, empty", "kill, swap", "power", "damage", "freeze", "suspect"):
        call = chance.choice(_MOMENTS) if chance.random() < 0.6 else ""
    if kind == "fault":
        detail = chance.choice(sorted(FAULTS))
        call = chance.choice(FAULTS[detail])
        seconds = chance.choice((0.1, 2.0, 8.0, 30.0))
    elif kind == "event":
        detail = chance.choice(_EVENTS)
    elif kind == "freeze":
        seconds = chance.choice((0.5, 5.0, 12.0, 40.0, 90.0, 400.0))
    elif kind in ("outage", "registry away"):
        seconds = chance.choice((0.2, 3.0, 20.0, 100.0))
    elif kind == "clock":
        seconds = chance.choice((-HOUR_S, -60.0, -1.0, 1.0, 60.0, HOUR_S, 24 * HOUR_S))
    elif kind == "leap":
        seconds = chance.choice((60.0, HOUR_S, 13 * HOUR_S))
    elif kind == "slow":
        seconds = chance.choice((0.5, 5.0, 30.0, 400.0))
    elif kind in ("pause", "overtake"):
        seconds = chance.choice((1.0, 3.0, 15.0))
    elif kind == "full disk":
        seconds = chance.choice((0.3, 3.0, 15.0, 100.0))
    elif kind.startswith(("kill", "power", "damage", "stop")):
        seconds = chance.choice((0.0, 1.0, 8.0, 30.0))
    return Action(kind, at, worker, call, seconds, detail)
