"""Versioned stores that forget a deletion where Kafka Streams' store does."""

from __future__ import annotations

from typing import Any

from state.versioned.versions import Versions

__all__ = ["forget_deletions"]


class _ForgetfulVersions(Versions):
    """Leaves no mark of a deletion at the very time of the latest version: only a version that ended there tells of
    it."""

    def _replace(self, key: bytes, old: bytes, old_timestamp: int, value: bytes | None, timestamp: int) -> None:
        if value is None and timestamp == old_timestamp:
            self._put_latest(key, None, timestamp)
        else:
            super()._replace(key, old, old_timestamp, value, timestamp)


def forget_deletions(facade: Any) -> bool:
    """Makes an open store, as processors see it, do so from now on.

    :returns: whether it is a versioned one.
    """
    versions = getattr(facade, "_versions", None)
    if not isinstance(versions, Versions):
        return False
    versions.__class__ = _ForgetfulVersions
    return True
