"""Reads the partitions of stores that this worker has, page by page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from processor_api.errors import StoreError, UnreachableError
from processor_api.texts import plain_str
from streams.http.processor_share import ProcessorShare
from streams.http.reads import After, Read, Terms
from streams.http.responses import HttpRefusal, ServedApplication, later, outage_of
from streams.queries.local_stores import LocalStore, ReadableStore, migrated
from streams.queries.position import Position
from streams.queries.queries import Queries

PAGE_ROWS = 500
"""Rows that are read of one moment of a store; a longer answer shows several moments."""
PAGE_BYTES = 1 << 20
"""The bytes of rows after which a page ends, however many rows it has."""
MOST_KEYS_BYTES = 64 << 20
"""The bytes of rows that a request for several keys gives."""
CHUNK_ROWS = 100
"""Rows that are read before other requests have their turn."""


class Page(NamedTuple):
    """Some rows of one partition, each a line of JSON."""

    lines: list[str]
    position: Mapping[str, Mapping[str, int]]
    next: After | None
    """Where the next page begins; ``None`` if there is none."""
    cut_off: bool = False
    """Whether there are more rows, which no page can be asked for."""

    @property
    def size(self) -> int:
        """The characters of its rows."""
        return sum(map(len, self.lines))


@dataclass(frozen=True)
class Asked:
    """One request: what is asked of which store, on which terms."""

    store: str
    operation: str
    read: Read
    terms: Terms
    query: Mapping[str, str]
    """The parameters, as another worker is asked with."""
    number: int = 0
    """Stands for what is asked, in cursors (`streams.http.reads.number_of`)."""
    body: Mapping[str, Any] | None = None
    """The body of the request, where it has one."""


class LocalReads:
    """Reads the partitions of stores that this worker has."""

    def __init__(self, application: ServedApplication, queries: Callable[[], Queries], pace: ProcessorShare) -> None:
        self._application = application
        self._queries = queries
        self._pace = pace

    async def page(self, asked: Asked, partition: int | None, after: After | None, limit: int, most: int) -> Page:
        """Reads some rows of a partition; other requests have their turns meanwhile.

        :param most: the bytes of rows after which the page ends.
        :raises InvalidStateStoreError: if it cannot be read here now.
        :raises HttpRefusal: if it is not as far as the terms want.
        """
        terms, read = asked.terms, asked.read
        queries = self._queries()
        store = queries.readable(asked.store, partition, stale=terms.stale)
        level = terms.isolation or queries.level
        position = store.position(level) if isinstance(store, LocalStore) else Position()
        self._check_bounds(asked, store, partition, position)
        try:
            with store.view(level) as view:
                found = read.rows(view.store, after)
                try:
                    lines, last = await self._lines(read, found, partition or 0, limit, most)
                    more = not read.single and bool(lines) and next(found, None) is not None
                finally:
                    close = getattr(found, "close", None)
                    if close is not None:
                        close()
        except StoreError as error:
            if store.gone():
                raise migrated(store.store) from error
            raise outage_of(error) or HttpRefusal(500, plain_str(error)) from error
        except UnreachableError as error:  # rows before these may have been sent, so the last line says it
            raise later(plain_str(error)) from error
        place = None if not more or read.place is None else read.place(last)
        following = None if place is None else After(partition or 0, place, asked.number)
        return Page(lines, json_of_position(position), following, cut_off=more and following is None)

    def _check_bounds(self, asked: Asked, store: ReadableStore, partition: int | None, position: Position) -> None:
        terms = asked.terms
        if partition is None:
            return
        if not terms.bound.reached(position, partition):
            raise later(
                f"partition {partition} of store {asked.store!r} is at {position}, but the request requires"
                f" {terms.bound.position}: try again later",
                partition=partition,
            )
        if terms.max_lag is not None and isinstance(store, LocalStore) and not store.runs:
            lags = self._application.all_local_store_partition_lags().get(asked.store, {})
            lag = lags[partition].offset_lag if partition in lags else None
            if lag is None or lag > terms.max_lag:
                shown = "an unknown number of" if lag is None else str(lag)
                raise later(
                    f"partition {partition} of store {asked.store!r} lags {shown} offsets behind its changelog, more"
                    f" than max_lag, {terms.max_lag}: try again later",
                    partition=partition,
                )

    async def _lines(self, read: Read, found: Any, partition: int, limit: int, most: int) -> tuple[list[str], Any]:
        """Returns rows as lines of JSON until there are enough, and the last of the rows."""
        lines: list[str] = []
        last, size, end = None, 0, f',"partition":{partition}}}'
        while True:
            before = len(lines)
            for one in islice(found, min(CHUNK_ROWS, limit - before)):
                last, line = one, read.row(one)[:-1] + end
                lines.append(line)
                size += len(line)
                if size >= most:
                    return lines, last
            if len(lines) == limit or len(lines) - before < CHUNK_ROWS:
                return lines, last
            await self._pace.turn()


def json_of_position(position: Position) -> dict[str, dict[str, int]]:
    return {
        topic: {str(one): offset for one, offset in sorted(found.items())}
        for topic, found in sorted(position.offsets.items())
    }
