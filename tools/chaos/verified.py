"""Makes faults happen to workers and brokers in each setup, and compares the results with recomputed ones.

``python -m tools.chaos.verified --faults 28``: on three brokers, workers run windows, sessions, joins of each kind,
suppression, deduplication and an aggregation of a table behind a repartition. Workers are killed, stopped, frozen past
their session and their transaction, added, started as another version of the same layout, and lose or exchange their
disks. Changelogs are deleted and made again. Brokers are killed and frozen. A setup ends when its part of the faults
took effect and the input is read. Then its topics are read as any other program would read them, and compared with
results that are computed from the input in plain Python.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tools.chaos.cluster import Cluster
from tools.chaos.crew import Crew
from tools.chaos.faults import KINDS, Faults, kinds_of
from tools.chaos.feed import Feed, next_offsets, read_topics
from tools.chaos.group import Group
from tools.chaos.patience import wait_for
from tools.chaos.results import INPUTS, OUTPUTS, Kind, Problems, Row, count_by_kind, problems, wrong_results
from tools.chaos.setups import SETUPS, Setup, dealt_kinds

PARTITIONS = 4
SHOWN = 5
FAULTS, FAULTS_OF_LONG_RUNS = 28, 56
ATTEMPTS = 5
"""How many faults are tried for each that has to take effect."""
NO_INTERNAL_INPUT = ("-changelog", "-tasks")
"""The endings of the names of internal topics that the group does not read."""


@dataclass
class Outcome:
    """The results of one setup."""

    done: Counter[str] = field(default_factory=Counter)
    """The faults that took effect."""
    tried: Counter[str] = field(default_factory=Counter)
    """The faults that did not."""
    records: int = 0
    counts: Mapping[Kind, int] = field(default_factory=dict)
    wrong: Mapping[str, Problems] = field(default_factory=dict)
    exactly_once: bool = True
    complaints: list[str] = field(default_factory=list)
    """Other things that are not as they must be."""

    @property
    def is_right(self) -> bool:
        return not self.wrong and not self.complaints


class Run:
    """One setup on a cluster: its topics, its feed and its workers."""

    def __init__(
        self, folder: Path, cluster: Cluster, setup: Setup, seed: int, rate: int, settings: Sequence[str]
    ) -> None:
        folder.mkdir(parents=True)
        self._application = f"chaos-{setup.name}-{seed}"
        self._prefix = f"{self._application}."
        self._setup, self._cluster = setup, cluster
        self._group = Group(cluster.past_proxies, self._application, self._named(INPUTS), PARTITIONS)
        self._feed = Feed(cluster.past_proxies, self._prefix, rate, seed, self._group.read)
        self._crew = Crew(folder, cluster.bootstrap, self._application, setup, settings)
        self._chance = random.Random(f"{seed} {setup.name} acts")
        self._faults = Faults(cluster, self._crew, self._group, self._chance)
        self._outcome = Outcome(exactly_once=setup.exactly_once)
        self._rows = 0

    def _named(self, names: Iterable[str]) -> list[str]:
        return [self._prefix + name for name in names]

    def run(self, kinds: Iterable[str], faults: int) -> Outcome:
        """Runs the setup.

        :param kinds: what happens, one after the other.
        :param faults: how many of them take effect before the run ends.
        """
        outcome = self._outcome
        try:
            self._group.create_topics(self._named((*INPUTS, *OUTPUTS)), self._setup.standbys)
            self._feed.start()
            for number in range(self._setup.workers):
                self._crew.start(number)
            if self._calm():
                self._happen(kinds, faults)
            self._feed.stop()
            self._verify()
        finally:
            self._crew.close()
        outcome.records = self._feed.written
        outcome.complaints += [f"worker {number} {how}" for number, how in self._crew.died()]
        if self._setup.snapshots and not self._crew.count("snapshot of the task taken"):
            print("  no worker has begun with a snapshot", flush=True)
        if outcome.is_right:
            self._group.delete_topics(self._application)
        return outcome

    def _happen(self, kinds: Iterable[str], faults: int) -> None:
        done, tried = self._outcome.done, self._outcome.tried
        for kind in kinds:
            if done.total() == faults:
                return
            if tried.total() == ATTEMPTS * faults:
                self._outcome.complaints.append(f"{tried.total()} faults took no effect: {dict(tried)}")
                return
            began = time.monotonic()
            took_effect = self._faults.happen(kind)
            (done if took_effect else tried)[kind] += 1
            said = "" if took_effect else ": no effect"
            print(f"  {time.strftime('%H:%M:%S')} {kind}{said}, {time.monotonic() - began:.0f} s", flush=True)
            # Every third comes while the workers are still busy with the one before.
            if self._chance.random() < 2 / 3 and not self._calm():
                return

    def _calm(self) -> bool:
        """Waits until all workers are ready and some more of the input is read."""
        start, more = self._group.read(), self._chance.randrange(20, 200)
        read: int | None = None

        def is_calm() -> bool:
            nonlocal start, read
            read = self._group.read()
            start = read if start is None else start
            return read is not None and start is not None and read >= start + more and self._crew.is_all_ready()

        if wait_for(is_calm, progress=lambda: read, what="workers are not ready, or do not read"):
            return True
        unready = [number for number in self._crew.running() if not self._crew.is_ready(number)]
        said = f"not ready are the workers {unready}" if unready else "all workers are ready"
        self._outcome.complaints.append(f"the input is not read at {time.strftime('%H:%M:%S')}: {said}")
        return False

    def _verify(self) -> None:
        if not self._outcome.complaints:
            self._wait_until_right()
        if not self._outcome.complaints and not self._outcome.wrong:
            self._feed.close_windows()
            self._wait_until_right()
        # Nothing more can come when they have ended.
        self._crew.stop_all()
        inputs, outputs = self._read()
        self._outcome.wrong = wrong_results(inputs, outputs, exactly_once=self._setup.exactly_once)
        self._outcome.counts = count_by_kind(problems(inputs, outputs, exactly_once=self._setup.exactly_once))

    def _wait_until_right(self) -> None:
        """Waits until the input and the internal topics are read and the results are right; notes what stays wrong."""
        ends = None

        def is_read() -> bool:
            nonlocal ends
            self._crew.replace_ended()
            ends = ends or self._group.ends()
            return ends is not None and self._group.has_passed(ends)

        if not wait_for(is_read, progress=self._group.read, pause_s=0.3, what="the input is not read to its end"):
            self._outcome.complaints.append("the input is not read to its end")
            return

        def is_right() -> bool:
            self._crew.replace_ended()
            inputs, outputs = self._read()
            self._outcome.wrong = wrong_results(inputs, outputs, exactly_once=self._setup.exactly_once)
            return not self._outcome.wrong and self._group.has_passed(self._internal_ends())

        if (
            not wait_for(is_right, progress=lambda: self._rows, pause_s=1, what="results are not right yet")
            and not self._outcome.wrong
        ):
            self._outcome.complaints.append("internal topics are not read to their ends")

    def _read(self) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
        inputs = read_topics(self._group.bootstrap, self._prefix, INPUTS)
        outputs = read_topics(self._group.bootstrap, self._prefix, OUTPUTS)
        self._rows = sum(map(len, outputs.values()))
        return inputs, outputs

    def _internal_ends(self) -> Mapping[tuple[str, int], int]:
        names = self._group.topics(f"{self._application}-")
        return next_offsets(self._group.bootstrap, [one for one in names if not one.endswith(NO_INTERNAL_INPUT)])


def line(seed: int, setup: Setup, outcome: Outcome, seconds: float) -> str:
    """Returns the line about a setup."""
    faults = "; ".join(f"{kind}{f' {n} times' if n > 1 else ''}" for kind, n in sorted(outcome.done.items()))
    counts = ", ".join(f"{outcome.counts.get(kind, '?')} {kind}" for kind in Kind)
    allowed = "" if setup.exactly_once else " (at least once: may be doubled)"
    head = f"{'ok' if outcome.is_right else 'NO'}  seed {seed}, {setup.name} ({setup}): {outcome.done.total()} faults"
    return f"{head} ({faults}); {outcome.records} records, {counts}{allowed}; {seconds:.0f} s"


def show_wrong(outcome: Outcome) -> None:
    for name, some in outcome.wrong.items():
        print(f"    topic {name}: {len(some)} problems, such as", *some[:SHOWN], sep="\n      ")
    for complaint in outcome.complaints:
        print(f"    {complaint}")


@dataclass(frozen=True)
class Plan:
    """The length of a run, and its setups."""

    setups: Sequence[Setup]
    faults: int
    """How many each setup has."""
    minutes: float | None
    """When no setup begins any more; without it each setup runs once."""
    seed: int
    rate: int
    settings: Sequence[str]

    def kinds(self, setup: Setup, seed: int) -> Iterator[str]:
        """Yields the kinds of faults of a setup, the same ones whether others run or not."""
        kinds = {one.name: kinds_of(one) for one in SETUPS}
        return (turn[setup.name] for turn in dealt_kinds(kinds, seed))

    def runs(self) -> Iterator[tuple[int, Setup]]:
        """Yields seeds and setups until the time is over."""
        began = time.monotonic()
        for seed in [self.seed] if self.minutes is None else count(self.seed):
            for setup in self.setups:
                if self.minutes is not None and time.monotonic() - began >= 60 * self.minutes:
                    return
                yield seed, setup


def run(folder: Path, plan: Plan) -> bool:
    """Returns whether all results of all setups are right."""
    outcomes: list[Outcome] = []
    cluster = Cluster(folder / "cluster")
    try:
        cluster.start()
        for seed, setup in plan.runs():
            began = time.monotonic()
            one = Run(folder / f"{setup.name}-{seed}", cluster, setup, seed, plan.rate, plan.settings)
            outcome = one.run(plan.kinds(setup, seed), plan.faults)
            print(line(seed, setup, outcome, time.monotonic() - began), flush=True)
            show_wrong(outcome)
            if not outcome.is_right:
                print(f"    again: make chaos SETUP={setup.name} SEED={seed} FAULTS={plan.faults}", flush=True)
            outcomes.append(outcome)
    finally:
        cluster.close()
    print(summary(outcomes), flush=True)
    return all(outcome.is_right for outcome in outcomes)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Returns the last lines: the sums, and which kinds of faults never took effect."""
    done = sum((outcome.done for outcome in outcomes), Counter[str]())
    records, wrong = sum(outcome.records for outcome in outcomes), sum(not outcome.is_right for outcome in outcomes)
    found = {
        kind: sum(one.counts.get(kind, 0) for one in outcomes if one.exactly_once or kind is not Kind.DOUBLED)
        for kind in Kind
    }
    counts = ", ".join(f"{number} {kind}" for kind, number in found.items())
    allowed = sum(one.counts.get(Kind.DOUBLED, 0) for one in outcomes if not one.exactly_once)
    counts += f" ({allowed} doubled at least once)" if allowed else ""
    lines = [f"{len(outcomes)} runs, {done.total()} faults, {records} records: {counts}"]
    if never := [kind for kind in KINDS if kind not in done]:
        lines.append(f"never took effect: {'; '.join(never)}")
    return "\n".join([*lines, f"{wrong} runs are wrong" if wrong else "all results are right"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, help="how many take effect in all, in equal parts for the setups")
    parser.add_argument("--minutes", type=float, help="goes through the setups again and again, with the next seeds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--setup", choices=[setup.name for setup in SETUPS], help="one setup alone")
    parser.add_argument("--rate", type=int, default=100, help="records a second")
    parser.add_argument("-c", dest="settings", action="append", default=[], help="a setting of the workers, KEY=VALUE")
    parser.add_argument("--dir", type=Path, help="keep logs and data there (default: a temporary folder)")
    given = parser.parse_args(arguments)
    for name, value in (("--faults", given.faults), ("--minutes", given.minutes), ("--rate", given.rate)):
        if value is not None and value <= 0:
            parser.error(f"{name} must be more than 0, got {value}")
    if given.dir is not None and given.dir.exists() and any(given.dir.iterdir()):
        parser.error(f"--dir must be an empty folder or a new one, got {given.dir}")
    setups = [setup for setup in SETUPS if given.setup in (None, setup.name)]
    faults = given.faults or (FAULTS if given.minutes is None else FAULTS_OF_LONG_RUNS)
    folder = given.dir or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    is_right = False
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # brokers and workers end too
    try:
        plan = Plan(setups, -(-faults // len(setups)), given.minutes, given.seed, given.rate, given.settings)
        is_right = run(folder, plan)
    finally:
        if given.dir is None and is_right:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"logs and data are in {folder}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
