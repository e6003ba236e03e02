"""Children that are forked hold no lock and no database of their parent, and end without harm.

A child that outlived its parent, such as one of a pool after ``kill -9``, held the locks of tasks for ever; one that
ended in order waited for the threads of RocksDB, which it does not have.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration_support.workers import alive
from processor_api.clock import SystemClock
from processor_api.task_id import TaskId
from state.directory.file_lock import FileLock, holder_of
from state.directory.state_directory import StateDirectory
from waiting import DEADLINE_S, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]

PARENT = """
import ctypes, os, sys
from pathlib import Path
from processor_api.task_id import TaskId
from state.directory.state_directory import StateDirectory

# what a library does that forks by itself: Python's hooks are not called
fork = ctypes.PyDLL(None).fork if "c" in sys.argv else os.fork
directory = StateDirectory.open(Path(sys.argv[1]), "app")
slot = directory.claim_slot()
task = directory.try_lock_task(TaskId(0, 1))
hold, release = os.pipe()
child = fork()
if child == 0:
    os.close(release)
    if "ends" in sys.argv:  # as a child does that comes back from `with`
        task.release(), slot.release()
    print("child", os.getpid(), flush=True)
    os.read(hold, 1)  # until the parent is gone, and then the test
    sys.stdin.buffer.raw.read(1)
    os._exit(0)
os.close(hold)
for word in iter(sys.stdin.readline, ""):
    if word == "release\\n":
        task.release(), slot.release()
    print("done", flush=True)
"""


class Family:
    """A process that has a slot and task 0_1 of a directory, and its child."""

    def __init__(self, root: Path, *words: str) -> None:
        command = [sys.executable, "-c", PARENT, str(root), *words]
        self.process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.child = int(self.process.stdout.readline().split()[1])

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def kill_parent(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill_parent()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        if alive(self.child):
            os.kill(self.child, signal.SIGKILL)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Callable[..., Family]]:
    with ExitStack() as stack:

        def start(*words: str) -> Family:
            found = Family(tmp_path, *words)
            stack.callback(found.end)
            return found

        yield start


def lock_is_free(root: Path) -> bool:
    directory = StateDirectory.open(root, "app")
    with ExitStack() as held:
        for lock in (directory.try_slot(0), directory.try_lock_task(TaskId(0, 1))):
            if lock is None:
                return False
            held.enter_context(lock)
        return True


def test_a_child_that_outlives_its_parent_holds_no_lock(tmp_path: Path, family: Callable[..., Family]) -> None:
    """The next process never got the task."""
    found = family()
    assert not lock_is_free(tmp_path)
    found.kill_parent()
    assert alive(found.child)
    assert lock_is_free(tmp_path)


@pytest.mark.parametrize("how", [(), ("c",)])
def test_a_lock_is_released_though_a_child_lives(
    tmp_path: Path, family: Callable[..., Family], how: tuple[str, ...]
) -> None:
    """Also where a library has forked the child behind Python's back, which keeps the file open."""
    found = family(*how)
    assert not lock_is_free(tmp_path)
    found.tell("release")
    assert lock_is_free(tmp_path)


@pytest.mark.parametrize("how", [("ends",), ("ends", "c")])
def test_a_child_that_releases_a_lock_leaves_it_to_its_parent(
    tmp_path: Path, family: Callable[..., Family], how: tuple[str, ...]
) -> None:
    found = family(*how)
    assert not lock_is_free(tmp_path)
    found.tell("nothing")
    assert not lock_is_free(tmp_path)


def test_the_holder_of_a_lock_is_named(tmp_path: Path, family: Callable[..., Family]) -> None:
    found = family()
    lock = tmp_path / "app" / "locks" / "0_1.lock"
    named = holder_of(lock)
    assert named.startswith(f"process {found.process.pid} ({sys.executable} -c ")
    assert "suspended" not in named
    found.kill_parent()
    assert holder_of(lock) == f"process {found.process.pid}, or a process that was forked from it"


def test_a_holder_that_is_suspended_is_said_to_be(tmp_path: Path, family: Callable[..., Family]) -> None:
    """It gives nothing back until it goes on, which a person has to know."""
    pid = family().process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        ending = f", which is suspended: `kill -CONT {pid}` resumes it"
        wait_until("it is said to be", lambda: holder_of(tmp_path / "app" / "locks" / "0_1.lock").endswith(ending))
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_child_that_holds_a_lock_for_its_dead_parent_is_named(tmp_path: Path, family: Callable[..., Family]) -> None:
    """Nobody can take the file from a child that knows nothing of it; so a person has to know which it is."""
    found = family("c")
    found.kill_parent()
    directory = StateDirectory.open(tmp_path, "app")
    assert directory.try_lock_task(TaskId(0, 1)) is None
    assert directory.holder_of_task(TaskId(0, 1)).startswith(f"process {found.child} (")


def test_a_command_line_is_named_without_values_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    hold = "import sys; from pathlib import Path; from state.directory.file_lock import FileLock\n"
    hold += "lock = FileLock.try_acquire(Path(sys.argv[1])); print(lock, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(path), "-c", "sasl.password=secret", "\x1b[2J", "x" * 500]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        named = holder_of(path)
    assert f"process {process.pid} (" in named
    assert "secret" not in named
    assert named.isprintable()
    assert len(named) < 300


def test_the_note_names_a_process_that_cannot_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    path.write_text("17 another-host\n")
    assert holder_of(path) == "process 17 on host another-host, or a process that was forked from it"
    path.write_bytes(b"\xff \x1b[2J\n")
    assert holder_of(path).isprintable()
    path.write_bytes(b"")
    assert holder_of(path).startswith("a process of another user, container or host")
    assert holder_of(tmp_path / "missing").startswith("a process of another user, container or host")


def test_another_thread_of_this_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with FileLock.acquire(path):
        assert FileLock.try_acquire(path) is None
        assert FileLock.holder(path) == f"another thread of this process ({os.getpid()})"


FORKS = """
import os, sys, threading
from pathlib import Path
from state.directory.file_lock import FileLock

root, go_on = Path(sys.argv[1]), True
def work(number):
    while go_on:
        with FileLock.acquire(root / f"{number}.lock"):
            pass
        FileLock.try_acquire(root / "never-released.lock")
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for _ in range(150):
    child = os.fork()
    if child == 0:
        links = []
        for number in os.listdir("/proc/self/fd"):
            try: links.append(os.readlink(f"/proc/self/fd/{number}"))
            except OSError: pass
        os._exit(any(link.endswith(".lock") for link in links))
    if os.waitpid(child, 0)[1] != 0:
        print("a child has a lock")
go_on = False
for thread in threads: thread.join()
print("done")
"""


def test_no_moment_of_a_lock_is_inherited(tmp_path: Path) -> None:
    """Other threads take and release locks while the process forks."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


DATABASE = """
import os, sys, threading
from pathlib import Path
from state.rocksdb.engine import RocksEngine

engine = RocksEngine(Path(sys.argv[1]), ["rows"])
batch = engine.batch()
batch.put(b"before", b"1", engine.family("rows").handle)
engine.write(batch)
engine.family("rows").seek(b"a")
snapshot = engine.snapshot(["rows"])
child = os.fork()
if child == 0:
    links = []
    for number in os.listdir("/proc/self/fd"):
        try: links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError: pass
    assert not any(link.startswith(sys.argv[1]) for link in links), links
    engine.close()
    snapshot.close()
    del engine, snapshot
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
batch = engine.batch()
batch.put(b"behind", b"2", engine.family("rows").handle)
engine.write(batch)
snapshot.close()
engine.close()
engine = RocksEngine(Path(sys.argv[1]), ["rows"])
print(dict(engine.family("rows").range()))
"""


def test_a_child_ends_while_its_parent_has_a_database_open(tmp_path: Path) -> None:
    """It waited for ever for the threads of RocksDB."""
    done = subprocess.run(
        [sys.executable, "-c", DATABASE, str(tmp_path / "rocksdb")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (done.stdout, done.stderr) == ("{b'before': b'1', b'behind': b'2'}\n", "")


def test_a_lock_that_is_waited_for_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A process that stands still within the few steps that the lock is for keeps others from starting."""
    path = tmp_path / "directory.lock"
    held = FileLock.acquire(path)
    clock = SystemClock()

    got: list[FileLock] = []
    waiting = threading.Thread(target=lambda: got.append(FileLock.acquire(path)))
    waiting.start()
    try:
        begin = clock.monotonic()
        wait_until("it is told", lambda: caplog.records)
        assert clock.monotonic() - begin > 1
        [told] = caplog.records
        assert (told.levelname, told.message) == ("WARNING", "waiting for a lock")
        assert told.held_by == f"another thread of this process ({os.getpid()})"  # type: ignore[attr-defined]
        assert told.path == str(path)  # type: ignore[attr-defined]
    finally:
        held.release()
        waiting.join()
    got[0].release()
