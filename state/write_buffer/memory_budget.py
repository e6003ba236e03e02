"""Bytes that the buffers of a thread may hold: one accounting, two limits (KIP-770, KIP-892)."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """Shared by all stores of a stream thread. Sizes are counted as Kafka Streams' cache counts them: the bytes of key
    and value and a fixed cost, without the topic's name and the headers.

    :param cache_bytes: over this a store evicts: clean rows first, then it forwards its dirty ones. 0: no cache.
    :param uncommitted_bytes: over this, or about to be, the thread is asked for a commit; -1 removes the limit.
    """

    __slots__ = (
        *("_seen", "cache_limit", "clean", "dirty", "postponed", "reading", "reports", "sending"),
        *("uncommitted", "uncommitted_limit"),
    )

    def __init__(self, cache_bytes: int, uncommitted_bytes: int = -1) -> None:
        self.cache_limit = cache_bytes
        self.uncommitted_limit = uncommitted_bytes
        self._seen = 0
        """Bytes that waited for the commit at the last check."""
        self.clean = 0
        """Rows known, be they in the engine or on their way to it."""
        self.dirty = 0
        """Rows that a cache holds back."""
        self.uncommitted = 0
        """Rows on their way to the engine that no cache holds back."""
        self.reading = 0
        """How many reads are under way, where that is checked (:mod:`state.write_buffer.read_counts`)."""
        self.sending = 0
        """How many drains are sending changes on. An eviction that would drain another store waits meanwhile.

        It would send changes of tables below on before some of the changes that they were made of: who joins both would
        look at rows that are on their way, and take back results that were never sent."""
        self.postponed: dict[Callable[[], None], None] = {}
        """Evictions that wait until nothing is sent on."""
        self.reports: list[Callable[[], int]] = []
        """Functions of custom stores that return the size of their own buffers, in bytes."""

    def evict_postponed(self) -> None:
        """Makes the evictions that have waited."""
        # A new dictionary: what an eviction sends on may postpone others.
        waiting, self.postponed = self.postponed, {}
        for evict in waiting:
            evict()

    @property
    def cached(self) -> int:
        """Bytes that count against the limit of the cache."""
        return self.clean + self.dirty

    def is_full(self) -> bool:
        """Whether more waits for a commit than may; to be asked between records."""
        if self.uncommitted_limit < 0:
            return False
        waits = self.uncommitted + self.dirty
        return self.uncommitted_limit < (waits + sum(report() for report in self.reports) if self.reports else waits)

    def wants_commit(self) -> bool:
        """Whether more waits for a commit than may, or will if as much comes again as since the last call (KIP-892).

        To be asked once a round of the thread, not for each record.
        """
        if self.uncommitted_limit < 0:
            return False
        waits = self.uncommitted + self.dirty + sum(report() for report in self.reports)
        grown = waits - self._seen if waits >= self._seen else waits  # less than before: there was a commit
        self._seen = waits
        return self.uncommitted_limit < waits + grown
