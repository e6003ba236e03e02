"""Reads the partitions of one answer side by side, and gives their rows partition after partition.

What is read ahead waits here, so the rows of an answer and the bytes of all answers are bounded; at the bound only the
partition whose turn it is continues.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice

from streams.http.local_reads import PAGE_ROWS, Page
from streams.http.reads import After
from streams.http.responses import HttpRefusal

AT_A_TIME = 8
"""Partitions of one answer that are read at a time."""
AHEAD_ROWS = 20_000
"""Rows of one answer that wait for their turn."""
AHEAD_BYTES = 32 << 20
"""The size of what waits, of all answers of a port."""

ReadPage = Callable[["int | None", "After | None", int], Awaitable[Page]]
"""``(partition, after, limit)`` to a page; raises `HttpRefusal`."""


class Room:
    """Counts what waits for its turn in all answers of a port."""

    def __init__(self, size: int = AHEAD_BYTES) -> None:
        self._size = size
        self.taken = 0

    @property
    def is_free(self) -> bool:
        return self.taken < self._size


class _Part:
    """A partition, with the pages of it that wait."""

    def __init__(self, partition: int | None, after: After | None) -> None:
        self.partition = partition
        self.after = after
        self.pages: deque[tuple[After | None, Page]] = deque()
        """Each with where it began."""
        self.task: asyncio.Task[Page] | None = None
        self.asked = 0
        """The rows that are asked for now."""
        self.over = False
        self.failure: BaseException | None = None

    @property
    def rows(self) -> int:
        """The rows that wait, and those that may come."""
        return self.asked + sum(len(page.lines) for _, page in self.pages)


class ParallelReads:
    """The pages of one answer; an asynchronous context manager that ends what is still asked.

    :param read: reads a page.
    :param partitions: in their order.
    :param after: where the first of them begins.
    :param limit: the rows of the answer at most.
    """

    def __init__(
        self, read: ReadPage, partitions: Sequence[int | None], after: After | None, limit: int, room: Room
    ) -> None:
        self._read = read
        self._parts = deque(_Part(one, after if number == 0 else None) for number, one in enumerate(partitions))
        self._left = limit
        self._room = room
        self._over = 0
        self._given = 0
        """The pages that were given: at first few partitions are asked, so that the first rows come early."""
        self._landed = asyncio.Event()

    async def __aenter__(self) -> ParallelReads:
        return self

    async def __aexit__(self, *error: object) -> None:
        tasks = [part.task for part in self._parts if part.task is not None]
        for part in self._parts:
            self._forget(part)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def answers(self) -> AsyncIterator[tuple[int | None, Page | HttpRefusal]]:
        """Yields the pages of each partition, or what is said instead of those that are missing."""
        while self._parts and self._left > 0:
            part = self._parts[0]
            found = await self._next_of(part)
            if isinstance(found, Page):
                self._left -= len(found.lines)
                is_last = found.next is None
            else:
                is_last = True
            if is_last:
                self._parts.popleft()
                self._over += 1
            self._given += 1
            yield part.partition, found

    async def _next_of(self, part: _Part) -> Page | HttpRefusal:
        while True:
            self._ask()
            if part.pages:
                began, page = part.pages[0]
                if len(page.lines) <= self._left:
                    part.pages.popleft()
                    self._room.taken -= page.size
                    return page
                self._forget(part)  # more than there is room for: asked again for less, since only its end is a place
                part.after = began
            elif part.failure is not None:
                if isinstance(part.failure, HttpRefusal):
                    return part.failure
                raise part.failure
            else:
                self._landed.clear()
                await self._landed.wait()

    def _forget(self, part: _Part) -> None:
        self._room.taken -= sum(page.size for _, page in part.pages)
        part.pages.clear()
        if part.task is not None:
            part.task.cancel()
        part.task, part.asked, part.over, part.failure = None, 0, False, None

    def _ask(self) -> None:
        """Asks the partitions that the answer will need, as far as there is room."""
        wanted, waiting = self._left, sum(part.rows for part in self._parts)
        for number, part in enumerate(islice(self._parts, min(AT_A_TIME, 1 + self._given))):
            # Partitions with few rows do not fill an answer: the more of them there were, the more are asked at once.
            is_guess = wanted <= part.rows and number <= self._over and not part.rows
            if part.task is None and not part.over and part.failure is None and (wanted > part.rows or is_guess):
                limit = min(PAGE_ROWS, self._left if is_guess else wanted - part.rows)
                if len(part.pages) < 2 if number == 0 else waiting + limit <= AHEAD_ROWS and self._room.is_free:
                    self._start(part, limit)
                    waiting += limit
            wanted -= part.rows
            if wanted <= 0 and number >= self._over:
                return

    def _start(self, part: _Part, limit: int) -> None:
        async def read() -> Page:
            return await self._read(part.partition, part.after, limit)

        part.asked = limit
        task = part.task = asyncio.create_task(read())
        task.add_done_callback(lambda done: self._take(part, done))

    def _take(self, part: _Part, task: asyncio.Task[Page]) -> None:
        if part.task is not task:  # it was forgotten
            if not task.cancelled():
                task.exception()  # so that no one says that it was never looked at
            return
        part.task, part.asked = None, 0
        if task.cancelled():
            part.failure = asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            part.failure = error
        else:
            page = task.result()
            part.pages.append((part.after, page))
            part.after, part.over = page.next, page.next is None
            self._room.taken += page.size
            self._ask()
        self._landed.set()
