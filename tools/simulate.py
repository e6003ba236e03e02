"""Runs seeds of the simulation over the applications of the tests: ``python -m tools.simulate --seeds 1000 --first 0``.

Each seed has its application, its settings and its schedule. A seed that fails is made shorter and printed step by
step; the others go on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = 20
REPORTED_BLOCKS = 50


def run_block(first: int, last: int, name: str | None) -> list[str]:
    """Returns what the seeds from ``first`` up to ``last`` found."""
    from simulation_support.scenarios import scenario_of
    from streams.testing.simulation import SimulationFailure
    from streams.testing.simulation.run import check_seed

    found = []
    for seed in range(first, last):
        chosen, scenario = scenario_of(seed, name)
        try:
            check_seed(scenario, seed, chosen)
        except SimulationFailure as failure:
            found.append(str(failure))
    return found


def _run(block: tuple[int, int, str | None]) -> list[str]:
    return run_block(*block)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--scenario", default=None, help="one of the applications; all in turn if not given")
    given = parser.parse_args(arguments)
    end = given.first + given.seeds
    blocks = [(n, min(end, n + BLOCK), given.scenario) for n in range(given.first, end, BLOCK)]
    started, failed = time.monotonic(), 0
    with multiprocessing.get_context("spawn").Pool(given.jobs, _find_modules) as pool:
        for done, found in enumerate(pool.imap_unordered(_run, blocks), 1):
            failed += len(found)
            for text in found:
                print(text, end="\n\n", flush=True)
            if done % REPORTED_BLOCKS == 0:
                print(f"{done * BLOCK} seeds, {failed} failed", flush=True)
    minutes = (time.monotonic() - started) / 60
    print(
        f"{given.seeds} seeds from {given.first} on: {failed} failed, {given.seeds / max(minutes, 1e-9):.0f} a minute"
    )
    return 1 if failed else 0


def _find_modules() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]


if __name__ == "__main__":
    sys.exit(main())
