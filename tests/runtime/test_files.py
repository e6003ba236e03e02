"""Tests that change the files of a running application list what is there, whatever it does meanwhile."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from runtime_support.files import files_of, opened


def test_files_are_listed_by_patterns(tmp_path: Path) -> None:
    for name in ("b.sst", "a.sst", "CURRENT", "MANIFEST-1"):
        (tmp_path / name).touch()
    assert [file.name for file in files_of(tmp_path, "*.sst", "MANIFEST-*")] == ["a.sst", "b.sst", "MANIFEST-1"]
    assert files_of(tmp_path / "gone", "*") == []


def test_a_folder_that_is_made_anew_all_the_time_is_listed(tmp_path: Path) -> None:
    """The search for a pattern failed when the folder went after it was found, and before it was read."""
    folder, stop = tmp_path / "database", threading.Event()

    def make_anew() -> None:
        while not stop.is_set():
            folder.mkdir()
            (folder / "1.sst").touch()
            shutil.rmtree(folder)

    thread = threading.Thread(target=make_anew)
    thread.start()
    try:
        seen = {len(files_of(folder, "*.sst")) for _ in range(5000)}
    finally:
        stop.set()
        thread.join()
    assert seen <= {0, 1}


def test_a_file_that_has_gone_is_not_made_anew(tmp_path: Path) -> None:
    with opened(tmp_path / "gone") as file:
        assert file is None
    assert not (tmp_path / "gone").exists()
    (tmp_path / "there").write_bytes(b"abc")
    with opened(tmp_path / "there") as file:
        assert file is not None
        file.truncate(1)
    assert (tmp_path / "there").read_bytes() == b"a"
