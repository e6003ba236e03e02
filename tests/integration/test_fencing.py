"""Two workers with one identity: one of them ends and says why, and no record is counted by both."""

from __future__ import annotations

import shutil
from pathlib import Path

from integration_support.counting import Counting
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from waiting import wait_until


def one_left(workers: list[Worker]) -> Worker:
    """Waits until one has ended, with one line that says why and what to do; gives the other."""
    ended = wait_until("one has ended", lambda: [one for one in workers if one.process.poll() is not None])
    assert len(ended) == 1
    assert ended[0].wait() == 1, ended[0].tail
    assert len(ended[0].errors) == 1, ended[0].tail
    assert "group.instance.id" in ended[0].errors[0]
    assert "state.dir" in ended[0].errors[0]
    return next(one for one in workers if one not in ended)


def check_goes_on(counting: Counting, worker: Worker, topics: Topics) -> None:
    """The one that is left counts on, and has counted all that came before."""
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        counting.send()
        counting.read_round(reader)
        worker.stop()
        counting.check(reader)


def test_a_copied_state_directory_is_no_second_worker(topics: Topics, workers: Workers, tmp_path: Path) -> None:
    """The copy has the identity of the original, in the group and towards transactions."""
    counting = Counting(topics, workers)
    counting.send()
    first = counting.start().wait_running()
    shutil.copytree(workers.state_dir, tmp_path / "copy")
    counting.send()
    second = counting.start(state_dir=tmp_path / "copy")
    check_goes_on(counting, one_left([first, second]), topics)


def test_two_workers_with_one_instance_id(topics: Topics, workers: Workers, tmp_path: Path) -> None:
    """Each has a state directory and transactions of its own; only the place in the group is the same."""
    counting = Counting(topics, workers, consumer_group_instance_id="the-only-one")
    counting.send()
    first = counting.start().wait_running()
    counting.send()
    second = counting.start(state_dir=tmp_path / "other")
    check_goes_on(counting, one_left([first, second]), topics)
