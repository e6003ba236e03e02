"""A rolling update to another version as Kubernetes does it with `maxUnavailable: 0`.

A new worker is started first, and an old one is stopped only when the new one is ready.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from integration_support.counting import TASKS, WAITS, Counting
from integration_support.ownership import open_tasks, shared_tasks
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from waiting import wait_until


class Pod:
    """A worker with state of its own and a probe of its ready file."""

    def __init__(self, folder: Path, counting: Counting, name: str, version: int, *words: str) -> None:
        self.file = folder / f"{name}-ready"
        self.worker: Worker = counting.start(
            "--ready-file", str(self.file), *words, version=version, state_dir=folder / name
        )

    def wait_ready(self) -> Pod:
        wait_until(f"{self.file.name} is there", self.file.exists)
        return self

    def stop(self) -> None:
        """As Kubernetes does: SIGTERM; the clean close deletes the file."""
        self.worker.stop()
        assert not self.file.exists()


def test_versions_of_one_layout_share_the_tasks(tmp_path: Path, topics: Topics, workers: Workers) -> None:
    """Each new worker takes its part at once, beside the old ones, and back again: nothing is lost or counted twice."""
    counting = Counting(topics, workers)
    counting.send()
    old = [Pod(tmp_path, counting, f"old-{number}", 1).wait_ready() for number in range(2)]
    wait_until("all tasks run", lambda: len(open_tasks(*(pod.worker for pod in old))) == TASKS)
    pods = list(old)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        for number, (version, leaving) in enumerate([(2, old[0]), (1, old[1])]):
            pods.append(new := Pod(tmp_path, counting, f"new-{number}", version).wait_ready())
            wait_until("the new one has tasks", lambda new=new: open_tasks(new.worker))
            counting.send()
            counting.read_round(reader)  # by both versions
            leaving.stop()
            counting.send()
            counting.read_round(reader)
        for pod in pods[2:]:
            pod.stop()
        counting.check(reader)
    assert shared_tasks([pod.worker for pod in pods]) == []


def test_another_layout_is_rolled_out_without_a_stop(tmp_path: Path, topics: Topics, workers: Workers) -> None:
    """New workers are ready while old ones run, wait outside of the group, and take over when the last has left.

    Nothing is lost, nothing counted twice, and no task runs in both.
    """
    counting = Counting(topics, workers)
    counting.send()
    old = [Pod(tmp_path, counting, f"old-{number}", 1).wait_ready() for number in range(2)]
    wait_until("all tasks run", lambda: len(open_tasks(*(pod.worker for pod in old))) == TASKS)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        new = []
        for number, pod in enumerate(old):
            new.append(Pod(tmp_path, counting, f"new-{number}", 3).wait_ready())
            assert open_tasks(*(one.worker for one in new)) == set()
            counting.send()
            counting.read_round(reader)  # by the old ones
            pod.stop()
        counting.send()
        counting.read_round(reader)
        for pod in new:
            pod.wait_ready()
        counting.send()
        counting.read_round(reader)
        for pod in new:
            pod.stop()
        counting.check(reader)
    assert shared_tasks([pod.worker for pod in (*old, *new)]) == []


@pytest.mark.slow
def test_a_supervisor_is_ready_when_all_its_workers_are(tmp_path: Path, topics: Topics, workers: Workers) -> None:
    """Also while they wait for another topology."""
    counting = Counting(topics, workers)
    counting.send()
    old = Pod(tmp_path, counting, "old", 1).wait_ready()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        new = Pod(tmp_path, counting, "new", 3, "--workers", "2").wait_ready()
        wait_until("both say that they wait", lambda: len(new.worker.events(WAITS)) == 2)
        old.stop()
        counting.send()
        counting.read_round(reader)
        new.wait_ready().stop()
        counting.check(reader)
