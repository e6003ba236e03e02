"""Runs seeds, and reduces one that fails to the shortest schedule that still fails."""

from __future__ import annotations

import datetime
import gc
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from processor_api.errors import StreamsError
from streams.testing.simulation.scenario import Check, InputRecord, Scenario
from streams.testing.simulation.schedule import KINDS, Action, Shape, draw_actions, draw_shape
from streams.testing.simulation.scheduler import SimulationStuck
from streams.testing.simulation.world import World

_OURS = {"streams", "state", "dsl", "processor_api", "streams_pytest"}
_FREE = {"warnings", "traceback", "linecache"}
"""Modules that may read the time for their own use, besides those that log."""
_CLOCKS = {
    time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns, time.sleep,
    time.gmtime, time.localtime,
}  # fmt: skip
_HINTS = {
    "sleep": "do not wait in a processor; schedule a punctuation",
    "start_new_thread": "do not start threads in a processor",
    "start_joinable_thread": "do not start threads in a processor",
}


class RealWorld(Exception):
    """Raised when a topology reads real time, sleeps or starts threads."""


class Watch:
    """Finds user code that reads real time, sleeps or starts threads, which no seed could repeat.

    It is a profile function (`sys.setprofile`) for the threads of one run; the first thing found is kept.
    """

    def __init__(self) -> None:
        self.seen: RealWorld | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "c_call" or self.seen is not None:
            return
        name = getattr(arg, "__name__", "")
        try:
            known = arg in _CLOCKS
        except TypeError:  # an object without a hash is none of them
            known = False
        if known or name in ("start_new_thread", "start_joinable_thread") or _is_now(name, arg):
            self._found(frame, name)

    def _found(self, frame: FrameType | None, name: str) -> None:
        while frame is not None:
            module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if module in _OURS or module in _FREE or "log" in module:
                return
            if module not in sys.stdlib_module_names:
                hint = _HINTS.get(name, "take the time from the record, or from context.current_system_time_ms()")
                place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                self.seen = RealWorld(
                    f"{frame.f_code.co_qualname} calls {name}() at {place}, so that no seed can be repeated: {hint}"
                )
                return
            frame = frame.f_back


def _is_now(name: str, function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return name in ("now", "utcnow", "today") and isinstance(owner, type) and issubclass(owner, datetime.date)


SHRINKING_RUNS = 60


class SimulationError(StreamsError):
    """Raised for a topology that cannot be simulated, since it does not depend on the seed alone."""


class SimulationFailure(AssertionError):
    """Raised when a seed found something that must never happen, or a check that does not hold.

    ``run`` is the shortest run that still fails; ``str()`` has it step by step, and how to repeat it.
    """

    def __init__(self, text: str, run: Run) -> None:
        super().__init__(text)
        self.run = run


@dataclass(frozen=True)
class Run:
    """The result of one seed, run once."""

    seed: int
    shape: Shape
    actions: Sequence[Action]
    steps: int
    seconds: float
    """Simulated."""
    digest: int
    """The same in each run of the same seed."""
    happened: Sequence[str]
    """The actions of the schedule, in words."""
    trace: Sequence[str]
    """The last steps."""
    failure: BaseException | None = None


@dataclass
class Report:
    """The results of some seeds."""

    seeds: int = 0
    steps: int = 0
    seconds: float = 0.0
    """Simulated."""
    actions: Counter[str] = field(default_factory=Counter)
    """The number of each kind of action."""

    def add(self, run: Run) -> None:
        """Counts a run."""
        self.seeds += 1
        self.steps += run.steps
        self.seconds += run.seconds
        self.actions.update(action.kind for action in run.actions)

    def __str__(self) -> str:
        return f"{self.seeds} seeds, {self.steps} steps, {self.seconds / 3600:.1f} simulated hours"


def simulate(
    topology: Callable[[], Any],
    inputs: Mapping[str, Sequence[InputRecord]],
    checks: Sequence[Check] = (),
    *,
    seeds: Iterable[int] = range(100),
    topics: Mapping[str, int] | None = None,
    settings: Mapping[str, Any] | None = None,
    workers: int = 3,
    threads: int = 2,
    kinds: Collection[str] = tuple(KINDS),
    actions: Sequence[Action] | None = None,
    keep: Sequence[int] | None = None,
    restores: bool = True,
) -> Report:
    """Runs an application with some workers on a broker in memory, once for each seed, and lets things go wrong.

    A seed decides which thread continues after each call of a client, a clock or a disk, and what happens meanwhile
    (:data:`KINDS` has the list). After that all faults end, all input is processed, and the checks get the output.
    Rules that hold for every application are checked too (docs/simulation.md). The same seed gives the same run each
    time.

    :param topology: makes the topology, or a builder; called by each worker when it starts.
    :param inputs: records by topic; they are written bit by bit while the workers run.
    :param checks: called with the `Outcome` of each seed.
    :param topics: partitions by topic, of topics to be made before. Those of the inputs have one if not named, and what
        is written to a topic that there is not makes it, with one.
    :param settings: of the application.
    :param workers: the most workers at the start.
    :param threads: the most stream threads of each.
    :param kinds: which kinds of actions there are.
    :param actions: what happens, instead of what the seeds draw.
    :param keep: of a seed's actions only these, by their numbers from 0; to repeat a failure that was made shorter.
    :param restores: whether the rows of stores, restored on an empty disk, must equal those there were.
    :raises SimulationFailure: for the first seed that fails.
    :raises SimulationError: if the topology reads real time, sleeps, starts threads or draws lots by itself.
    """
    scenario = Scenario(
        topology=topology,
        inputs=inputs,
        checks=checks,
        topics=topics or {},
        settings=settings or {},
        restores=restores,
    )
    report = Report()
    for number, seed in enumerate(seeds):
        shape, drawn = plan(seed, workers=workers, threads=threads, kinds=kinds)
        if actions is not None:
            drawn = list(actions)
        if keep is not None:
            drawn = [drawn[index] for index in keep]
        if number == 0:
            _check_replays(scenario, seed, shape, drawn)
        run = run_seed(scenario, seed, shape, drawn)
        if run.failure is not None:
            raise _failure(scenario, run, drawn if keep is None and actions is None else None)
        report.add(run)
    return report


def plan(
    seed: int, *, workers: int = 3, threads: int = 2, kinds: Collection[str] = tuple(KINDS)
) -> tuple[Shape, list[Action]]:
    """Returns the shape and the actions that a seed draws."""
    chance = Random(seed)
    shape = draw_shape(chance, workers=workers, threads=threads, wraps="slow" in kinds or "raise" in kinds)
    return shape, draw_actions(chance, shape, [kind for kind in KINDS if kind in kinds])


def check_seed(scenario: Scenario, seed: int, name: str = "") -> Run:
    """Runs the schedule that a seed draws for a scenario.

    :raises SimulationFailure: if it fails; with the shortest run that does.
    """
    shape, actions = plan(seed)
    run = run_seed(scenario, seed, shape, actions)
    if run.failure is not None:
        raise _failure(scenario, run, actions, name)
    return run


def run_seed(scenario: Scenario, seed: int, shape: Shape, actions: Sequence[Action], watch: Watch | None = None) -> Run:
    """Runs a seed once; the result has what it found.

    :raises RealWorld: of the watch.
    """
    root = Path(tempfile.mkdtemp(prefix="streams-simulation-"))
    world = World(scenario, seed, shape, actions, root)
    world.scheduler.watch = watch
    failure: BaseException | None = None
    try:
        with _silence():
            world.run()
    except (AssertionError, SimulationStuck) as error:
        failure = error
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if watch is not None and watch.seen is not None:
        raise watch.seen
    steps, now = world.scheduler.steps, world.scheduler.now
    trace = [f"{step:6} {at:10.3f} s  {thread}: {call}" for step, at, thread, call in steps.last]
    return Run(
        seed, shape, tuple(actions), steps.count, now, steps.digest, world.stage.findings.happened, trace, failure,
    )  # fmt: skip


@contextmanager
def _silence() -> Iterator[None]:
    """Hides the log of the application, which is about faults that were made on purpose."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _check_replays(scenario: Scenario, seed: int, shape: Shape, actions: Sequence[Action]) -> None:
    collects = gc.isenabled()
    gc.disable()  # callbacks of collections would be called in the middle of anything
    try:
        watched = run_seed(scenario, seed, shape, actions, Watch())
    except RealWorld as error:
        raise SimulationError(str(error)) from None
    finally:
        if collects:
            gc.enable()
    again = run_seed(scenario, seed, shape, actions)
    if watched.digest != again.digest:
        raise SimulationError(
            f"seed {seed} did {watched.steps} steps, and {again.steps} others when it was run again: the topology"
            " depends on something besides its records, such as random numbers, the order of a set, or variables that"
            " outlive a run"
        )


# ---------------------------------------------------------------------- shortening


def shorten(scenario: Scenario, run: Run) -> Run:
    """Returns the shortest run that still fails: with fewer actions, fewer workers, less switching."""
    left = SHRINKING_RUNS
    best = run

    def fails(shape: Shape, actions: Sequence[Action]) -> bool:
        nonlocal left, best
        if left <= 0:
            return False
        left -= 1
        found = run_seed(scenario, run.seed, shape, actions)
        if found.failure is not None:
            best = found
        return found.failure is not None

    changed = True
    while changed and left > 0:
        changed = False
        for action in reversed(best.actions):
            changed |= fails(best.shape, [one for one in best.actions if one is not action])
    for shape in _simpler(best.shape):
        fails(replace(best.shape, **shape), best.actions)
    return best


def _simpler(shape: Shape) -> Iterator[dict[str, Any]]:
    if shape.switching > 0.02:
        yield {"switching": 0.02}
    if shape.threads > 1:
        yield {"threads": 1}
    if shape.workers > 1:
        yield {"workers": shape.workers - 1}


def _failure(scenario: Scenario, run: Run, drawn: Sequence[Action] | None, name: str = "") -> SimulationFailure:
    """Returns the error that describes a run that failed.

    :param drawn: the actions that the seed drew, to name those of the run by their numbers."""
    best = shorten(scenario, run)
    shape = best.shape
    lines = [
        f"seed {run.seed}{f' ({name})' if name else ''}: {best.failure}",
        f"a run of {shape.workers} workers with {shape.threads} stream threads each, {len(best.actions)} of"
        f" {len(run.actions)} actions:",
    ]
    lines += [f"  {text}" for text in best.happened]
    if drawn is not None:
        kept = [number for number, action in enumerate(drawn) if any(one is action for one in best.actions)]
        same = "" if best.shape == run.shape else "; fewer workers or threads, or less switching, show it too"
        lines.append(f"to repeat it: seeds=[{run.seed}], keep={kept}{same}")
    lines += ["the last steps:", *(f"  {text}" for text in best.trace[-20:])]
    failure = SimulationFailure("\n".join(lines), best)
    failure.__cause__ = best.failure
    return failure
