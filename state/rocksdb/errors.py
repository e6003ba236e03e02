"""Converts the binding's errors to ours. They are plain exceptions with a text; only this file reads it.

The text begins with RocksDB's kind of error. Paths in it are removed before it is searched, since they may have any
words.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from processor_api.errors import DamagedStateError, DiskFullError, RetryableError, StateDirectoryError, StateError
from state.directory.errors import FULL, HINTS, MISPLACED, error_number, find_error_number, hinted, left_there
from state.engine.port import store_of
from state.engine.repair_hints import rebuild_store, rebuild_task

OWN_FILE = re.compile(r"\b(\d+\.sst|MANIFEST-\d+|CURRENT)\b")
"""A file without which a database is damaged. A log is not one: RocksDB deletes them as it continues."""
LOCKED = re.compile(
    r"\block hold by current process|\block file: .*(Resource temporarily un|No locks )available", re.DOTALL
)

FAILED_BEFORE = "Writer has previous error"
"""How RocksDB refuses a file of which a write has failed, whatever the reason was."""


def without_paths(error: Exception, path: str) -> str:
    """Returns the error's text, with the paths of the database's files cut to their names."""
    text = str(error)
    for one in sorted({path, str(Path(path).absolute())}, key=len, reverse=True):
        text = text.replace(one + "/", "").replace(one, "")
    return text


def is_damage(error: Exception, path: str) -> bool:
    """Whether files of the database are damaged or missing.

    :param path: of the database that was opened.
    """
    text, number = without_paths(error, path), error_number(error)
    kind, _, rest = text.partition(": ")
    number = find_error_number(rest or text) if number is None else number
    if number == errno.ENOENT:
        return Path(path).is_dir() and OWN_FILE.search(text) is not None
    if number == errno.EISDIR:  # in the place of one of the files
        return Path(path).is_dir()
    if number is not None:  # the file may be whole: it cannot be read
        return False
    return kind == "Corruption" or (kind == "Invalid argument" and "does not match existing comparator" in rest)


def damaged(path: str, what: str, family: str | None = None) -> DamagedStateError:
    """Returns the error about damage in a store's family, or in what all stores of the database share."""
    store = "" if family is None else store_of(family)
    if store:
        text = f"store {store!r} at {path} is damaged: {what}; {rebuild_store(store)}"
        return DamagedStateError(text, path=path, store=store)
    return DamagedStateError(f"the database at {path} is damaged: {what}; {rebuild_task(path)}", path=path)


def mapped(error: Exception, path: str, what: str, family: str | None = None) -> StateError | RetryableError:
    """Returns our error for one of the binding. One about a full disk, or a database that is open elsewhere, may pass.

    :param what: what could not be done, such as ``read``.
    :param family: the column family, if the error is about one.
    """
    shown, text = " ".join(str(error).split()), without_paths(error, path)
    if LOCKED.search(text):
        return RetryableError(f"the store at {path} is open in another process: {shown}")
    if is_damage(error, path):
        return damaged(path, shown, family)
    failed = f"cannot {what} the store at {path}: "
    number = error_number(error) or find_error_number(text)
    if number in MISPLACED:
        return StateDirectoryError(
            f"{failed}{shown}; another file or directory has the name of one of its files or directories: move it away,"
            " and restart"
        )
    if number in FULL:
        return DiskFullError(f"{failed}{HINTS[number]}{left_there(Path(path))} ({shown})")
    if number is not None and number in HINTS:
        return hinted(f"{failed}{HINTS[number]} ({shown})", number)
    return StateError(failed + shown).may_pass()


def after_full_disk(error: Exception, path: str, what: str) -> DiskFullError | None:
    """Returns our error if RocksDB refuses a log only because a write of it has met a full disk before.

    That lasts after there is room again, until RocksDB looks at the disk, each 5 s, and begins another log.
    """
    if FAILED_BEFORE not in without_paths(error, path):
        return None
    shown = " ".join(str(error).split())
    return DiskFullError(
        f"cannot {what} the store at {path}: the disk of its log is full, and another log is started soon ({shown})"
    )
