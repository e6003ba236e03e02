"""The pages of stores: each read is answered here, or by the worker that has the partition."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from aiohttp import web

from processor_api.errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    StateStoreMigratedError,
    StoreError,
    UnknownStateStoreError,
)
from processor_api.stores.builder import StoreBuilder
from processor_api.texts import plain_str
from processor_api.topology.partitioner import partition_for_key
from streams.http.reads import (
    MOST_KEYS,
    After,
    Read,
    Row,
    StoreSerdes,
    Terms,
    get_many_of,
    get_of,
    json_of_position,
    operations_of,
    read_of,
    terms_of,
)
from streams.http.routing import Router, Unreachable
from streams.http.served import HttpRefusal, ServedApplication, json_answer, json_text, later
from streams.queries.local_stores import LocalStore, ReadableStore, migrated
from streams.queries.position import Position
from streams.queries.queries import Queries

PAGE_ROWS = 500
"""Rows that are read of one moment of a store; a longer answer shows several moments."""
CHUNK_ROWS = 100
"""Rows that are read before other requests have their turn."""
BUFFERED_ROWS = 1000
"""Rows that are kept before an answer begins: until then an error is its status."""
LINES = "application/x-ndjson"


class Page(NamedTuple):
    """Some rows of one partition."""

    rows: list[Row]
    position: Mapping[str, Mapping[str, int]]
    next: After | None
    """Where the next page begins; ``None`` if there is none."""
    cut_off: bool = False
    """Whether there are more rows, which no page can be asked for."""


@dataclass(frozen=True)
class Asked:
    """One request: what is asked of which store, on which terms."""

    store: str
    operation: str
    read: Read
    terms: Terms
    query: Mapping[str, str]
    """The parameters, as another worker is asked with."""
    body: Mapping[str, Any] | None = None
    """The body of the request, where it has one."""


class LocalReads:
    """Reads the partitions of stores that this worker has."""

    def __init__(self, application: ServedApplication, queries: Callable[[], Queries]) -> None:
        self._application = application
        self._queries = queries

    async def page(self, asked: Asked, partition: int | None, after: After | None, limit: int) -> Page:
        """Reads some rows of a partition; other requests have their turns meanwhile.

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
                    return await _page(read, found, partition or 0, limit, json_of_position(position))
                finally:
                    close = getattr(found, "close", None)
                    if close is not None:
                        close()
        except StoreError as error:
            if store.gone():
                raise migrated(store.store) from error
            raise HttpRefusal(500, plain_str(error)) from error

    def _check_bounds(self, asked: Asked, store: ReadableStore, partition: int | None, position: Position) -> None:
        terms = asked.terms
        if partition is None:
            return
        if not terms.bound.reached(position, partition):
            raise later(
                f"partition {partition} of store {asked.store!r} is at {position}, and the request wants"
                f" {terms.bound.position}: ask again later",
                partition=partition,
            )
        if terms.max_lag is not None and isinstance(store, LocalStore) and not store.runs:
            lags = self._application.all_local_store_partition_lags().get(asked.store, {})
            lag = lags[partition].offset_lag if partition in lags else None
            if lag is None or lag > terms.max_lag:
                shown = "an unknown number of" if lag is None else str(lag)
                raise later(
                    f"partition {partition} of store {asked.store!r} lacks {shown} offsets of its changelog, more than"
                    f" max_lag, {terms.max_lag}: ask again later",
                    partition=partition,
                )


async def _page(read: Read, found: Any, partition: int, limit: int, position: Mapping[str, Mapping[str, int]]) -> Page:
    rows: list[Row] = []
    last: Any = None
    while chunk := list(islice(found, min(CHUNK_ROWS, limit - len(rows)))):
        last = chunk[-1]
        rows += ({**read.row(one), "partition": partition} for one in chunk)
        if len(rows) == limit:
            break
        await asyncio.sleep(0)
    if len(rows) < limit or read.single or next(found, None) is None:
        return Page(rows, position, None)
    if read.place is None:
        return Page(rows, position, None, cut_off=True)
    return Page(rows, position, After(partition, read.place(last)))


class StorePages:
    """Answers reads of the stores of an application."""

    def __init__(self, application: ServedApplication, queries: Callable[[], Queries], router: Router) -> None:
        self._application = application
        self._queries = queries
        self._router = router
        self._local = LocalReads(application, queries)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/stores", self.stores),
            web.get("/stores/{store}", self.store),
            web.get("/stores/{store}/{operation}", self.ask),
            web.post("/stores/{store}/get", self.ask_keys),
        ]

    async def stores(self, request: web.Request) -> web.StreamResponse:
        """Answers with the stores that there are."""
        queries = self._queries()
        return json_answer({"stores": [self._described(queries.builder(name)) for name in queries.names]})

    async def store(self, request: web.Request) -> web.StreamResponse:
        """Answers with what a store is, and where its partitions are."""
        fields = self._described(self._builder(request))
        if fields["partitions"]:
            name, count = fields["name"], fields["partitions"]
            fields["workers"] = [await self._router.owner(name, partition, fresh=False) for partition in range(count)]
        return json_answer(fields)

    def _described(self, builder: StoreBuilder[Any, Any]) -> dict[str, Any]:
        queries, name = self._queries(), builder.name
        partitions = queries.partitions(name)
        return {
            "name": name,
            "kind": builder.kind,
            "global": partitions is None,
            "partitions": partitions,
            "here": queries.local_partitions(name),
            "reads": operations_of(builder),
        }

    def _builder(self, request: web.Request) -> StoreBuilder[Any, Any]:
        try:
            return self._queries().builder(request.match_info["store"])
        except InvalidStateStoreError as error:
            raise _refusal(error) from error

    # ------------------------------------------------------------------ reads

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """Answers a read: one row as JSON, or rows as lines of JSON with a line about the answer at the end."""
        builder, operation, query = self._builder(request), request.match_info["operation"], request.query
        serdes = StoreSerdes(builder, self._application.config)
        terms = terms_of(query)
        asked = Asked(builder.name, operation, read_of(serdes, operation, query), terms, query)
        partitions = self._partitions(serdes, asked)
        if operation == "count":
            return await self._counted(asked, partitions)
        if asked.read.single:
            [partition] = partitions
            page = await self._page(asked, partition, None, 1)
            return _found(page, partition)
        return await self._rows(request, asked, partitions)

    def _partitions(self, serdes: StoreSerdes, asked: Asked) -> list[int | None]:
        """Returns the partitions to ask, in order; ``None`` stands for a global store."""
        terms, name = asked.terms, asked.store
        count = self._queries().partitions(name)
        if count is None:
            return [None]
        if count == 0:
            raise later(f"the partitions of store {name!r} are not known yet: ask again later")
        chosen = terms.partition
        if chosen is None and asked.read.key is not None:
            chosen = partition_for_key(serdes.key.serialize(asked.read.key), count)
        if chosen is not None:
            if chosen >= count:
                raise HttpRefusal(400, f"store {name!r} has no partition {chosen}: it has {count}")
            return [chosen]
        first = 0 if terms.after is None else terms.after.partition
        return list(range(first, count))

    async def _page(self, asked: Asked, partition: int | None, after: After | None, limit: int) -> Page:
        try:
            return await self._local.page(asked, partition, after, limit)
        except (InvalidStateStorePartitionError, StateStoreMigratedError) as error:
            if asked.terms.local or partition is None:
                raise _refusal(error, partition=partition) from error
        except InvalidStateStoreError as error:
            raise _refusal(error, partition=partition) from error
        return await self._elsewhere(asked, partition, after, limit)

    async def _elsewhere(self, asked: Asked, partition: int, after: After | None, limit: int) -> Page:
        """Asks the worker that has a partition: the one that had it when the group was last asked, then once more.

        :raises HttpRefusal: if none answers; no other partition is answered in its place.
        """
        router, why = self._router, "no worker has it now"
        query = {name: value for name, value in asked.query.items() if name not in _OWN_TERMS}
        query |= {"partition": str(partition), "local": "true", "limit": str(limit)}
        if after is not None:
            query["cursor"] = after.encode()
        if asked.operation in ("get", "count"):
            del query["limit"]
        for fresh in (False, True):
            endpoint = await router.owner(asked.store, partition, fresh=fresh)
            if endpoint is None:
                continue
            if endpoint == router.own:  # just given to this worker, or to another one of the same name
                why = "this worker does not have it yet, or another one has the same application.server"
                continue
            try:
                lines = await router.answer(endpoint, asked.store, asked.operation, query, asked.body)
                return _page_of(lines, partition)
            except Unreachable as error:
                why = str(error)
        raise later(f"partition {partition} of store {asked.store!r} cannot be read: {why}", partition=partition)

    async def _counted(self, asked: Asked, partitions: Sequence[int | None]) -> web.StreamResponse:
        count, missing = 0, []
        for partition in partitions:
            try:
                page = await self._page(asked, partition, None, 1)
            except HttpRefusal as refusal:
                missing.append(_missing(asked, refusal, partition))
            else:
                count += page.rows[0]["count"]
        return json_answer({"count": count, "approximate": True, "missing": missing})

    async def _rows(self, request: web.Request, asked: Asked, partitions: Sequence[int | None]) -> web.StreamResponse:
        lines, terms = _Lines(request), asked.terms
        after, left = terms.after, terms.limit
        while partitions:
            partition = partitions[0]
            if after is None or after.partition != (partition or 0):
                after = None
            try:
                limit = left if asked.read.place is None else min(left, PAGE_ROWS)
                page = await self._page(asked, partition, after, limit)
            except HttpRefusal as refusal:
                if not lines.begun or terms.partial:
                    lines.missing.append(_missing(asked, refusal, partition))
                    partitions, after = partitions[1:], None
                    continue
                return await lines.broken(refusal, after or After(partition or 0, None))
            await lines.write(page)
            left, after = left - len(page.rows), page.next
            if after is None:
                partitions = partitions[1:]
            if left == 0:
                break
        if partitions and after is None:
            after = After(partitions[0] or 0, None)
        return await lines.end(after)

    async def ask_keys(self, request: web.Request) -> web.StreamResponse:
        """Answers with the rows of several keys, in the order in which they were given."""
        builder, query = self._builder(request), request.query
        serdes, terms = StoreSerdes(builder, self._application.config), terms_of(query)
        given = await _given_keys(request)
        if "get" not in operations_of(builder):
            raise HttpRefusal(404, f"store {builder.name!r} is a {builder.kind} store and has no 'get'")
        of_partition: dict[int | None, list[tuple[int, Any, Any]]] = {}
        for number, one in enumerate(given):
            key = serdes.key_of(one, is_text=False)
            alone = Asked(builder.name, "get", get_of(key), terms, query)
            of_partition.setdefault(self._partitions(serdes, alone)[0], []).append((number, one, key))
        rows: dict[int, Row] = {}
        for partition, keys in of_partition.items():
            read = get_many_of([(shown, key) for _, shown, key in keys])
            asked = Asked(builder.name, "get", read, terms, query, {"keys": [shown for _, shown, _ in keys]})
            page = await self._page(asked, partition, None, len(keys) + 1)
            rows |= {number: row for (number, _, _), row in zip(keys, page.rows, strict=True)}
        return json_answer({"rows": [rows[number] for number in range(len(given))]})


_OWN_TERMS = ("partition", "local", "limit", "cursor", "partial")


def _page_of(lines: list[Any], partition: int) -> Page:
    """Returns the page that another worker has answered with.

    :raises Unreachable: if it is not whole.
    """
    last = lines[-1]
    if last.get("end") is True:
        after = None if last["next"] is None else After.decode(last["next"])
        done = after is None or after.partition != partition  # the next page is of another partition
        return Page(lines[:-1], last["position"], None if done else after, last["cut_off"])
    if last.get("found") is False:
        return Page([], last["position"], None)
    if "rows" in last:
        return Page(last["rows"], {}, None)
    if "count" in last:
        return Page(lines, {}, None)
    if len(lines) == 1 and "value" in last:
        return Page([{name: value for name, value in last.items() if name != "position"}], last["position"], None)
    raise Unreachable("the answer of the worker has no end: it was broken off")


def _missing(asked: Asked, refusal: HttpRefusal, partition: int | None) -> dict[str, Any]:
    """Returns what an answer says of a partition that it lacks.

    :raises HttpRefusal: if it may lack none.
    """
    if not asked.terms.partial or refusal.status != 503:
        raise refusal
    return {"partition": partition, "error": refusal.message}


def _found(page: Page, partition: int | None) -> web.Response:
    if not page.rows:
        fields = {"error": "there is no such key", "found": False, "partition": partition, "position": page.position}
        return json_answer(fields, status=404)
    return json_answer({**page.rows[0], "position": page.position})


async def _given_keys(request: web.Request) -> list[Any]:
    try:
        found = json.loads(await request.read())
    except (ValueError, RecursionError):
        found = None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise HttpRefusal(400, 'the body is not JSON such as {"keys": ["ann", "bob"]}')
    if len(keys) > MOST_KEYS:
        raise HttpRefusal(400, f"{len(keys)} keys are asked for, more than {MOST_KEYS}")
    return keys


def _refusal(error: InvalidStateStoreError, **more: Any) -> HttpRefusal:
    if isinstance(error, UnknownStateStoreError):
        return HttpRefusal(404, error.message, **more)
    if isinstance(error, InvalidStateStorePartitionError):
        return HttpRefusal(421, error.message, **more)
    if type(error) is InvalidStateStoreError:  # a store that only its task reads
        return HttpRefusal(400, error.message, **more)
    return later(error.message, **more)


class _Lines:
    """Writes an answer of rows as lines of JSON; the last line says whether all are there.

    The first rows wait, so that an error up to then is the status of the answer.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._waiting: list[str] = []
        self._answer: web.StreamResponse | None = None
        self._positions: dict[str, dict[str, int]] = {}
        self._rows = 0
        self._cut_off = False
        self.missing: list[dict[str, Any]] = []

    @property
    def begun(self) -> bool:
        """Whether the status of the answer has been sent."""
        return self._answer is not None

    async def write(self, page: Page) -> None:
        """Adds the rows of a page."""
        self._rows += len(page.rows)
        self._cut_off = self._cut_off or page.cut_off
        for topic, offsets in page.position.items():
            self._positions.setdefault(topic, {}).update(offsets)
        self._waiting += map(json_text, page.rows)
        if self.begun or self._rows > BUFFERED_ROWS:
            await self._send()

    async def end(self, after: After | None) -> web.StreamResponse:
        """Ends the answer."""
        last = {
            "end": True,
            "rows": self._rows,
            "next": None if after is None else after.encode(),
            "cut_off": self._cut_off,
            "missing": self.missing,
            "position": self._positions,
        }
        return await self._finish(last)

    async def broken(self, refusal: HttpRefusal, after: After) -> web.StreamResponse:
        """Ends an answer that cannot go on."""
        return await self._finish({"error": refusal.message, "next": after.encode(), **refusal.more})

    async def _finish(self, last: Mapping[str, Any]) -> web.StreamResponse:
        self._waiting.append(json_text(last))
        if self._answer is None:
            body = "".join(f"{line}\n" for line in self._waiting).encode()
            return web.Response(body=body, content_type=LINES, charset="utf-8")
        await self._send()
        return self._answer

    async def _send(self) -> None:
        if self._answer is None:
            self._answer = web.StreamResponse(headers={"Content-Type": f"{LINES}; charset=utf-8"})
            await self._answer.prepare(self._request)
        lines, self._waiting = self._waiting, []
        if lines:
            await self._answer.write("".join(f"{line}\n" for line in lines).encode())
