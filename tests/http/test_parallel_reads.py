"""Partitions of one answer that are read side by side: in order, each row once, and bounded."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from streams.http.local_reads import Page
from streams.http.parallel_reads import AT_A_TIME, ParallelReads, Room
from streams.http.reads import After
from streams.http.responses import HttpRefusal


class Partitions:
    """Rows of partitions, read in pages, of which several may be on their way.

    :param pages: the rows of a page at most.
    """

    def __init__(self, sizes: list[int], pages: int = 500, seed: int = 1) -> None:
        self.rows = [[f"{partition}-{number}" for number in range(size)] for partition, size in enumerate(sizes)]
        self.pages = pages
        self.broken: set[int] = set()
        self.asked: list[int] = []
        self.most_at_a_time = self._now = 0
        self._choose = random.Random(seed)

    async def read(self, partition: int | None, after: After | None, limit: int) -> Page:
        assert partition is not None
        self.asked.append(partition)
        self._now += 1
        self.most_at_a_time = max(self.most_at_a_time, self._now)
        try:
            for _ in range(self._choose.randrange(10)):
                await asyncio.sleep(0)
        finally:
            self._now -= 1
        if partition in self.broken:
            raise HttpRefusal(503, f"partition {partition} is away")
        first = 0 if after is None or after.place is None else int(after.place)
        last = min(first + min(limit, self.pages), len(self.rows[partition]))
        following = After(partition, b"%d" % last, 0) if last < len(self.rows[partition]) else None
        return Page(self.rows[partition][first:last], {}, following)

    def all(self, limit: int, room: Room | None = None) -> list[Any]:
        async def run() -> list[Any]:
            found: list[Any] = []
            chosen = list(range(len(self.rows)))
            async with ParallelReads(self.read, chosen, None, limit, room or Room()) as pages:
                async for partition, page in pages.answers():
                    found += page.lines if isinstance(page, Page) else [(partition, page.message)]
            return found

        return asyncio.run(run())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [1, 499, 500, 501, 1700, 100_000])
def test_rows_come_partition_after_partition(seed: int, limit: int) -> None:
    sizes = [0, 1300, 3, 0, 500, 501, 0, 0, 7, 1200, 2, 0, 499]
    partitions = Partitions(sizes, seed=seed)
    room = Room()
    assert partitions.all(limit, room) == [row for rows in partitions.rows for row in rows][:limit]
    assert room.taken == 0
    assert partitions.most_at_a_time <= AT_A_TIME + 1


def test_a_long_answer_reads_several_partitions_at_a_time() -> None:
    partitions = Partitions([5000] * 8)
    assert len(partitions.all(100_000)) == 40_000
    assert partitions.most_at_a_time >= 4


def test_a_short_answer_asks_for_no_more_than_it_needs() -> None:
    partitions = Partitions([5000] * 8)
    assert len(partitions.all(10)) == 10
    assert partitions.asked == [0]


def test_partitions_with_few_rows_are_asked_more_at_a_time_as_it_goes_on() -> None:
    partitions = Partitions([1] * 60)
    assert len(partitions.all(500)) == 60
    assert partitions.most_at_a_time >= 4


def test_without_room_the_partition_whose_turn_it_is_goes_on_alone() -> None:
    partitions = Partitions([3000] * 5)
    assert len(partitions.all(100_000, Room(0))) == 15_000
    assert partitions.most_at_a_time == 1


def test_a_partition_that_is_away_is_told_in_its_place() -> None:
    partitions = Partitions([600, 10, 600])
    partitions.broken = {1}
    found = partitions.all(100_000)
    assert found == [*partitions.rows[0], (1, "partition 1 is away"), *partitions.rows[2]]


def test_an_answer_that_is_left_asks_nothing_more() -> None:
    async def run() -> None:
        partitions, room = Partitions([5000] * 8), Room()
        async with ParallelReads(partitions.read, list(range(8)), None, 100_000, room) as pages:
            async for _ in pages.answers():
                break
        asked = len(partitions.asked)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(partitions.asked) == asked
        assert room.taken == 0

    asyncio.run(run())
