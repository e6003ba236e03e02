"""The memory for buffers of a process, divided among its stream threads (KIP-770, KIP-892)."""

from __future__ import annotations

import threading

from state.write_buffer.memory_budget import Budget


class BufferMemory:
    """Divides the memory for buffers of a process among its stream threads. May be used by any thread.

    Each stream thread has the same part, also when threads are added and removed.

    :param cache_bytes: ``statestore.cache.max.bytes``.
    :param uncommitted_bytes: ``statestore.uncommitted.max.bytes``; -1 removes the limit.
    :param input_bytes: ``input.buffer.max.bytes``; -1 removes the limit.
    """

    def __init__(self, cache_bytes: int, uncommitted_bytes: int = -1, input_bytes: int = -1, threads: int = 1) -> None:
        self._cache_bytes = cache_bytes
        self._uncommitted_bytes = uncommitted_bytes
        self._input_bytes = input_bytes
        self._threads = threads
        self._budgets: dict[str, Budget] = {}
        self._lock = threading.Lock()

    def budget(self, thread: str) -> Budget:
        """Returns a new budget for the thread of this name, instead of its former one."""
        with self._lock:
            budget = self._budgets[thread] = Budget(self._part(self._cache_bytes), self._part(self._uncommitted_bytes))
            return budget

    def share_among(self, threads: int) -> None:
        """Divides the memory among this many threads from now on; buffers shrink with their next record or commit."""
        with self._lock:
            self._threads = max(1, threads)
            for budget in self._budgets.values():
                budget.cache_limit = self._part(self._cache_bytes)
                budget.uncommitted_limit = self._part(self._uncommitted_bytes)

    def forget(self, thread: str) -> None:
        """Forgets a thread that has ended."""
        with self._lock:
            self._budgets.pop(thread, None)

    @property
    def input_bytes(self) -> int:
        """Returns how many bytes of its input one thread may buffer; -1 means without a limit."""
        return self._part(self._input_bytes)

    def _part(self, total: int) -> int:
        return total // self._threads if total > 0 else total
