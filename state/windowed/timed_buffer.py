"""The write buffer of a store of windows or sessions, which knows up to what time the engine has rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from state.windowed.segments import Segments
from state.write_buffer.buffer import Rows


class BufferedRows(Rows):
    """Rows with times: a drain asks the engine only for what was there before.

    Most sessions that end were born since the last commit, so the engine has never had them.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._segments: Segments | None = None
        self._time_of: Callable[[bytes], int] = len

    def follow(self, segments: Segments, parts: Callable[[bytes], tuple[bytes, int, int]]) -> None:
        """Takes the times of the rows, and the function that reads the time of one; before the first put."""
        self._segments = segments
        self._time_of = lambda row: parts(row)[1]

    def _below(self, key: Any) -> Any:
        segments = self._segments
        if segments is not None and key not in self.clean and self._time_of(key) > segments.stored_until:
            return None
        return super()._below(key)
