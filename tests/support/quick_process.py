"""Processes of Python that begin with this project imported, for tests that start many.

The rows of bad input take 28 s of processor time so, and 70 s without. Each is a process of its own, forked by a server
that has only imported; what Python itself does as it starts and ends (variables of the environment, `atexit`) is not
tried so.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
IMPORTED = ["streams.app", "streams.cli.main", "streams.cli.run", "streams.kafka.embedded", "confluent_kafka"]

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(IMPORTED)


@dataclass(frozen=True)
class Ended:
    """What is left of a process."""

    status: int
    out: str
    err: str


def python(arguments: list[str], cwd: Path) -> Ended:
    """Runs what ``python *arguments`` would: a file, ``-m`` with a module, or ``-c`` with code."""
    with TemporaryDirectory(prefix="quick-process-") as folder:
        texts = [Path(folder) / name for name in ("out", "err")]
        process = _forks.Process(target=_as_main, args=(arguments, f"{cwd}", *map(str, texts)))
        process.start()
        process.join(TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{arguments} did not end in {TIMEOUT_S} s: {texts[1].read_text()}")
        return Ended(process.exitcode, *(text.read_text() for text in texts))


def _as_main(arguments: list[str], cwd: str, out: str, err: str) -> None:
    for number, file in ((1, out), (2, err)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(cwd)
    kind, *rest = arguments
    support = Path(__file__).parent
    sys.path[:] = [
        cwd,
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
            sys.path[0] = str(Path(kind).parent)
            runpy.run_path(kind, run_name="__main__")
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
