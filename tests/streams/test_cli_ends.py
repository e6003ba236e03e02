"""The end of an application that fails: each line of its log is JSON, the last error has its reason, and the exit
status says by the cause whether starting again may help."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from first_hour_support import environment
from processor_api import errors
from quick_process import run
from state.directory.errors import directory_error
from state.directory.state_directory import StateDirectory
from state.rocksdb.errors import mapped
from streams.cli.output.causes import CannotRun, remedy_of, status_of

BUILDER = """
from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").to("out")
"""
UNREACHABLE = "bootstrap.servers=127.0.0.1:1"
SOON = "task.timeout.ms=100"

# An application on a broker in memory, whose only record its mapper does not take.
POISON = """
import warnings, threading
from streams import StreamsBuilder, run
from streams.testing import EmbeddedKafka

class Finalised:
    def __del__(self):
        raise ValueError("in a finalizer")

def fails():
    raise ValueError("in a thread of the user's")

def mapper(value):
    warnings.warn("a warning")
    thread = threading.Thread(target=fails, name="own")
    thread.start()
    thread.join()
    Finalised()
    return 1 / 0

builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").map_values(mapper).to("out")
with EmbeddedKafka() as kafka:
    kafka.create_topics("in", "out")
    kafka.create_input_topic("in", "string", "string").pipe_input("k", "v")
    run(builder, {"bootstrap.servers": "in-memory:9092"}, clients=kafka.clients, log_format="json")
"""


class Ended(NamedTuple):
    status: int
    lines: list[dict[str, Any]]
    """All of its output; a line that is no JSON fails."""

    @property
    def last(self) -> dict[str, Any]:
        """The line about the end."""
        (found,) = [line for line in self.lines if line["event"] == "ended by an error"]
        return found


def ended(folder: Path, *words: str) -> Ended:
    found = run(list(words), folder, environment(folder))
    assert "Traceback" not in found.stderr
    return Ended(found.returncode, [json.loads(line) for line in (found.stdout + found.stderr).splitlines()])


def of_run(folder: Path, *words: str, app: str = BUILDER) -> Ended:
    (folder / "app.py").write_text(app)
    return ended(folder, "-m", "streams", "run", "app.py", "--log-format", "json", *words)


def state_is_a_file(folder: Path) -> tuple[str, ...]:
    (folder / "taken").write_text("")
    return "-c", f"state.dir={folder / 'taken'}", "-c", UNREACHABLE


def state_below_a_file(folder: Path) -> tuple[str, ...]:
    (folder / "taken").write_text("")
    return "-c", f"state.dir={folder / 'taken' / 'state'}", "-c", UNREACHABLE


def state_of_another(folder: Path) -> tuple[str, ...]:
    StateDirectory.open(folder / "mine", "other").path.rename(folder / "mine" / "app")
    return "-c", f"state.dir={folder / 'mine'}", "-c", UNREACHABLE


KINDS: dict[str, tuple[Callable[[Path], tuple[str, ...]], str, int, str]] = {
    "state.dir is a file": (state_is_a_file, BUILDER, 2, "is not a directory"),
    "state.dir is below a file": (state_below_a_file, BUILDER, 2, "is not a directory"),
    "state of another application": (state_of_another, BUILDER, 2, "belongs to the application 'other'"),
    "a wrong setting": (lambda _: ("-c", "num.stream.threads=0", "-c", UNREACHABLE), BUILDER, 2, "num.stream.threads"),
    "wrong settings": (lambda _: ("-c", "colour=blue", "-c", "poll.ms=x"), BUILDER, 2, "3 settings are wrong:\n"),
    "no topology": (lambda _: ("-c", UNREACHABLE), "builder = None", 2, "topology"),
    "a module that fails": (lambda _: ("-c", UNREACHABLE), "1 / 0", 2, "division by zero"),
    "a module that is missing": (lambda _: ("-c", UNREACHABLE), "import none_such", 2, "none_such"),
    "no broker": (lambda _: ("-c", UNREACHABLE, "-c", SOON), BUILDER, 1, "cannot reach a broker"),
    "a port in use": (lambda _: ("-c", UNREACHABLE, "--http", "127.0.0.1:PORT"), BUILDER, 1, "cannot listen"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_line_of_a_failing_run_is_json_and_one_has_the_reason(kind: str, tmp_path: Path) -> None:
    """The reason was a text behind the log, so that a search for errors found nothing; and what no restart can cure
    ended with the status of what may pass, and was started for ever."""
    prepare, app, status, reason = KINDS[kind]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [word.replace("PORT", str(taken.getsockname()[1])) for word in prepare(tmp_path)]
        found = of_run(tmp_path, *words, app=app)
    assert (found.status, found.last["status"], found.last["level"]) == (status, status, "error")
    assert reason in found.last["error"]
    assert found.last["remedy"].endswith(("then start again", "respond")) or status == 1
    assert {"application", "thread", "task"} <= found.last.keys()


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["alone", "supervised"])
def test_a_permanent_error_of_workers_ends_their_supervisor_with_its_status(
    workers: tuple[str, ...], tmp_path: Path
) -> None:
    found = of_run(tmp_path, *state_is_a_file(tmp_path), *workers)
    assert found.status == 2
    errors = [line for line in found.lines if line["level"] == "error"]
    assert errors
    for line in errors:
        assert "is not a directory" in line["error"]
        assert line["remedy"].startswith("correct the state directory")


def test_a_record_that_fails_is_an_event_with_its_place(tmp_path: Path) -> None:
    """Warnings, threads of the user's and finalizers that fail are lines too."""
    (tmp_path / "app.py").write_text(POISON)
    found = ended(tmp_path, "app.py")
    assert (found.status, found.last["status"]) == (1, 1)
    place = {name: found.last[name] for name in ("topic", "partition", "offset", "task", "application")}
    assert place == {"topic": "in", "partition": 0, "offset": 0, "task": "0_0", "application": "app"}
    assert "ZeroDivisionError" in found.last["error"]
    assert "return 1 / 0" in [line.strip() for line in found.last["user_code"]]
    events = {line["event"]: line for line in found.lines}
    assert events["a library warns"]["warning"] == "a warning"
    assert events["a thread has ended by an error"]["error"] == "ValueError: in a thread of the user's"
    assert events["an error is ignored"]["error"] == "ValueError: in a finalizer"


PERMANENT: dict[str, BaseException] = {
    "usage": CannotRun("no such file"),
    "a missing package": ImportError("needs aiohttp"),
    "a setting": errors.ConfigError("wrong"),
    "a topology": errors.TopologyError("partitions differ"),
    "damage": errors.DamagedStateError("damaged"),
    "an incomplete handover": errors.BootstrapIncompleteError("incomplete"),
    "another format": errors.StateError("of another format"),
    **{
        f"a directory, {errno.errorcode[number]}": directory_error(OSError(number, "no"), Path("state"))
        for number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ELOOP)
    },
    "a database, EACCES": mapped(OSError(errno.EACCES, "no"), "state", "open"),
}
PASSING: dict[str, BaseException] = {
    "a topic": errors.MissingTopicError("no topic"),
    "brokers": errors.RetryableError("no answer"),
    "a service": errors.UnreachableError("no registry"),
    "a full disk": errors.DiskFullError("full"),
    "rights": errors.AuthorizationError("no READ"),
    "a login": errors.AuthenticationError("refused"),
    "a function": errors.ProcessingError("failed"),
    "a record": errors.DeserializationError("cannot be read"),
    "fencing": errors.TaskMigratedError("another member"),
    "a bug": errors.InternalError("bug"),
    "an error of Python": ValueError("no"),
    **{
        f"a directory, {errno.errorcode[number]}": directory_error(OSError(number, "no"), Path("state"))
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ENOMEM, errno.EMFILE, errno.ENOENT)
    },
    "a database, EIO": mapped(OSError(errno.EIO, "no"), "state", "open"),
    "a database in use": mapped(Exception("lock hold by current process"), "state", "open"),
    "a database, unknown": mapped(Exception("IO error: what"), "state", "open"),
}


@pytest.mark.parametrize("cause", PERMANENT)
def test_what_no_restart_can_cure_ends_with_status_2(cause: str) -> None:
    assert status_of(PERMANENT[cause]) == 2
    assert remedy_of(PERMANENT[cause])


@pytest.mark.parametrize("cause", PASSING)
def test_what_may_pass_ends_with_status_1(cause: str) -> None:
    assert status_of(PASSING[cause]) == 1
    assert remedy_of(PASSING[cause])
