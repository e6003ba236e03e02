"""Errors of RocksDB are sorted by their kind and by the system's words, never by words of a path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from processor_api.errors import DamagedStateError, DiskFullError, RetryableError, StateDirectoryError, StateError
from state.directory.errors import directory_error
from state.rocksdb.errors import mapped

NAMES = [
    "orders",
    "orders-read-only",
    "checksum-audit",
    "no space",
    "permission denied",
    "Corruption: lock file: Permission denied: Too many open files: x",
    "manifest/MANIFEST-000001",
    "lock hold by current process",
]
SYSTEM = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "raise the quota",
    errno.EFBIG: "ulimit -f",
    errno.EACCES: "readable and writable for the user",
    errno.EPERM: "lsattr",
    errno.EROFS: "mount it writable",
    errno.EIO: "replace the disk",
    errno.ESTALE: "mount it again",
    errno.ENOMEM: "low-memory",
    errno.EMFILE: "ulimit -n",
    errno.ENFILE: "fs.file-max",
    errno.ENOENT: "move it back",
}


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = tmp_path / request.param / "0_0" / "rocksdb"
    found.mkdir(parents=True)
    return str(found)


@pytest.mark.parametrize("number", SYSTEM)
def test_each_error_of_the_system_says_what_to_do(number: int, path: str) -> None:
    words = os.strerror(number)
    for text in (
        f"IO error: {words}: While open a file for appending: {path}/000008.log: {words}",
        f"IO error: While open a file for appending: {path}/000008.log: {words}",
        f"IO error: While pwrite to file: {path}/000012.sst: {words}"
        if number != errno.ENOENT
        else f"IO error: {words}",
    ):
        error = mapped(Exception(text), path, "write to")
        assert type(error) is (DiskFullError if number in (errno.ENOSPC, errno.EDQUOT) else StateDirectoryError)
        assert SYSTEM[number] in str(error)
        assert f"cannot write to the store at {path}" in str(error)
    for error in (
        mapped(OSError(number, words, path), path, "open"),
        directory_error(OSError(number, words), Path(path)),
    ):
        assert type(error) is (DiskFullError if number in (errno.ENOSPC, errno.EDQUOT) else StateDirectoryError)


@pytest.mark.parametrize(
    "text",
    [
        "Corruption: block checksum mismatch: stored = 3, computed = 1, type = 4  in {}/000010.sst offset 126 size 920",
        "Corruption: Can't access /000010.sst: IO error: No such file or directory: while stat a file for size:"
        " {0}/000010.sst: No such file or directory The file {0}/MANIFEST-000005 may be corrupted.",
        "IO error: No such file or directory: While open a file for random read: {0}/000010.sst: No such file or"
        " directory",
        "IO error: No such file or directory: While opening a file for sequentially reading: {0}/MANIFEST-000005: No"
        " such file or directory",
        "Invalid argument: rocksdb.x: does not match existing comparator leveldb.BytewiseComparator",
    ],
)
def test_damage_is_damage_whatever_the_directory_is_called(text: str, path: str) -> None:
    error = mapped(Exception(text.format(path)), path, "open", "counts.plain")
    assert isinstance(error, DamagedStateError)
    assert error.store == "counts"


def test_a_file_that_may_not_be_read_is_not_taken_for_damaged(path: str) -> None:
    text = (
        f"Corruption: Can't access /000010.sst: IO error: while stat a file for size: {path}/000010.sst: Permission"
        f" denied The file {path}/MANIFEST-000005 may be corrupted."
    )
    error = mapped(Exception(text), path, "open")
    assert type(error) is StateDirectoryError
    assert "permission denied" in str(error)


def test_a_directory_that_was_moved_is_not_taken_for_damaged(path: str) -> None:
    """It was, where its name had such a word, and the task was wiped."""
    Path(path).rmdir()
    words = "No such file or directory"
    text = f"IO error: {words}: While open a file for random read: {path}/000010.sst: {words}"
    error = mapped(Exception(text), path, "read", "counts.plain")
    assert type(error) is StateDirectoryError
    assert "if it was moved, stop the application and move it back" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "IO error: lock hold by current process, acquire time 1 acquiring thread 1: {}/LOCK: No locks available",
        "IO error: While lock file: {}/LOCK: Resource temporarily unavailable",
    ],
)
def test_a_database_that_is_open_elsewhere_is_tried_again(text: str, path: str) -> None:
    assert isinstance(mapped(Exception(text.format(path)), path, "open"), RetryableError)


def test_anything_else_is_told_as_it_is(path: str) -> None:
    for text in (f"Invalid argument: {path}: exists (error_if_exists is true)", "DB already closed"):
        error = mapped(Exception(text), path, "open")
        assert type(error) is StateError
        assert text in str(error)
