"""What a user gets wrong gives one clear error that names the place, a status that is not zero, and loses nothing.

Each row of the table runs as a user would run it: a script or a command, in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from bad_input_support import app
from bad_input_support.rows import MODULES, REPOSITORY, Outcome, Row, check
from bad_input_support.table import CODE, TABLE
from processor_api.errors import StreamsError
from streams.cli.output.causes import CannotRun
from streams.cli.output.failures import report
from streams.cli.run.command import refuse_free_threading

Outcomes = Callable[[Row], Outcome]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """Of the rows that were chosen; as many run at a time as there are cores."""
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    chosen = [params["row"] for params in calls if isinstance(params.get("row"), Row)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running: dict[str, Future[Outcome]] = {
            row.name: pool.submit(row.run, tmp_path_factory.mktemp("row")) for row in chosen
        }
        yield lambda row: running[row.name].result()
        for future in running.values():
            future.cancel()


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_bad_input_is_told_and_loses_nothing(row: Row, outcomes: Outcomes) -> None:
    check(row, outcomes(row))


def test_every_case_of_the_application_is_in_the_table() -> None:
    assert sorted(app.CASES) == sorted(row.name for row in CODE)
    assert len({row.name for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize(
    ("mount", "prepare", "wanted", "status"),
    [
        ("size=4m", 'mount -o remount,ro "$1" &&', "is on a read-only file system: set state.dir", 2),
        ("size=4k", 'dd if=/dev/zero of="$1/full" bs=4k 2>/dev/null;', "no space is left for", 1),
    ],
)
def test_a_disk_that_takes_no_state_is_told(mount: str, prepare: str, wanted: str, status: int, tmp_path: Path) -> None:
    """On a file system of its own, in a mount namespace; not every machine allows that."""
    probe = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*probe, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs user and mount namespaces")
    (tmp_path / "fine.py").write_text(MODULES["fine.py"])
    state = tmp_path / "state"
    state.mkdir()
    words = "run fine:topology --application-id app --bootstrap-servers localhost:1 -c task.timeout.ms=100 -c"
    script = f'mount -t tmpfs -o {mount} none "$1" && {prepare} exec "$2" -m streams {words} state.dir="$1"'
    found = subprocess.run(
        [*probe, "sh", "-c", script, "sh", str(state), sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == status, found.stderr
    assert wanted in found.stderr.splitlines()[-1]
    assert "Traceback" not in found.stderr


def test_python_without_the_gil_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CannotRun) as caught:
        refuse_free_threading(lambda: False)
    assert not isinstance(caught.value, StreamsError)
    assert report(caught.value, trace=False) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: this Python runs without the GIL")
    assert told.count("\n") == 1
