"""Processes of Python that begin with this project imported, for tests that start many.

The rows of bad input take 28 s of processor time so, and 70 s without. Each is a process of its own, forked by a server
that has only imported, and leads a session; what Python itself does as it starts and ends (its own variables of the
environment, `atexit`) is not tried so.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
IMPORTED = [
    "streams.app",
    "streams.cli.main",
    "streams.cli.run.command",
    "streams.cli.run.script",
    "streams.cli.run.restore_bar",
    "streams.testing.broker",
    "streams.testing.driver",
    "streams.queries.composite_stores",
    "streams.kafka.confluent.clients",
    "streams.serdes.json",
    "streams.serdes.pydantic_model",
    "dsl.builder",
    "confluent_kafka.admin",
    "mmh3",
    "orjson",
    "rich.traceback",
    "structlog.dev",
]

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(IMPORTED)


class Quick:
    """A process that runs, with the methods of `subprocess.Popen` that tests of workers call.

    :param arguments: what would follow ``python``: a file, ``-m`` with a module, or ``-c`` with code.
    :param out: the file that its output is added to; ``err`` may be the same.
    """

    def __init__(
        self, arguments: list[str], cwd: Path, out: Path, err: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.args = arguments
        given = None if env is None else dict(env)
        self._process = _forks.Process(target=_as_main, args=(arguments, f"{cwd}", f"{out}", f"{err}", given))
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(arguments: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs what ``python *arguments`` would, to its end: a file, ``-m`` with a module, or ``-c`` with code.

    Standard input is empty. Processes that it leaves behind are an error."""
    with TemporaryDirectory(prefix="quick-process-") as folder:
        out, err = (Path(folder) / name for name in ("out", "err"))
        process = Quick(arguments, cwd, out, err, env)
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"{arguments} did not end in {TIMEOUT_S} s: {err.read_text()}") from None
        assert not is_left(process.pid), f"a process of {arguments} runs on"
        return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())


def is_left(session: int) -> bool:
    """Ends what a process that has ended has left in its session; returns whether there was something."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _as_main(arguments: list[str], cwd: str, out: str, err: str, env: Mapping[str, str] | None) -> None:
    os.setsid()
    for number, file in ((1, out), (2, err)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(cwd)
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
    kind, *rest = arguments
    support = Path(__file__).parent
    given = env.get("PYTHONPATH", "") if env else ""
    sys.path[:] = [
        cwd,
        *filter(None, given.split(os.pathsep)),
        f"{REPOSITORY}",
        *(path for path in sys.path if Path(path or ".").resolve() not in (support, REPOSITORY)),
    ]
    try:
        if kind == "-m":
            sys.argv = [rest[0], *rest[1:]]
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            sys.argv = [kind, *rest[1:]]
            sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(rest[0], "<string>", "exec"), vars(sys.modules["__main__"]))
        else:
            sys.argv = arguments
            file = os.path.abspath(kind)
            sys.path[0] = os.path.dirname(file)
            runpy.run_path(file, run_name="__main__")
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
