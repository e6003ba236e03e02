"""The binding's errors as ours. They are plain exceptions with text; this is the one place that reads it."""

from __future__ import annotations

from processor_api.errors import DamagedStateError, RetryableError, StateDirectoryError, StateError
from state.advice import rebuild_store, rebuild_task
from state.engine import store_of

__all__ = ["damaged", "is_damage", "mapped"]

DAMAGE = ("corruption", "checksum", ".sst: no such file", "/manifest", "does not match existing comparator")


def is_damage(error: Exception) -> bool:
    """Whether files of the database are damaged or missing."""
    lower = str(error).lower()
    return any(sign in lower for sign in DAMAGE)


def damaged(path: str, what: str, family: str | None = None) -> DamagedStateError:
    """The error about damage in a store's family, or in what all stores of the database share."""
    store = "" if family is None else store_of(family)
    if store:
        text = f"store {store!r} at {path} is damaged: {what}; {rebuild_store(store)}"
        return DamagedStateError(text, path=path, store=store)
    return DamagedStateError(f"the database at {path} is damaged: {what}; {rebuild_task(path)}", path=path)


def mapped(error: Exception, path: str, what: str, family: str | None = None) -> StateError | RetryableError:
    """:param what: what could not be done, such as ``read``.
    :param family: in which, if it was in one."""
    text = str(error)
    lower = text.lower()
    if "lock" in lower and ("resource temporarily unavailable" in lower or "lock hold" in lower or "no locks" in lower):
        return RetryableError(f"the store at {path} is open in another process: {text}")
    if "no space" in lower:
        return StateDirectoryError(f"cannot {what} the store at {path}: the disk is full; free some space and restart")
    if "too many open files" in lower:
        return StateDirectoryError(
            f"cannot {what} the store at {path}: this process has too many files open; raise the limit (ulimit -n), or"
            " set rocksdb.profile to many-small-stores"
        )
    if "permission denied" in lower or "read-only" in lower:
        return StateDirectoryError(f"cannot {what} the store at {path}: {text}; make the directory writable")
    if is_damage(error):
        return damaged(path, " ".join(text.split()), family)
    return StateError(f"cannot {what} the store at {path}: {text}")
