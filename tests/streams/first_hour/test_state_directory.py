"""A state directory that is not this application's is left as it is; the error says whose it is and what to do."""

from __future__ import annotations

import json
from pathlib import Path

from first_hour_support import BUILDER, DERIVED, streams
from state.directory.metadata import METADATA_FILE
from state.directory.state_directory import StateDirectory

STATES = [
    "info streams.client: state [state=REBALANCING, before=CREATED]",
    "info streams.client: state [state=PENDING_ERROR, before=REBALANCING]",
    "info streams.client: state [state=ERROR, before=PENDING_ERROR]",
]


def run(folder: Path) -> tuple[int, str, str]:
    """Runs an application there, of which the log has only its id and its first state."""
    (folder / "app.py").write_text(BUILDER + "builder.stream('lines').to('out')\n")
    found = streams(folder, "run", "app.py", "--bootstrap-servers", "localhost:1")
    assert found.events == [DERIVED, *STATES]
    return found.status, found.out, found.err


def test_of_another_application(tmp_path: Path) -> None:
    """It was copied, or renamed."""
    theirs = StateDirectory.open(tmp_path / "state", "other").path
    theirs.rename(tmp_path / "state" / "app")
    before = sorted(path.name for path in (tmp_path / "state" / "app").iterdir())
    wanted = (
        f"error: {tmp_path}/state/app belongs to the application 'other', not to 'app': set another state.dir or"
        " application.id\n"
    )
    assert run(tmp_path) == (2, "", wanted)
    assert sorted(path.name for path in (tmp_path / "state" / "app").iterdir()) == before


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("mine")
    status, out, err = run(tmp_path)
    assert (status, out) == (2, "")
    where = f"error: {tmp_path}/state is not a directory"
    assert err == f"{where}: move it elsewhere, or set state.dir to another directory\n"
    assert (tmp_path / "state").read_text() == "mine"


def test_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "state" / "app" / METADATA_FILE
    path.parent.mkdir(parents=True)
    text = json.dumps({"format_version": 99, "application_id": "app", "process_uuid": "0" * 32})
    path.write_text(text)
    status, out, err = run(tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err == (
        f"error: {path.parent} was written by a newer version of this library (format 99, this version supports 1):"
        " upgrade, or set state.dir to another directory\n"
    )
    assert path.read_text() == text
