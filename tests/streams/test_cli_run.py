"""`streams run` in this process, on an application that is not one."""

import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import DeserializationError, MissingTopicError, ProcessingError
from processor_api.task_id import TaskId
from processor_api.topology.topology import Topology
from streams.cli.main import main
from streams.cli.output import logs
from streams.cli.output.causes import CannotRun
from streams.cli.run import command as run
from streams.cli.run.worker import StopRequest, stop_with_supervisor
from streams.cli.run.worker_channel import SupervisorLine
from streams.config import StreamsConfig
from streams.log import working_on

SETTINGS = ("--application-id", "app", "--bootstrap-servers", "localhost:9092")
TEXT = ("--log-format", "text")


class Scripted:
    """An application that does on each wait what the next step says, and remembers what was asked of it."""

    def __init__(self, *steps: Callable[[], object], failure: BaseException | None = None, closes: bool = True) -> None:
        self.steps = list(steps)
        self.failure = failure
        self.closes = closes
        self.state = "CREATED"
        self.ready = True
        self.calls: list[str] = []
        self.config: StreamsConfig | None = None
        self.topology: Topology | None = None

    def __call__(self, topology: Topology, config: StreamsConfig) -> "Scripted":
        self.topology, self.config = topology, config
        return self

    def start(self) -> None:
        self.calls.append("start")
        self.state = "RUNNING"

    def wait(self, timeout_s: float | None = None) -> bool:
        assert timeout_s is not None
        assert 0 < timeout_s <= 1
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False

    def is_ready(self) -> bool:
        return self.ready

    def close(self, timeout: timedelta | float | None = None) -> bool:
        given = timeout // timedelta(milliseconds=1) if isinstance(timeout, timedelta) else timeout
        self.calls.append(f"close {given}")
        return self.closes


@pytest.fixture(autouse=True)
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "run_app.py").write_text(
        "from processor_api.topology.topology import Topology\n"
        "def topology(): return Topology().add_source('source', 'topic')\n"
        "def nothing(): return None\n"
    )
    monkeypatch.chdir(tmp_path)
    path, umask = list(sys.path), os.umask(0o022)
    os.umask(umask)
    yield
    os.umask(umask)
    sys.path[:] = path
    sys.modules.pop("run_app", None)


def run_app(application: Scripted, *arguments: str, topology: str = "run_app:topology") -> int:
    return main(["run", topology, *SETTINGS, *arguments], runner=application)


def killed_by(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_an_application_that_ends_by_itself_ends_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    application = Scripted(lambda: None)
    assert run_app(application) == 0
    assert application.calls == ["start", "close 30000"]
    assert application.topology is not None
    assert application.config is not None
    assert application.config.application_id == "app"
    assert capfd.readouterr().err == ""


def test_the_ready_file_is_there_while_it_is_ready(tmp_path: Path) -> None:
    seen: list[bool] = []
    file = tmp_path / "ready"

    def step(ready: bool) -> Callable[[], None]:
        def change() -> None:
            seen.append(file.exists())
            application.ready = ready

        return change

    application = Scripted(step(True), step(False), step(True), step(True))
    application.ready = False
    assert run_app(application, "--ready-file", str(file)) == 0
    assert seen == [False, True, False, True]
    assert not file.exists()


def test_a_ready_file_that_cannot_be_written_ends_it_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    application = Scripted(lambda: None)
    assert run_app(application, "--ready-file", str(tmp_path / "none" / "ready")) == 2
    assert application.calls == []
    assert "none/ready cannot be written: No such file or directory" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_loading_ends_it_there(number: int, tmp_path: Path) -> None:
    """What the user's module does may take long; nothing is open yet."""
    (tmp_path / "run_app.py").write_text(
        f"import os\nos.kill(os.getpid(), {int(number)})\nraise ValueError('too late')\n"
    )
    application = Scripted()
    before = signal.getsignal(number)
    assert run_app(application) == 0
    assert application.calls == []
    assert signal.getsignal(number) is before


def test_a_signal_that_a_module_catches_while_loading_counts_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "run_app.py").write_text(
        "import os, signal\nfrom processor_api.topology.topology import Topology\n"
        "try: os.kill(os.getpid(), signal.SIGTERM)\nexcept BaseException: pass\n"
        "def topology(): return Topology().add_source('source', 'topic')\n"
    )
    application = Scripted()
    assert run_app(application) == 0
    assert application.calls == []


def test_a_stop_while_it_starts_does_not_wait_for_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    """A broker that does not answer is asked for half a minute. Nothing runs yet, so the process may just end; the
    application is told before, since a start that fills global stores gives up then."""
    over = threading.Event()

    class Starting(Scripted):
        def start(self) -> None:
            self.calls.append("start")
            os.kill(os.getpid(), signal.SIGTERM)
            over.wait(60)

    application, ended = Starting(), list[int]()
    assert run.run(parsed("run", "run_app:topology", *SETTINGS, runner=application), hard_exit=ended.append) == 0
    over.set()
    assert (application.calls, ended) == (["start", "close 0"], [0])


def test_a_start_that_ends_soon_after_the_stop_is_closed() -> None:
    """With the time it is given. It is told of the stop before that if it was still seen at its start."""

    class Starting(Scripted):
        def start(self) -> None:
            super().start()
            os.kill(os.getpid(), signal.SIGTERM)

    application = Starting(lambda: None)
    assert run_app(application) == 0
    assert application.calls in (["start", "close 30000"], ["start", "close 0", "close 30000"])


def test_sigterm_may_come_twice(capfd: pytest.CaptureFixture[str]) -> None:
    """As `timeout` sends it: to its child, and to the group."""
    twice = [killed_by(signal.SIGTERM), killed_by(signal.SIGTERM)]
    application = Scripted(lambda: [kill() for kill in twice])
    assert run_app(application) == 0
    assert application.calls == ["start", "close 30000"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_cleanly(number: int, capfd: pytest.CaptureFixture[str]) -> None:
    def unreached() -> None:
        raise AssertionError("still waiting")

    before = signal.getsignal(number)
    application = Scripted(killed_by(number), unreached)
    assert run_app(application, "--close-timeout-ms", "700") == 0
    assert application.calls == ["start", "close 700"]
    assert signal.getsignal(number) is before
    closing = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert (closing["event"], closing["reason"]) == ("closing", signal.Signals(number).name)


def test_a_failure_is_one_line_and_status_1(capfd: pytest.CaptureFixture[str]) -> None:
    failure = ProcessingError("processor 'count' failed", topic="in", partition=3, offset=17)
    failure.__cause__ = ValueError("no such\nthing")
    assert run_app(Scripted(failure=failure), *TEXT) == 1
    assert capfd.readouterr().err == (
        "error: processor 'count' failed [topic='in', partition=3, offset=17]; caused by ValueError: no such thing\n"
    )


def test_the_traceback_is_shown_when_debugging(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_app(Scripted(failure=DeserializationError("cannot read")), "--log-level", "debug", *TEXT) == 1
    shown = capfd.readouterr().err
    assert "Traceback (most recent call last):" in shown
    assert shown.endswith("error: cannot read\n")


def test_a_start_that_fails_is_closed_and_told(capfd: pytest.CaptureFixture[str]) -> None:
    class Refused(Scripted):
        def start(self) -> None:
            raise MissingTopicError("topic 'in' does not exist: create it", topic="in")

    application = Refused()
    assert run_app(application, *TEXT) == 1
    assert application.calls == ["close 30000"]
    assert capfd.readouterr().err == "error: topic 'in' does not exist: create it [topic='in']\n"


def test_an_end_in_error_without_a_failure_is_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    application = Scripted()
    application.steps.append(lambda: setattr(application, "state", "ERROR"))
    assert run_app(application) == 1
    assert "ended in state ERROR" in capfd.readouterr().err


def test_what_does_not_close_in_time_is_ended_hard(capfd: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []
    command = Scripted(killed_by(signal.SIGTERM), closes=False)
    arguments = parsed("run", "run_app:topology", *SETTINGS, "--close-timeout-ms", "5", runner=command)
    assert run.run(arguments, hard_exit=ended.append) == 1
    assert ended == [1]
    assert capfd.readouterr().err.endswith("error: the application did not close within 5 ms and was killed\n")


def parsed(*words: str, runner: Any = None) -> Any:
    """What the parser makes of a command line."""
    from streams.cli.main import parser

    arguments = parser().parse_args(words)
    arguments.words, arguments.runner = list(words[1:]), runner
    return arguments


@pytest.mark.parametrize(
    ("arguments", "topology", "line"),
    [
        ((), "run_app:nothing", "error: run_app:nothing must return a topology"),
        ((), "no_such_app:topology", "error: module 'no_such_app' does not exist in "),
        (("-c", "num.stream.threads=0"), "run_app:topology", "error: num.stream.threads must be at least 1, got 0\n"),
        (("-c", "nonsense"), "run_app:topology", "error: -c takes key=value, got 'nonsense'\n"),
        (("--config", "none.toml"), "run_app:topology", "error: none.toml cannot be read: No such file or directory\n"),
        (("--workers", "2", "-c", "poll.ms=x"), "run_app:topology", "error: poll.ms must be a timedelta or whole"),
    ],
)
def test_what_cannot_run_is_one_line_and_status_2(
    arguments: tuple[str, ...], topology: str, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    application = Scripted()
    assert run_app(application, *arguments, *TEXT, topology=topology) == 2
    shown = capfd.readouterr().err
    assert shown.startswith(line)
    assert shown.count("\n") == 1
    assert application.calls == []


def test_settings_come_from_the_file_then_c_then_options(tmp_path: Path) -> None:
    (tmp_path / "app.toml").write_text(
        'application.id = "file"\nnum.stream.threads = 2\npoll_ms = 5\n[consumer]\nfetch.min.bytes = 3\n'
    )
    application = Scripted()
    assert run_app(application, "--config", "app.toml", "-c", "num_stream_threads=3", "-c", "poll.ms=6") == 0
    assert application.config is not None
    assert (application.config.application_id, application.config.num_stream_threads) == ("app", 3)
    assert (application.config.poll_ms, application.config.consumer) == (6, {"fetch.min.bytes": 3})
    assert run_app(application, "-c", "num.stream.threads=3", "--threads", "4") == 0
    assert application.config.num_stream_threads == 4


@pytest.mark.parametrize(
    ("before", "group_write", "expected"),
    [(0o022, False, 0o640), (0o000, False, 0o640), (0o077, False, 0o600), (0o022, True, 0o660), (0o077, True, 0o660)],
)
def test_files_of_a_worker_are_not_for_others(before: int, group_write: bool, expected: int, tmp_path: Path) -> None:
    """Those of databases too, which are made in the background as they come."""
    umask = os.umask(before)
    try:
        run.keep_files_private(group_write=group_write)
        (tmp_path / "made").touch()
    finally:
        os.umask(umask)
    assert (tmp_path / "made").stat().st_mode & 0o777 == expected


def test_python_without_the_gil_is_refused() -> None:
    with pytest.raises(CannotRun, match="runs without the GIL, but the Kafka client and RocksDB need the GIL"):
        run.refuse_free_threading(lambda: False)
    run.refuse_free_threading(lambda: True)


def test_workers_need_file_locks() -> None:
    with pytest.raises(CannotRun, match="--workers needs file locks, which this platform does not have"):
        run.run(parsed("run", "run_app:topology", *SETTINGS, "--workers", "2"), shared_state=False)


def test_losing_the_supervisor_asks_to_stop_and_then_ends_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    ended = threading.Event()
    statuses: list[int] = []

    def end(status: int) -> None:
        statuses.append(status)
        ended.set()

    read_end, write_end = os.pipe()
    stop = StopRequest()
    watch = stop_with_supervisor(SupervisorLine(read_end), stop, close_timeout_ms=1, end=end)
    assert not stop.asked.is_set()
    os.close(write_end)
    assert stop.asked.wait(30)
    assert stop.reason == "the supervisor died"
    assert ended.wait(30)
    assert statuses == [1]
    watch.join(30)
    os.close(read_end)
    assert "the supervisor died and the application did not close in time" in capfd.readouterr().err


def test_an_application_that_closed_is_not_ended_by_the_supervisors_death() -> None:
    read_end, write_end = os.pipe()
    stop = StopRequest()
    watch = stop_with_supervisor(
        SupervisorLine(read_end), stop, close_timeout_ms=600_000, end=lambda _: pytest.fail("ended")
    )
    stop.closed.set()
    os.close(write_end)
    watch.join(30)
    assert not watch.is_alive()
    os.close(read_end)


@pytest.fixture
def logged() -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Sets up logs as JSON, runs something on a thread and gives the lines."""

    def lines(application: str | None, *steps: Callable[[], object]) -> list[dict[str, Any]]:
        stream = io.StringIO()
        logs.configure("json", "info", stream)
        logs.name_application(application)
        for step in steps:
            step()
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    yield lines
    logs.name_application(None)


def test_every_line_has_application_thread_and_task(logged: Callable[..., list[dict[str, Any]]]) -> None:
    """The task is the one the line names, else the one its thread works on; of other threads, none."""
    log = logging.getLogger("user.own")

    def in_thread() -> None:
        def work() -> None:
            with working_on(TaskId(0, 1)):
                log.info("in work")
                log.info("named", extra={"task": "0_7"})
            log.info("after")

        thread = threading.Thread(target=work, name="app-StreamThread-1")
        with working_on(TaskId(9, 9)):
            thread.start()
            thread.join()

    found = logged("orders", lambda: log.info("main"), in_thread)
    assert [(line["event"], line["thread"], line["task"]) for line in found] == [
        ("main", "MainThread", None),
        ("in work", "app-StreamThread-1", "0_1"),
        ("named", "app-StreamThread-1", "0_7"),
        ("after", "app-StreamThread-1", None),
    ]
    assert {line["application"] for line in found} == {"orders"}


def test_a_line_of_text_has_them_as_far_as_there_are() -> None:
    stream = io.StringIO()
    logs.configure("text", "info", stream)
    logging.getLogger("x").info("before")
    logs.name_application("orders")
    with working_on(TaskId(0, 1)):
        logging.getLogger("x").info("in work")
    logs.name_application(None)
    before, in_work = stream.getvalue().splitlines()
    assert "application" not in before
    assert "task" not in before
    assert [part in in_work for part in ("application=orders", "thread=MainThread", "task=0_1")] == [True] * 3


def test_logs_carry_fields_as_json_or_text() -> None:
    for log_format in logs.FORMATS:
        stream = io.StringIO()
        logs.configure(log_format, "info", stream)
        logging.getLogger("streams.runtime").debug("hidden")
        logging.getLogger("streams.runtime").info("task %s opened", "0_1", extra={"task": "0_1", "took_ms": 3})
        line = stream.getvalue()
        assert line.count("\n") == 1
        if log_format == "json":
            found = json.loads(line)
            assert (found["event"], found["task"], found["took_ms"]) == ("task 0_1 opened", "0_1", 3)
            assert (found["level"], found["logger"]) == ("info", "streams.runtime")
            assert found["timestamp"].endswith("Z")
        else:
            assert "task 0_1 opened" in line
            assert "took_ms=3" in line
