"""The recorder records what is kept, and `make golden` says what is not the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golden_support.recordings import Recordings, read_json
from golden_support.session import GOLDEN
from tools.golden.record import compared, record_again

KEPT = GOLDEN / "recordings"


def written(directory: Path, **files: Any) -> Recordings:
    directory.mkdir()
    for name, data in files.items():
        (directory / f"{name}.json").write_text(json.dumps(data))
    return Recordings(directory, is_default=False)


def test_recordings_are_the_same_when_nothing_has_changed(tmp_path: Path) -> None:
    files = {"one": {"case": "one", "runs": []}}
    assert list(compared(written(tmp_path / "a", **files), written(tmp_path / "b", **files))) == []


def test_each_recording_that_is_not_the_same_is_told(tmp_path: Path) -> None:
    """What changed, with the place; what is missing; what is new; and fields in another order, which counts."""
    kept = written(tmp_path / "kept", changed={"case": 1, "topics": {}}, missing={}, turned={"a": 1, "b": 2})
    again = written(tmp_path / "again", changed={"case": 2, "topics": {}}, new={}, turned={"b": 2, "a": 1})
    assert list(compared(kept, again)) == [
        "changed:\n/case: expected 1, got 2",
        "missing: was not recorded again",
        f"new: is not among the recordings in {tmp_path / 'kept'}",
        "turned:\nthe same fields in another order",
    ]


@pytest.mark.slow  # Maven builds the recorder
@pytest.mark.integration
def test_the_recorder_records_again_what_is_kept(tmp_path: Path) -> None:
    """A topology, with its scenarios and random runs."""
    kept, again = tmp_path / "kept", tmp_path / "again"
    kept.mkdir()
    recorded = read_json(KEPT / "topologies" / "window-tumbling-count.json.gz")
    (kept / "window-tumbling-count.json").write_text(json.dumps(recorded))
    recordings = Recordings(kept, is_default=False)
    record_again(again, recordings)
    assert list(compared(recordings, Recordings(again, is_default=False))) == []
