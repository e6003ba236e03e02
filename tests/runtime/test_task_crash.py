"""A process is killed while its task commits: each store opens, and holds exactly the changelog records it says.

The task has a store of each kind in one database; nothing is wiped, and at most one commit is replayed.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quick_process import run
from runtime_support.crashing_task import RECORDS_PER_COMMIT, STEPS, Journal
from runtime_support.task_kit import TaskKit
from state_support.all_kinds import topology
from state_support.changelog_check import check_stores

REPOSITORY = Path(__file__).resolve().parents[2]


class Killed:
    """Processes that are killed one after another, on the same state and journal."""

    def __init__(self, directory: Path, guarantee: str) -> None:
        self.state, self.journal, self.guarantee = directory / "state", directory / "journal", guarantee
        self.offsets: dict[str, int] = {}

    def run(self, *, step: str | None = None, commits: int | None = None) -> None:
        """Until it dies behind a step of its third commit, or is killed some time after as many commits."""
        arguments = [str(self.state), str(self.journal), self.guarantee, *([step] if step else [])]
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests" / "support")])
        words, environment = ["-m", "runtime_support.crashing_task", *arguments], {**os.environ, "PYTHONPATH": path}
        if commits is None:
            ended = run(words, self.state.parent, environment)
            assert ended.returncode == -9, ended.stderr
            return
        with subprocess.Popen(
            [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for _ in range(commits):
                assert process.stdout.readline(), process.stderr.read()
            process.kill()
            _, errors = process.communicate()
        assert process.returncode == -9, errors

    def check(self) -> None:
        journal = Journal(self.journal)
        with TaskKit(topology(), self.state / "app", start=False) as kit:
            stores = kit.task.stores
            offsets = check_stores(stores, journal.changelogs)
            position = stores.progress.stored_positions().get("in-0", 0)
        ahead = position - journal.committed
        if self.guarantee == "at_least_once":
            assert ahead in (0, RECORDS_PER_COMMIT), "more than one commit is processed again"
            assert all(offset >= journal.ends[name] - 1 for name, offset in offsets.items()), "a commit is lost"
        else:
            assert ahead in (0, -RECORDS_PER_COMMIT), "more than one commit is replayed"
        assert all(offset >= self.offsets.get(name, -1) for name, offset in offsets.items())
        self.offsets = offsets


@pytest.mark.parametrize(("guarantee", "step"), [(name, step) for name, steps in STEPS.items() for step in steps])
def test_killed_between_two_steps_of_a_commit(guarantee: str, step: str, tmp_path: Path) -> None:
    killed = Killed(tmp_path, guarantee)
    for _ in range(2):
        killed.run(step=step)
        killed.check()
    assert min(killed.offsets.values()) > 0


def kill_often(directory: Path, guarantee: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    killed = Killed(directory, guarantee)
    for _ in range(kills):
        killed.run(commits=chance.choice([0, 1, 1, 2, 5, 20, 60]))
        killed.check()
    assert min(killed.offsets.values()) > 0


@pytest.mark.parametrize("guarantee", STEPS)
def test_killed_at_any_moment(guarantee: str, tmp_path: Path) -> None:
    kill_often(tmp_path, guarantee, 4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", STEPS)
@pytest.mark.parametrize("seed", range(5))
def test_killed_hundreds_of_times(guarantee: str, seed: int, tmp_path: Path) -> None:
    """In parts, since the journal is read whole at each start."""
    kill_often(tmp_path, guarantee, 30, seed)


# ---------------------------------------------------------------------- power loss


def test_a_log_that_was_cut_anywhere_leaves_a_commit(tmp_path: Path) -> None:
    """As after a power loss: what was written last is gone. Every store is at the same, earlier commit."""
    killed = Killed(tmp_path, "at_least_once")
    killed.run(commits=12)
    journal = Journal(killed.journal)
    (log,) = (killed.state / "app" / "0_0" / "rocksdb").glob("*.log")
    size, chance = log.stat().st_size, random.Random(3)
    found = set()
    for number in range(30):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(killed.state, copy)
        os.truncate(copy / log.relative_to(killed.state), size if number == 0 else chance.randrange(size))
        with TaskKit(topology(), copy / "app", start=False) as kit:
            check_stores(kit.task.stores, journal.changelogs)
            position = kit.task.stores.progress.stored_positions().get("in-0", 0)
        assert position % RECORDS_PER_COMMIT == 0
        found.add(position)
        shutil.rmtree(copy)
    assert len(found) > 5
    assert max(found) >= 12 * RECORDS_PER_COMMIT
