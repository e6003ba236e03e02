"""Workers as Linux has them: suspended, frozen, without memory, without a reader, without a supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from control_groups import ControlGroup, control_group
from integration_support.topics import Topics
from integration_support.workers import APPS, Worker, Workers, alive, supervised
from streams.cli.output.failures import READER_GONE
from waiting import wait_until

__all__ = ["control_group"]

SESSION_S = 6
QUICK = {
    "commit.interval.ms": 100,
    "consumer.session.timeout.ms": SESSION_S * 1000,
    "consumer.heartbeat.interval.ms": 500,
    "processing.guarantee": "exactly_once_v2",
}


class Counting:
    """An application that counts, and its topics."""

    def __init__(self, topics: Topics, workers: Workers) -> None:
        self.topics, self.workers = topics, workers
        self.source, self.output = topics.create("values"), topics.create("counts")
        self.environment = {"INPUTS": self.source, "OUTPUT": self.output}

    def start(self, *words: str, state: str = "state") -> Worker:
        """Starts a worker with a state directory, as on a machine of that name."""
        settings = {**QUICK, "state.dir": self.workers.folder / state}
        return self.workers.start("printing:topology", *words, settings=settings, env=self.environment)

    def send(self, *values: str) -> None:
        self.topics.send(self.source, [(None, value) for value in values])


@pytest.fixture
def counting(topics: Topics, workers: Workers) -> Counting:
    return Counting(topics, workers)


def freezer(group: ControlGroup, worker: Worker) -> tuple[Callable[[], None], Callable[[], None]]:
    group.write("cgroup.procs", str(worker.pid))
    if group.is_first:
        return lambda: group.write("freezer.state", "FROZEN"), lambda: group.write("freezer.state", "THAWED")
    return lambda: group.write("cgroup.freeze", "1"), lambda: group.write("cgroup.freeze", "0")


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_a_worker_that_stands_still_for_longer_than_its_session_counts_nothing_twice(
    counting: Counting, control_group: Callable[[str], ControlGroup], how: str
) -> None:
    """Another one takes over, on another machine, since a process that stands still keeps the locks of its tasks. The
    first goes on in the group, and is ended by no error."""
    first = counting.start(state="first").wait_running()
    stop, go = lambda: os.kill(first.pid, signal.SIGSTOP), lambda: os.kill(first.pid, signal.SIGCONT)
    if how == "frozen":
        stop, go = freezer(control_group("freezer"), first)
    with counting.topics.reader(counting.output) as reader, ExitStack() as at_the_end:
        counting.send("a", "b")
        reader.until("the first counts", lambda found: found.latest == {"a": "1", "b": "1"})
        second = counting.start(state="second").wait_running()
        at_the_end.callback(lambda: go() if first.process.poll() is None else None)
        stop()
        counting.send("a", "c")
        reader.until("the second takes over", lambda found: found.latest == {"a": "2", "b": "1", "c": "1"})
        go()
        counting.send("a", "d")
        reader.until("counting goes on", lambda found: found.latest.get("a") == "3" and found.latest.get("d") == "1")
        second.stop()
        counting.send("b", "d")
        reader.until("the first has all again", lambda found: found.latest == {"a": "3", "b": "2", "c": "1", "d": "2"})
        first.stop()
        reader.to_end()
        with counting.topics.reader(counting.output) as again:  # what one reader has alone was not written twice
            again.to_end()
            assert reader.places == again.places
        assert {word: list(counts) for word, counts in reader.values.items()} == {
            "a": ["1", "2", "3"], "b": ["1", "2"], "c": ["1"], "d": ["1", "2"],
        }, reader.places  # fmt: skip
    assert first.errors == second.errors == []


@pytest.mark.slow
def test_a_worker_waits_for_tasks_that_a_suspended_one_holds_in_the_same_directory(counting: Counting) -> None:
    """And says whom it waits for. What the other one has open cannot be taken from it; when it goes on, nothing is
    counted twice."""
    first = counting.start().wait_running()
    with counting.topics.reader(counting.output) as reader, ExitStack() as at_the_end:
        counting.send("a", "b")
        reader.until("the first counts", lambda found: found.latest == {"a": "1", "b": "1"})
        at_the_end.callback(lambda: os.kill(first.pid, signal.SIGCONT) if first.process.poll() is None else None)
        os.kill(first.pid, signal.SIGSTOP)
        second = counting.start()
        counting.send("a", "c")
        line = second.wait_for(
            "tasks wait for the locks of their directories: they start when the holder has closed them, or has ended"
        )
        assert line["held_by"].startswith(f"process {first.pid} (")
        assert f"suspended: `kill -CONT {first.pid}`" in line["held_by"]
        os.kill(first.pid, signal.SIGCONT)
        reader.until("counting goes on", lambda found: found.latest == {"a": "2", "b": "1", "c": "1"})
        first.stop()
        counting.send("a")
        reader.until("the second has all", lambda found: found.latest["a"] == "3")
        second.stop()
        reader.to_end()
        assert {word: list(counts) for word, counts in reader.values.items()} == {
            "a": ["1", "2", "3"], "b": ["1"], "c": ["1"],
        }  # fmt: skip
    assert first.errors == second.errors == []


def test_a_record_for_which_there_is_no_memory_fails_as_a_record(counting: Counting) -> None:
    """Python's own MemoryError is an error of the user's function, with its place."""
    worker = counting.start().wait_running()
    counting.send("limit")
    assert worker.wait() == 1
    assert "MemoryError in node " in worker.errors[0]
    assert f"topic='{counting.source}'" in worker.errors[0]


def test_an_application_whose_reader_has_gone_ends_without_a_word(counting: Counting) -> None:
    """What it could not print is printed by the next: it is not committed."""
    environment = {**os.environ, **counting.environment, "PRINTS": "1"}
    words = [sys.executable, "-m", "streams", "run", "printing:topology"]
    words += ["--application-id", counting.workers.application, "--bootstrap-servers", counting.workers.bootstrap]
    for setting, value in {"state.dir": counting.workers.state_dir, **QUICK}.items():
        words += ["-c", f"{setting}={value}"]

    def run() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words, cwd=APPS, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    with counting.topics.reader(counting.output) as reader, run() as first:
        assert first.stdout is not None
        assert first.stderr is not None
        counting.send("a")
        reader.until("it counts", lambda found: found.latest == {"a": "1"})
        first.stdout.close()
        counting.send("b")
        errors = first.stderr.read().decode()
        assert first.wait(120) == READER_GONE
        assert "Traceback" not in errors
        assert "error: " not in errors
        with run() as second:
            assert second.stdout is not None
            lines = iter(second.stdout.readline, b"")
            assert next(line for line in lines if b"]: b, " in line) == b"[count]: b, 1\n"
            second.terminate()
            assert second.wait(120) == 0


def test_workers_end_when_their_supervisor_is_killed(counting: Counting) -> None:
    """They close in order, so that no orphan holds a task."""
    supervisor = counting.start("--workers", "2")
    wait_until("both run", lambda: len(supervisor.events("state", state="RUNNING")) >= 2)
    pids = supervised(supervisor)
    supervisor.kill()
    wait_until("no orphan is left", lambda: not any(map(alive, pids)))
    assert len(supervisor.events("closing", reason="the supervisor died")) == 2
    assert len(supervisor.events("state", state="NOT_RUNNING")) >= 2


@pytest.mark.parametrize("words", [("--from", "beginning"), ("--follow",)])
def test_a_reader_of_one_record_ends_a_command_that_would_print_more(
    counting: Counting, words: tuple[str, ...]
) -> None:
    """`streams consume ... | head -1`: no traceback, and the status of a program that SIGPIPE has ended."""
    counting.send(*("x" * 1000 for _ in range(200)))  # more than a pipe holds
    command = [sys.executable, "-m", "streams", "consume", "--topic", counting.source, *words]
    command += ["--bootstrap-servers", counting.workers.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consume:
        head = subprocess.run(["head", "-1"], stdin=consume.stdout, capture_output=True, timeout=120)
        assert consume.stdout is not None
        consume.stdout.close()
        assert head.stdout.count(b"\n") == 1
        assert consume.wait(120) == READER_GONE
        assert consume.stderr is not None
        assert consume.stderr.read() == b""


def test_a_command_whose_input_is_silent_says_that_it_waits(counting: Counting) -> None:
    """`tail -f file | streams produce ...`, before anybody has written to the file."""
    command = [sys.executable, "-m", "streams", "produce", "--topic", counting.source, "--value-serde", "string"]
    command += ["--key-serde", "string", "--bootstrap-servers", counting.workers.bootstrap]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as produce:
        assert produce.stderr.readline().startswith("no input yet: waiting for lines on standard input")
        out, errors = produce.communicate('{"value": "a"}\n', timeout=120)
        assert (produce.returncode, errors) == (0, "")
        assert out.startswith("1 record written to ")
