"""Up to where the stores of a task have its inputs: told to queries, and derived from what a task knows anyway.

Nothing is done per record. A store has seen every record that the task has processed: queues know how far that is, at
the end of a batch at the latest. Whoever asks before looking at a store is therefore told too little rather than too
much. What a commit brought to the engines is noted when it is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from processor_api.task_id import TopicPartition
from streams.runtime.processing.inputs import InputQueue

__all__ = ["StorePositions"]

Offsets = Mapping[TopicPartition, int]
"""The next offset of each input partition."""

_NOTHING: Offsets = MappingProxyType({})


class StorePositions:
    """Written by the task's thread, read by any. Offsets are those of the next records."""

    def __init__(self) -> None:
        self._starts: Mapping[str, Offsets] = {}
        self._committed: Offsets = _NOTHING

    def start(self, starts: Mapping[str, Offsets]) -> None:
        """The task runs; each store was restored to hold what was processed before these offsets."""
        self._starts, self._committed = starts, _NOTHING

    def stop(self) -> None:
        """What was not committed is gone, and the stores may be restored."""
        self._starts, self._committed = {}, _NOTHING

    def note_commit(self, positions: Offsets) -> None:
        """The engines hold what was processed before these offsets, which are not changed any more."""
        self._committed = positions

    def committed(self, store: str) -> dict[TopicPartition, int]:
        """Up to where the store's engine has its inputs."""
        return _further(self._starts.get(store, _NOTHING), self._committed)

    def uncommitted(self, store: str, queues: Mapping[TopicPartition, InputQueue]) -> dict[TopicPartition, int]:
        """Up to where the store has its inputs, with what waits for a commit."""
        moved = {one: at for one, queue in list(queues.items()) if (at := queue.position) is not None}
        return _further(self._starts.get(store, _NOTHING), moved)


def _further(starts: Offsets, moved: Offsets) -> dict[TopicPartition, int]:
    """What is processed again after a crash was in the store before."""
    return {**starts, **{one: max(offset, starts.get(one, 0)) for one, offset in moved.items()}}
