"""The forms that records of changelogs have: what stands in their keys and values besides those of the store."""

from __future__ import annotations

from enum import Enum


class ChangelogForm(Enum):
    """The form of a changelog's keys and values, as readers outside of the store need it (formats 9 to 11)."""

    KEYS = "keys"
    """Keys and values of the store."""
    WINDOWS = "windows"
    """Behind the key the start of a window and a sequence number."""
    SESSIONS = "sessions"
    """Behind the key the end and the start of a session."""
    VERSIONS = "versions"
    """Keys and values of the store, where the record's timestamp is the beginning of the value's validity."""
    LISTS = "lists"
    """The value is a list of values."""
    CHANGES = "changes"
    """The value is a change with the context of its record."""
    CHANGES_BY_TIME = "changes by time"
    """The value is one of `CHANGES`, and the key begins with a time."""
    OWN = "own"
    """A form of the kind's own, of which only the serdes are known."""

    @property
    def tail_bytes(self) -> int:
        """The bytes of a key behind that of the store: eight with the time by which a row expires, then the sequence
        number of a window or the start of a session. 0 where there is no such time."""
        return {ChangelogForm.WINDOWS: 12, ChangelogForm.SESSIONS: 16}.get(self, 0)

    @property
    def of_stores(self) -> str:
        """The word for stores of this form in messages, such as ``window``."""
        return self.value.removesuffix("s")
