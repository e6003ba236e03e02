"""Ctrl-C at any moment of a start ends it quietly: no traceback of this library, no state directory."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from first_hour_support import BUILDER, REPOSITORY, Said, environment, left_behind, said

APP = BUILDER + "builder.stream('lines').group_by_key().count().to_stream().to('out')\n"
OURS = tuple(f'File "{REPOSITORY / package}/' for package in ("processor_api", "state", "dsl", "streams"))
PATIENCE_S = 120
AT_A_TIME = 4
KILLED = -signal.SIGINT
"""The status of a process that the signal itself ended, for which a shell says 130."""


def interrupted(folder: Path, delay_s: float) -> Said:
    """Starts the command as its script does, on a broker that is not there, and interrupts it after some time."""
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    process = subprocess.Popen(
        [sys.executable, "-c", "from streams_command import main; raise SystemExit(main())", "run", "app.py"],
        cwd=folder,
        env=environment(folder, STREAMS_BOOTSTRAP_SERVERS="localhost:1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        threading.Event().wait(delay_s)  # a step of the sweep: nothing is waited for
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    return said(process.returncode, out, err)


def check(folder: Path, found: Said) -> None:
    of_python = found.err.startswith(("Traceback", "Fatal Python error", "Exception ignored"))
    assert not any(place in found.err for place in OURS), found  # before Python runs our first line, it has its own
    assert found.status in (0, 130, KILLED, *((1,) if of_python else ())), found
    assert found.out == "", found
    assert of_python or found.err in ("", "error: ended at once by a second Ctrl-C\n"), found
    assert left_behind(folder) == [], found
    assert not (folder / "state").exists() or not list((folder / "state").iterdir())


def sweep(folder: Path, steps: int, step_s: float) -> None:
    delays = [step * step_s for step in range(steps)]
    folders = [folder / str(step) for step in range(steps)]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = list(pool.map(interrupted, folders, delays))
    for one, outcome in zip(folders, found, strict=True):
        check(one, outcome)


def test_a_start_is_interrupted_at_some_moments(tmp_path: Path) -> None:
    sweep(tmp_path, 10, 0.15)


@pytest.mark.slow
def test_a_start_is_interrupted_at_many_moments(tmp_path: Path) -> None:
    sweep(tmp_path, 60, 0.05)
