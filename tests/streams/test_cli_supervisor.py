"""Workers are started, restarted, stopped, and never outlive their supervisor."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from control_groups import ControlGroup, control_group
from integration_support.workers import alive
from last_lines import as_text
from processor_api.clock import SystemClock
from processor_api.errors import RetryableError, StreamsError
from state.directory.state_directory import StateDirectory
from streams.cli.run.supervisor import Supervisor, TakeOvers
from streams.cli.run.worker import StopRequest, run_until_stopped
from streams.cli.run.worker_processes import RestartPolicy, worker_command
from streams.config import StreamsConfig
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from waiting import DEADLINE_S, wait_until

__all__ = ["control_group"]

REPOSITORY = Path(__file__).resolve().parents[2]
SOON = RestartPolicy(most_restarts=2, first_delay_s=0.01, longest_delay_s=0.02)

# A worker is the real command with an application that writes down what happens to it.
WORKER = """
import os, sys, time
from pathlib import Path
from streams.cli.main import main

NOTES, BEHAVIOUR = Path(sys.argv[1]), sys.argv[2]

def note(what):
    (NOTES / f"{what}-{os.getpid()}").touch()

class Application:
    state, failure, waited = "RUNNING", None, False
    def __init__(self, topology, config):
        note("made")
    def start(self):
        note("started")
    def wait(self, timeout_s):
        time.sleep(timeout_s)
        if BEHAVIOUR == "fails" and self.waited:
            raise RuntimeError("cannot go on")
        while BEHAVIOUR == "hungry" and (NOTES / f"eat-{os.getpid()}").exists():
            self.eaten = getattr(self, "eaten", b"") + b"x" * (1 << 20)
        self.waited = True
        return False
    def is_ready(self):
        return True
    def close(self, timeout=None):
        if BEHAVIOUR == "stuck":
            note("closing")
            time.sleep(600)
        note("closed")
        return True

sys.exit(main(sys.argv[3:], runner=Application))
"""
TOPOLOGY = """
import os, sys
from pathlib import Path
from processor_api.topology.topology import Topology

Path(sys.argv[1], f"loaded-{os.getpid()}").touch()

def topology():
    return Topology().add_source('s', 't')
"""
SUPERVISOR = """
import logging, sys
from streams.cli.run.supervisor import Supervisor
from streams.cli.run.worker_processes import RestartPolicy
logging.basicConfig(level="INFO")
shown = {"error": "", "reason": "", "pid": ""}
logging.root.handlers[0].setFormatter(logging.Formatter("%(message)s %(error)s%(reason)s%(pid)s", defaults=shown))
base = sys.argv[4:]
policy = RestartPolicy(2, first_delay_s=0.01, longest_delay_s=0.02, spare=sys.argv[3] == "spare")
command = lambda descriptor: [*base, "--supervised-by", str(descriptor)]
sys.exit(Supervisor(command, int(sys.argv[1]), policy=policy, stop_timeout_s=float(sys.argv[2])).run())
"""


class Supervised:
    """A supervisor in a process of its own, and what its workers noted."""

    def __init__(
        self, folder: Path, workers: int, behaviour: str, stop_timeout_s: float, close_timeout_ms: int, spare: bool
    ) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.mkdir()
        for name, text in (("worker.py", WORKER), ("supervisor.py", SUPERVISOR)):
            (folder / name).write_text(text)
        worker = [sys.executable, "worker.py", str(self.notes), behaviour, "run", "supervised_app:topology"]
        worker += ["--application-id", "a", "--bootstrap-servers", "b:1", "--close-timeout-ms", str(close_timeout_ms)]
        kind = "spare" if spare else "plain"
        with open(folder / "errors", "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "supervisor.py", str(workers), str(stop_timeout_s), kind, *worker],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stderr=errors,
            )

    @property
    def errors(self) -> str:
        return (self.folder / "errors").read_text()

    def pids(self, what: str) -> set[int]:
        return {int(path.name.partition("-")[2]) for path in self.notes.glob(f"{what}-*")}

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)


@contextmanager
def supervised(
    folder: Path,
    workers: int = 2,
    behaviour: str = "",
    stop_timeout_s: float = 30,
    close_timeout_ms: int = 10_000,
    *,
    spare: bool = False,
    app: str = TOPOLOGY,
) -> Iterator[Supervised]:
    (folder / "supervised_app.py").write_text(app)
    found = Supervised(folder, workers, behaviour, stop_timeout_s, close_timeout_ms, spare)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        for pid in found.pids("made") | found.pids("loaded"):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether a process runs")


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_every_worker_cleanly(tmp_path: Path, number: int) -> None:
    with supervised(tmp_path, workers=3) as found:
        wait_until("three have started", lambda: len(found.pids("started")) == 3)
        found.process.send_signal(number)
        assert found.wait() == 0
        assert found.pids("closed") == found.pids("started")
        assert not any(alive(pid) for pid in found.pids("started"))


@linux
def test_a_killed_worker_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    with supervised(tmp_path) as found:
        wait_until("two have started", lambda: len(found.pids("started")) == 2)
        victim, other = found.pids("started")
        os.kill(victim, signal.SIGKILL)
        wait_until("three have started", lambda: len(found.pids("started")) == 3)
        assert alive(other)
        found.process.terminate()
        assert found.wait() == 0
        assert found.pids("closed") == found.pids("started") - {victim}


@linux
def test_a_worker_for_which_there_is_no_memory_is_started_again_and_the_reason_said(
    tmp_path: Path, control_group: Callable[[str], ControlGroup]
) -> None:
    """The kernel ends it by SIGKILL: it cannot say anything itself."""
    group = control_group("memory")
    group.limit_memory(48 << 20)
    with supervised(tmp_path, behaviour="hungry") as found:
        wait_until("two have started", lambda: len(found.pids("started")) == 2)
        victim, other = found.pids("started")
        group.write("cgroup.procs", str(victim))
        (found.notes / f"eat-{victim}").touch()
        wait_until("three have started", lambda: len(found.pids("started")) == 3)
        assert alive(other)
        found.process.terminate()
        assert found.wait() == 0
    assert "worker died, restarting SIGKILL: another process killed it, or the kernel did because" in found.errors


# ---------------------------------------------------------------------- the spare


def warm_spare(found: Supervised) -> int:
    """Waits until two workers run, and a spare has loaded the application; returns its process id."""
    wait_until("two have started", lambda: len(found.pids("started")) >= 2)
    return int(
        wait_until(
            "the spare is warm", lambda: re.findall(r"the spare process has loaded .* (\d+)$", found.errors, re.M)
        )[-1]
    )


@linux
def test_the_spare_takes_the_place_of_a_worker_that_died(tmp_path: Path) -> None:
    """It loads nothing again. Then there is a next spare, which ends with the workers."""
    with supervised(tmp_path, spare=True) as found:
        spare = warm_spare(found)
        victim, other = found.pids("started")
        assert spare not in found.pids("made")
        os.kill(victim, signal.SIGKILL)
        wait_until("the spare is a worker", lambda: spare in found.pids("started"))
        wait_until("another spare has loaded", lambda: len(found.pids("loaded")) == 4)
        found.process.terminate()
        assert found.wait() == 0
        assert found.pids("made") == {victim, other, spare}
        assert found.pids("closed") == {other, spare}
        assert not any(alive(pid) for pid in found.pids("loaded"))


@linux
def test_a_spare_of_older_code_is_refused_and_a_fresh_process_started(tmp_path: Path) -> None:
    with supervised(tmp_path, spare=True) as found:
        spare = warm_spare(found)
        (tmp_path / "supervised_app.py").write_text(TOPOLOGY + "# a newer version\n")
        victim, _ = found.pids("started")
        os.kill(victim, signal.SIGKILL)
        wait_until("a third one has started", lambda: len(found.pids("started")) == 3)
        wait_until("the spare has ended", lambda: not alive(spare))
        assert spare not in found.pids("made")
        found.process.terminate()
        assert found.wait() == 0
    assert found.errors.count("the spare process is older than what a worker would load now, and is not used") == 1
    assert f"module supervised_app has changed since ({tmp_path / 'supervised_app.py'})" in found.errors
    assert found.errors.count("worker died, restarting") == 1


@linux
def test_a_spare_whose_settings_have_changed_is_refused(tmp_path: Path) -> None:
    with supervised(tmp_path, spare=True) as found:
        spare = warm_spare(found)
        (tmp_path / "streams.toml").write_text('"num.stream.threads" = 2\n')
        victim, _ = found.pids("started")
        os.kill(victim, signal.SIGKILL)
        wait_until("a third one has started", lambda: len(found.pids("started")) == 3)
        assert spare not in found.pids("made")
        found.process.terminate()
        assert found.wait() == 0
    assert "settings have changed since: num.stream.threads" in found.errors


@linux
def test_a_spare_of_an_older_topology_is_refused(tmp_path: Path) -> None:
    """A worker that was started later has another one, though no module has changed: it is read from a file."""
    (tmp_path / "name").write_text("old")
    app = TOPOLOGY.replace("'s'", "name") + (
        "\nname = Path('name').read_text()\n"
        "while len(list(Path(sys.argv[1]).glob('loaded-*'))) == 3 and not Path('gate').exists():\n"
        "    os.sched_yield()\n"
    )
    with supervised(tmp_path, spare=True, app=app) as found:
        wait_until("the spare begins to load", lambda: len(found.pids("loaded")) == 3)
        first, second = found.pids("started")
        (tmp_path / "name").write_text("new")
        os.kill(first, signal.SIGKILL)
        wait_until("a third one has started", lambda: len(found.pids("started")) == 3)
        (tmp_path / "gate").touch()
        spare = warm_spare(found)
        os.kill(second, signal.SIGKILL)
        wait_until("a fourth one has started", lambda: len(found.pids("started")) == 4)
        wait_until("the spare has ended", lambda: not alive(spare))
        assert spare not in found.pids("made")
        found.process.terminate()
        assert found.wait() == 0
    assert found.errors.count("a worker that was started later runs another topology") == 1


@linux
def test_no_worker_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with supervised(tmp_path) as found:
        wait_until("two have started", lambda: len(found.pids("started")) == 2)
        workers = found.pids("started")
        found.process.kill()
        found.wait()
        wait_until("the workers have ended", lambda: not any(alive(pid) for pid in workers))
        assert found.pids("closed") == workers


@linux
def test_a_worker_that_cannot_close_ends_all_the_same_when_its_supervisor_was_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, workers=1, behaviour="stuck", close_timeout_ms=1000) as found:
        wait_until("one has started", lambda: len(found.pids("started")) == 1)
        found.process.kill()
        wait_until("the workers have ended", lambda: not any(alive(pid) for pid in found.pids("started")))
        assert len(found.pids("closing")) == 1


@linux
def test_a_worker_that_does_not_close_in_time_is_killed_and_that_is_a_failure(tmp_path: Path) -> None:
    with supervised(tmp_path, workers=2, behaviour="stuck", stop_timeout_s=0.3) as found:
        wait_until("two have started", lambda: len(found.pids("started")) == 2)
        found.process.terminate()
        assert found.wait() == 1
        assert not any(alive(pid) for pid in found.pids("started"))


@linux
def test_ctrl_c_after_a_signal_does_not_wait(tmp_path: Path) -> None:
    with supervised(tmp_path, workers=1, behaviour="stuck", stop_timeout_s=600, close_timeout_ms=600_000) as found:
        wait_until("one has started", lambda: len(found.pids("started")) == 1)
        found.process.terminate()
        wait_until("one closes", lambda: len(found.pids("closing")) == 1)
        found.process.send_signal(signal.SIGINT)
        assert found.wait() == 1
        assert not any(alive(pid) for pid in found.pids("started"))


def test_a_stop_before_it_runs_starts_nothing(tmp_path: Path) -> None:
    log, command = log_of_starts(tmp_path)
    supervisor = Supervisor(lambda _: command("0"), 2, policy=SOON)
    supervisor.stop("the test")
    assert supervisor.run() == 0
    assert not log.exists()


@linux
def test_a_worker_that_keeps_failing_is_given_up_and_the_others_are_closed(tmp_path: Path) -> None:
    with supervised(tmp_path, workers=1, behaviour="fails") as found:
        assert found.wait() == 1
        assert len(found.pids("made")) == 3  # the first time, and two restarts


def log_of_starts(tmp_path: Path) -> tuple[Path, Callable[[str], list[str]]]:
    log = tmp_path / "starts"

    def command(status: str) -> list[str]:
        code = f"import sys; open({str(log)!r}, 'a').write('x'); sys.exit({status})"
        return [sys.executable, "-c", code]

    return log, command


def test_a_worker_that_cannot_run_is_not_tried_again(tmp_path: Path) -> None:
    log, command = log_of_starts(tmp_path)
    assert Supervisor(lambda _: command("2"), 1, policy=SOON).run() == 2
    assert log.read_text() == "x"


def test_workers_that_end_cleanly_by_themselves_end_the_supervisor(tmp_path: Path) -> None:
    log, command = log_of_starts(tmp_path)
    assert Supervisor(lambda _: command("0"), 3, policy=SOON).run() == 0
    assert log.read_text() == "xxx"


def test_a_stop_between_a_death_and_the_restart_starts_nothing(tmp_path: Path) -> None:
    log, command = log_of_starts(tmp_path)
    policy = RestartPolicy(first_delay_s=600.0, longest_delay_s=600.0)

    class StopsAfterTheFirstDeath:
        """The machine's clock; the supervisor waits on it once a round."""

        monotonic = staticmethod(time.monotonic)

        def time_ms(self) -> int:
            return time.time_ns() // 1_000_000

        def wait(self, seconds: float) -> None:
            time.sleep(seconds)
            if log.exists():
                supervisor.stop("the test")

    supervisor = Supervisor(lambda _: command("1"), 1, policy=policy, clock=StopsAfterTheFirstDeath())
    assert supervisor.run() in (0, 1)
    assert log.read_text() == "x"


def test_restarts_wait_longer_each_time_up_to_a_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, command = log_of_starts(tmp_path)
    policy = RestartPolicy(most_restarts=3, first_delay_s=0.01, longest_delay_s=0.02)
    with caplog.at_level("WARNING", logger="streams.cli.supervisor"):
        assert Supervisor(lambda _: command("1"), 1, policy=policy).run() == 1
    delays = [record.__dict__["delay_s"] for record in caplog.records if "delay_s" in record.__dict__]
    assert delays == [0.01, 0.02, 0.02]
    assert caplog.records[-1].__dict__["reason"] == "it died 4 times"


@pytest.mark.parametrize(("protocol", "delays"), [("classic", [0.0, 0.02]), ("streams", [0.01, 0.02])])
def test_a_worker_that_ran_is_restarted_at_once_where_it_joins_in_the_same_rebalance(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, protocol: str, delays: list[float]
) -> None:
    """But not one that dies again."""
    supervisor = Supervisor(dying(tmp_path, [RUNS]), 1, policy=SOON)
    config = StreamsConfig.of({**OF_APP, "group.protocol": protocol})
    supervisor.take_overs = TakeOvers(config, lambda: WithTransaction().clients.admin({}))
    assert supervisor.run() == 1
    deaths = [one for one in caplog.records if one.message == "worker died, restarting"]
    assert [one.__dict__["delay_s"] for one in deaths] == delays


def test_only_deaths_within_the_window_count(tmp_path: Path) -> None:
    log, command = log_of_starts(tmp_path)
    dies_three_times = f"0 if len(open({str(log)!r}).read()) > 3 else 1"
    policy = RestartPolicy(most_restarts=1, window_s=0.0, first_delay_s=0.0)
    assert Supervisor(lambda _: command(dies_three_times), 1, policy=policy).run() == 0
    assert log.read_text() == "xxxx"


@pytest.mark.parametrize(
    "given", [("-c", "poll.ms=5"), ("-cpoll.ms=5",), ("-c=poll.ms=5",), ("-c", "-c", "--threads", "2")]
)
def test_a_worker_is_this_python_running_the_same_arguments(given: tuple[str, ...]) -> None:
    """But for settings, which may be secrets: the arguments of a process can be read by every user."""
    command = worker_command(["app:topology", "--workers", "4", *given, "--config", "c.toml"])(7)
    assert command[:4] == [sys.executable, "-m", "streams", "run"]
    assert command[4:] == [
        *("app:topology", "--workers", "4", *given[2:], "--config", "c.toml"),
        *("--workers", "1", "--supervised-by", "7"),
    ]


def test_the_line_of_a_worker_is_at_its_end_only_when_the_supervisor_is_gone(tmp_path: Path) -> None:
    """While the supervisor lives, a worker's read finds its settings, and then neither data nor an end."""
    code = (
        "import json, os, select, sys; fd = int(sys.argv[1]); line = b''\n"
        "while not line.endswith(b'\\n'): line += os.read(fd, 1)\n"
        f"json.dump([json.loads(line), select.select([fd], [], [], 0)[0]], open({str(tmp_path / 'seen')!r}, 'w'))\n"
    )
    command = [sys.executable, "-c", code]
    assert Supervisor(lambda fd: [*command, str(fd)], 1, policy=SOON, settings=["a=ö"]).run() == 0
    assert json.loads((tmp_path / "seen").read_text()) == [{"settings": ["a=ö"]}, []]


@linux
def test_settings_reach_workers_and_are_in_no_workers_arguments(tmp_path: Path) -> None:
    """As a user of the machine sees them. Many of them are more than a socket takes at once."""
    padding = [word for number in range(100) for word in ("-c", f"topic.note{number}={'x' * 1000}")]
    (tmp_path / "secret_app.py").write_text(
        "import os, time\nfrom pathlib import Path\n"
        "def topology(config):\n"
        "    assert config.clients['sasl.password'] == 'hunter2' and len(config.topic) == 100\n"
        "    Path(f'seen-{os.getpid()}').touch()\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "streams", "run", "secret_app:topology", "--workers", "2", *padding]
    command += ["--application-id", "a", "--bootstrap-servers", "b:1", "-c", "sasl.password=hunter2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until("both have seen it", lambda: len(list(tmp_path.glob("seen-*"))) == 2)
        for seen in tmp_path.glob("seen-*"):
            arguments = Path(f"/proc/{seen.name.removeprefix('seen-')}/cmdline").read_text().split("\0")
            assert "secret_app:topology" in arguments
            assert not any("hunter2" in word or word.startswith("-c") for word in arguments)
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        assert errors.count("a secret is among the arguments") == 1
        assert "hunter2" not in errors
    finally:
        process.kill()
        process.communicate()


# ---------------------------------------------------------------------- the same error again and again


def dying(tmp_path: Path, *lives: list[dict[str, Any]], default: str = "1") -> Callable[[int], list[str]]:
    """A command whose n-th process tells these things and dies."""
    log = tmp_path / "starts"
    code = (
        "import json, os, sys\n"
        f"lives = json.loads({json.dumps(json.dumps(lives))})\n"
        "number = int(sys.argv[2])\n"
        f"open({str(log)!r}, 'a').write('x')\n"
        "for one in lives[min(number, len(lives) - 1)]: os.write(int(sys.argv[1]), json.dumps(one).encode() + b'\\n')\n"
        f"sys.exit({default})"
    )
    started = itertools.count()
    return lambda descriptor: [sys.executable, "-c", code, str(descriptor), str(next(started))]


def told(text: str, *, passes: bool = False) -> dict[str, Any]:
    return {"error": text, "remedy": "do it", "passes": passes}


RUNS = {"state": "RUNNING"}


def test_workers_that_all_die_of_the_same_before_they_run_are_not_started_again(tmp_path: Path) -> None:
    """But for numbers, since each has its own tasks. That a worker was started twice meanwhile changes nothing."""
    command = dying(tmp_path, [told("no topic for task 0_1")], [told("no topic for task 0_17")])
    supervisor = Supervisor(command, 2, policy=RestartPolicy(first_delay_s=600.0))
    assert supervisor.run() == 1
    assert supervisor.failure.text == "none of the 2 workers started: no topic for task 0_1"
    assert (tmp_path / "starts").read_text() == "xx"


@pytest.mark.parametrize(
    "lives",
    [
        tuple([told(f"of {word}")] for word in ["one", "two", "three", "four", "five", "six", "seven", "eight"]),
        ([told("no broker", passes=True)],),
        ([RUNS, told("division by zero")],),
        ([],),
        ([told("division by zero")], [RUNS, told("division by zero")]),
    ],
    ids=["different", "passing", "after they ran", "killed", "one ran"],
)
def test_workers_that_die_of_anything_else_are_started_again(tmp_path: Path, lives: Any) -> None:
    """Until one of them has died too often."""
    supervisor = Supervisor(dying(tmp_path, *lives), 2, policy=SOON)
    assert supervisor.run() == 1
    assert supervisor.failure is not None
    assert re.match(r"worker [01] died \d times within \d+ s", supervisor.failure.text)
    assert len((tmp_path / "starts").read_text()) > 2


def test_the_error_of_a_worker_that_ran_is_reported_with_each_death(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The supervisor said that no worker had started, or nothing about the reason."""
    supervisor = Supervisor(dying(tmp_path, [RUNS, told("division by zero")]), 1, policy=SOON)
    assert supervisor.run() == 1
    assert supervisor.failure is not None
    assert supervisor.failure.text.endswith(", the last time by: division by zero")
    deaths = [one for one in caplog.records if one.message == "worker died, restarting"]
    assert deaths
    assert {one.error for one in deaths} == {"division by zero"}  # type: ignore[attr-defined]


def test_a_worker_that_ran_between_two_looks_at_its_state_has_run() -> None:
    """It failed within a fraction of a second, and counted as one that had not started."""

    class Short:
        state, failure, has_run = "ERROR", ValueError("bad record"), True

        def start(self) -> None: ...

        def wait(self, timeout: Any = None, /) -> bool:
            return True

        def is_ready(self) -> bool:
            return False

        def close(self, timeout: Any = None, /) -> bool:
            return True

    reported: list[bool] = []
    with pytest.raises(ValueError, match="bad record"):
        run_until_stopped(Short(), StopRequest(), close_timeout_ms=1000, running=lambda: reported.append(True))
    assert reported == [True]


class Starting:
    """An application whose start fails as often as ``failures`` says, and which ends by itself."""

    failure, has_run = None, False

    def __init__(self, failures: list[Exception]) -> None:
        self._failures = failures
        self.state = "CREATED"

    def start(self) -> None:
        if self._failures:
            self.state = "ERROR"
            raise self._failures.pop()
        self.state = "NOT_RUNNING"

    def wait(self, timeout: Any = None, /) -> bool:
        return True

    def is_ready(self) -> bool:
        return False

    def close(self, timeout: Any = None, /) -> bool:
        return True


def test_a_start_without_an_answer_is_tried_again_if_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    """As long as brokers are away, a worker that was started again waits for them, as others that run."""
    failures: list[Exception] = [RetryableError("no broker answers")]
    made: list[Starting] = []

    def again() -> Starting:
        made.append(Starting(failures))
        return made[-1]

    run_until_stopped(Starting(failures), StopRequest(), close_timeout_ms=1000, again=again)
    assert [one.state for one in made] == ["NOT_RUNNING"]
    lines = [one for one in caplog.records if one.levelname == "WARNING"]
    assert [one.message for one in lines] == ["the application cannot start yet: that is tried again until it can"]
    assert lines[0].error == "no broker answers"  # type: ignore[attr-defined]


@pytest.mark.parametrize("waits", [False, True])
def test_a_start_that_fails_otherwise_or_shall_not_wait_fails(waits: bool) -> None:
    failures: list[Exception] = [StreamsError("no such topic") if waits else RetryableError("no broker answers")]
    again = (lambda: Starting([])) if waits else None
    with pytest.raises(StreamsError, match="no such topic" if waits else "no broker answers"):
        run_until_stopped(Starting(failures), StopRequest(), close_timeout_ms=1000, again=again)


def test_only_workers_that_are_started_after_one_has_run_wait_for_brokers(tmp_path: Path) -> None:
    """Before, the address of the brokers may be wrong: then the start is to fail."""
    seen = tmp_path / "seen"
    code = (
        "import os, sys\n"
        "fd, line = int(sys.argv[1]), b''\n"
        "while not line.endswith(b'\\n'): line += os.read(fd, 1)\n"
        f"open({str(seen)!r}, 'ab').write(line)\n"
        f"number = open({str(seen)!r}).read().count('\\n')\n"
        'if number == 2: os.write(fd, b\'{"state": "RUNNING"}\\n\')\n'
        "sys.exit(0 if number == 3 else 1)\n"
    )
    command = [sys.executable, "-c", code]
    assert Supervisor(lambda descriptor: [*command, str(descriptor)], 1, policy=SOON).run() == 0
    assert [json.loads(line) for line in seen.read_text().splitlines()] == [
        {"settings": []},
        {"settings": []},
        {"settings": [], "waits": True},
    ]


@linux
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("def topology(): return 1 / 0\n", 2),
        (
            "import os, time\n"
            "from pathlib import Path\n"
            "from streams import KafkaStreams, Topology\n"
            "def fails(self):\n"
            "    Path(f'came-{os.getpid()}').touch()\n"
            "    until = time.monotonic() + 60\n"
            "    while len(list(Path().glob('came-*'))) < 2 and time.monotonic() < until:\n"
            "        time.sleep(0.01)  # both fail together: one alone would be started again\n"
            "    return 1 / 0\n"
            "KafkaStreams.start = fails\n"
            "def topology(): return Topology().add_source('s', 't', "
            "key_serde='bytes', value_serde='bytes')\n",
            1,
        ),
    ],
)
def test_an_error_before_it_runs_ends_the_command_with_its_words(tmp_path: Path, code: str, status: int) -> None:
    """It restarted its workers for ever, or until one had died six times."""
    (tmp_path / "zero_app.py").write_text(code)
    command = [sys.executable, "-m", "streams", "run", "zero_app:topology", "--workers", "2"]
    command += ["--application-id", "a", "--bootstrap-servers", "b:1"]
    found = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert found.returncode == status
    assert "division by zero" in found.stderr
    assert found.stderr.count("worker started") == 2
    if status == 1:
        last = as_text(found.stderr).splitlines()[-1]
        assert last == "error: none of the 2 workers started: ZeroDivisionError: division by zero"


# ---------------------------------------------------------------------- what a dead worker has left with the brokers

PROCESS = "00000000-0000-4000-8000-000000000001-0"
MADE = {"process": PROCESS, "thread": 1}
OF_APP = {"application.id": "app", "bootstrap.servers": "b:1", "processing.guarantee": "exactly_once_v2"}
CONFIG = StreamsConfig.of(OF_APP)
OWN_ID = f"app-{PROCESS}-1"


class WithTransaction:
    """A broker with an open transaction of the worker."""

    def __init__(self) -> None:
        broker = EmbeddedBroker()
        broker.create_topic("out", 1)
        self.clients = EmbeddedClients(broker)
        producer = self.clients.producer({"transactional.id": OWN_ID})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("out", b"v", b"k", 0, None, None, 5, None)
        producer.flush()

    @property
    def open_ids(self) -> list[str]:
        return self.clients.admin({}).open_transactions()


@pytest.mark.parametrize(("status", "left"), [("os.kill(os.getpid(), 9)", []), ("1", []), ("0", [OWN_ID])])
def test_a_worker_that_died_is_taken_over(tmp_path: Path, status: str, left: list[str]) -> None:
    """One that has closed cleanly has left nothing to end."""
    opened = WithTransaction()
    supervisor = Supervisor(dying(tmp_path, [MADE], default=status), 1, policy=SOON)
    supervisor.take_overs = TakeOvers(CONFIG, lambda: opened.clients.admin({}))
    supervisor.run()
    assert opened.open_ids == left


def held_slot(state_dir: Path) -> subprocess.Popen[bytes]:
    """A process that has the slot of the dead worker in the state directory."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from state.directory.state_directory import StateDirectory\n"
        f"slot = StateDirectory.open(Path({str(state_dir)!r}), 'app').claim_slot()\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


@linux
@pytest.mark.parametrize("former", [False, True])
def test_a_worker_whose_place_another_supervisors_worker_has_is_not_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, former: bool
) -> None:
    """It would be fenced, though it has ended what the dead one left. What holds the lock may also be a process that
    the dead one had forked, which has nothing at the brokers."""
    caplog.set_level("INFO")
    opened = WithTransaction()
    config = StreamsConfig.of({**OF_APP, "state.dir": str(tmp_path / "state")})
    holder = held_slot(tmp_path / "state")
    try:
        take_overs = TakeOvers(config, lambda: opened.clients.admin({}))
        take_overs.begin(PROCESS, 1, "it died", holder.pid if former else holder.pid + 1).join()
        assert opened.open_ids == ([] if former else [OWN_ID])
    finally:
        holder.communicate()
    said = [one for one in caplog.records if one.message.startswith("a dead worker is not taken over: another process")]
    assert [one.__dict__["pid"] for one in said] == ([] if former else [holder.pid])


@linux
def test_the_place_of_a_dead_worker_is_held_while_it_is_taken_over(tmp_path: Path) -> None:
    """A worker of another supervisor that starts meanwhile gets other names."""
    opened = WithTransaction()
    config = StreamsConfig.of({**OF_APP, "state.dir": str(tmp_path / "state")})
    directory = StateDirectory.open(tmp_path / "state", "app")
    directory.claim_slot().release()
    claimed: list[int] = []

    def admin() -> Any:
        with directory.claim_slot() as other:
            claimed.append(other.number)
        return opened.clients.admin({})

    TakeOvers(config, admin).begin(PROCESS, 1, "it died", 1).join()
    assert claimed == [1]
    assert opened.open_ids == []
    assert directory.claim_slot().number == 0


@linux
def test_a_second_supervisor_in_one_state_directory_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = StreamsConfig.of({**OF_APP, "state.dir": str(tmp_path / "state")})
    StateDirectory.open(tmp_path / "state", "app")
    first, second, third = (TakeOvers(config, lambda: WithTransaction().clients.admin({})) for _ in range(3))
    for one in (first, first, second, second):
        one.prepare()
    lines = [one for one in caplog.records if one.message.startswith("another supervisor has workers")]
    assert len(lines) == 1
    assert str(os.getpid()) in lines[0].__dict__["supervisor"]
    first.wait()
    third.prepare()
    assert len([one for one in caplog.records if one.message.startswith("another supervisor has workers")]) == 1


def test_a_worker_that_died_before_it_had_clients_has_left_nothing(tmp_path: Path) -> None:
    def unwanted() -> Any:
        raise AssertionError("nothing is to be taken over")

    supervisor = Supervisor(dying(tmp_path, []), 1, policy=SOON)
    supervisor.take_overs = TakeOvers(CONFIG, unwanted)
    assert supervisor.run() == 1


def test_a_restart_waits_until_its_predecessor_is_taken_over(tmp_path: Path) -> None:
    """It has the same names at the brokers, and would be fenced."""
    opened, starts = WithTransaction(), tmp_path / "starts"

    class Counting(SystemClock):
        waits = 0

        def wait(self, seconds: float) -> None:
            self.waits += 1
            super().wait(seconds)

    clock, seen = Counting(), []

    def slow() -> Any:
        begun = clock.waits
        wait_until("the restart is due", lambda: clock.waits > begun + 10)
        seen.append(len(starts.read_text()))
        return opened.clients.admin({})

    command = dying(tmp_path, [MADE], [], default="1 if number == 0 else 0")
    supervisor = Supervisor(command, 1, policy=SOON, clock=clock)
    supervisor.take_overs = TakeOvers(CONFIG, slow)
    assert supervisor.run() == 0
    assert seen == [1]
    assert starts.read_text() == "xx"
