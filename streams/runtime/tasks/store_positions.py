"""The positions of a task's stores in its inputs, for queries.

Nothing is done for each record. A store holds every record that the task has processed, and queues know that position
at the end of a batch at the latest. So a position that is read before the store is too low rather than too high. What a
commit brought to the engines is noted when it is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from processor_api.task_id import TopicPartition
from streams.runtime.processing.inputs import InputQueue

Offsets = Mapping[TopicPartition, int]
"""The next offset of each input partition."""

_NOTHING: Offsets = MappingProxyType({})


class StorePositions:
    """Holds the input positions of a task's stores. Written by the task's thread, read by any."""

    def __init__(self) -> None:
        self._starts: Mapping[str, Offsets] = {}
        self._committed: Offsets = _NOTHING

    def start(self, starts: Mapping[str, Offsets]) -> None:
        """Sets the offsets before which each store holds everything, when the task starts to run."""
        self._starts, self._committed = starts, _NOTHING

    def stop(self) -> None:
        """Forgets all positions: what was not committed is gone, and the stores may be restored."""
        self._starts, self._committed = {}, _NOTHING

    def note_commit(self, positions: Offsets) -> None:
        """Sets the offsets before which the engines hold everything; the mapping must not change any more."""
        self._committed = positions

    def committed(self, store: str) -> dict[TopicPartition, int]:
        """Returns up to where the store's engine has its inputs."""
        return _further(self._starts.get(store, _NOTHING), self._committed)

    def uncommitted(self, store: str, queues: Mapping[TopicPartition, InputQueue]) -> dict[TopicPartition, int]:
        """Returns up to where the store has its inputs, with what waits for a commit."""
        moved = {one: at for one, queue in list(queues.items()) if (at := queue.position) is not None}
        return _further(self._starts.get(store, _NOTHING), moved)


def _further(starts: Offsets, moved: Offsets) -> dict[TopicPartition, int]:
    """Returns the higher offset of each input: after a crash, a store may be ahead of the task."""
    return {**starts, **{one: max(offset, starts.get(one, 0)) for one, offset in moved.items()}}
