"""The pages of stores: each read is answered here, or by the worker that has the partition."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from processor_api.errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    StateStoreMigratedError,
    UnknownStateStoreError,
)
from processor_api.stores.builder import StoreBuilder
from processor_api.texts import cut
from streams.http.local_reads import MOST_KEYS_BYTES, PAGE_BYTES, Asked, LocalReads, Page
from streams.http.parallel_reads import AT_A_TIME, ParallelReads, Room
from streams.http.processor_share import ProcessorShare
from streams.http.reads import (
    COMMON,
    MOST_KEYS,
    After,
    StoreSerdes,
    Terms,
    get_many_of,
    number_of,
    operations_of,
    read_of,
    terms_of,
)
from streams.http.responses import (
    MOST_SHOWN,
    HttpRefusal,
    ServedApplication,
    json_answer,
    json_bytes,
    json_text,
    later,
    text_answer,
)
from streams.http.routing import Router, Unreachable
from streams.queries.queries import Queries

BUFFERED_ROWS = 1000
"""Rows that are kept before an answer begins: until then an error is its status."""
LINES = "application/x-ndjson"


class StorePages:
    """Answers reads of the stores of an application."""

    def __init__(
        self, application: ServedApplication, queries: Callable[[], Queries], router: Router, pace: ProcessorShare
    ) -> None:
        self._application = application
        self._queries = queries
        self._router = router
        self._local = LocalReads(application, queries, pace)
        self._room = Room()

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
        serdes, terms = StoreSerdes(builder, self._application.config), terms_of(query)
        read = read_of(serdes, operation, query)
        number = 0 if read.single else number_of(builder.name, operation, query)
        asked = Asked(builder.name, operation, read, terms, query, number)
        partitions = self._partitions(serdes, asked)
        if operation == "count":
            return await self._counted(asked, partitions)
        if read.single:
            [partition] = partitions
            return _found(await self._page(asked, partition, None, 1), partition)
        return await self._rows(request, asked, partitions)

    def _partitions(self, serdes: StoreSerdes, asked: Asked) -> list[int | None]:
        """Returns the partitions to ask, in order; ``None`` stands for a global store."""
        terms, after = asked.terms, asked.terms.after
        count = self._count(asked.store)
        chosen = [self._partition(serdes, count, terms, asked.read.key)]
        if chosen == [ALL]:
            chosen = list(range(count or 0))
        if after is None:
            return chosen
        if after.of != asked.number:
            raise HttpRefusal(400, "the cursor is from another request: use it with the same read and parameters")
        if (after.partition or None) not in [one or None for one in chosen]:
            raise HttpRefusal(400, f"the cursor is from partition {after.partition}, which this request does not read")
        return chosen if chosen == [None] else [one for one in chosen if one is not None and one >= after.partition]

    def _count(self, store: str) -> int | None:
        """Returns the number of partitions of a store; ``None`` for a global one."""
        count = self._queries().partitions(store)
        if count == 0:
            raise later(f"the partitions of store {store!r} are not known yet: try again later")
        return count

    def _partition(self, serdes: StoreSerdes, count: int | None, terms: Terms, key: Any) -> int | None:
        """Returns the partition to ask: the one that is named, or that of a key; ``None`` for a global store, and
        ``ALL`` if it is neither."""
        if count is None:
            return None
        chosen = terms.partition
        if chosen is None and key is not None:
            chosen = self._router.partition(serdes.builder.name, key, serdes.unbound_key, count)
        if chosen is not None and chosen >= count:
            raise HttpRefusal(
                400, f"store {serdes.builder.name!r} does not have partition {chosen}: it has {count} partitions"
            )
        return ALL if chosen is None else chosen

    async def _page(
        self, asked: Asked, partition: int | None, after: After | None, limit: int, most: int = PAGE_BYTES
    ) -> Page:
        try:
            return await self._local.page(asked, partition, after, limit, most)
        except (InvalidStateStorePartitionError, StateStoreMigratedError) as error:
            if asked.terms.local or partition is None:
                raise _refusal(error, partition=partition) from error
        except InvalidStateStoreError as error:
            raise _refusal(error, partition=partition) from error
        return await self._elsewhere(asked, partition, after, limit, most)

    async def _elsewhere(self, asked: Asked, partition: int, after: After | None, limit: int, most: int) -> Page:
        """Asks the worker that has a partition: the one that had it when the group was last asked, then once more.

        :raises HttpRefusal: if none responds; no other partition is read instead.
        """
        router, why = self._router, "no worker owns it now"
        query = {name: value for name, value in asked.query.items() if name not in _OWN_TERMS}
        query |= {"partition": str(partition), "local": "true"}
        if after is not None:
            query["cursor"] = after.encode()
        if asked.operation not in ("get", "count"):
            query |= {"limit": str(limit), "max_bytes": str(most)}
        for fresh in (False, True):
            endpoint = await router.owner(asked.store, partition, fresh=fresh)
            if endpoint is None:
                continue
            if endpoint == router.own:  # just given to this worker, or to another one of the same name
                why = "this worker does not own it yet, or another one has the same application.server"
                continue
            try:
                lines, last = await router.answer(endpoint, asked.store, asked.operation, query, asked.body)
                return _page_of(lines, last, partition)
            except Unreachable as error:
                why = str(error)
        for endpoint in router.keepers(asked.store, partition) if asked.terms.stale else ():
            try:
                lines, last = await router.answer(endpoint, asked.store, asked.operation, query, asked.body)
                return _page_of(lines, last, partition)
            except Unreachable as error:
                why = f"{why}; its standby replicas: {error}"
        raise later(f"partition {partition} of store {asked.store!r} cannot be read: {why}", partition=partition)

    async def _counted(self, asked: Asked, partitions: Sequence[int | None]) -> web.StreamResponse:
        async def count(partition: int | None) -> int | HttpRefusal:
            try:
                page = await self._page(asked, partition, None, 1)
            except HttpRefusal as refusal:
                return refusal
            counted: int = json.loads(page.lines[0])["count"]
            return counted

        found = await _side_by_side([partial(count, one) for one in partitions])
        missing = [
            _missing(asked, one, partition)
            for partition, one in zip(partitions, found, strict=True)
            if isinstance(one, HttpRefusal)
        ]
        total = sum(one for one in found if isinstance(one, int))
        return json_answer({"count": total, "approximate": True, "missing": missing})

    async def _rows(self, request: web.Request, asked: Asked, partitions: Sequence[int | None]) -> web.StreamResponse:
        lines, terms = _Lines(request), asked.terms
        left, size, number = list(partitions), 0, asked.number
        after = terms.after

        most = min(PAGE_BYTES, terms.max_bytes or PAGE_BYTES)

        async def read(partition: int | None, began: After | None, limit: int) -> Page:
            return await self._page(asked, partition, began, limit, most)

        async with ParallelReads(read, partitions, after, terms.limit, self._room) as ahead:
            async for partition, page in ahead.answers():
                if isinstance(page, HttpRefusal):
                    if lines.begun and not terms.partial:
                        return await lines.broken(page, after or After(partition or 0, None, number))
                    lines.missing.append(_missing(asked, page, partition))
                    after, left = None, left[1:]
                    continue
                await lines.write(page)
                after, size = page.next, size + page.size
                if after is None:
                    left = left[1:]
                if terms.max_bytes is not None and size >= terms.max_bytes:
                    break
        if left and after is None:
            after = After(left[0] or 0, None, number)
        return await lines.end(after)

    async def ask_keys(self, request: web.Request) -> web.StreamResponse:
        """Answers with the rows of several keys, in the order in which they were given."""
        builder, query = self._builder(request), request.query
        serdes, terms = StoreSerdes(builder, self._application.config), terms_of(query)
        given = await _given_keys(request)
        if "get" not in operations_of(builder):
            raise HttpRefusal(404, f"store {builder.name!r} is a {builder.kind} store and does not have 'get'")
        strange = sorted(query.keys() - COMMON)
        if strange:
            raise HttpRefusal(
                400, f"a request for several keys does not have parameter {cut(strange[0], MOST_SHOWN)!r}"
            )
        count = self._count(builder.name)
        of_partition: dict[int | None, Keys] = {}
        for number, one in enumerate(given):
            key = serdes.key_of(one, is_text=False)
            of_partition.setdefault(self._partition(serdes, count, terms, key), []).append((number, one, key))

        def asked(keys: Keys) -> Asked:
            read = get_many_of(serdes, [(shown, key) for _, shown, key in keys])
            return Asked(builder.name, "get", read, terms, query, body={"keys": [shown for _, shown, _ in keys]})

        async def rows(partitions: Sequence[int | None], endpoint: str | None) -> dict[int, str] | HttpRefusal:
            keys = [one for partition in partitions for one in of_partition[partition]]
            try:
                page = None if endpoint is None else await self._together(asked(keys), endpoint)
                if page is None:
                    page = Page([], {}, None)
                    for partition in partitions:
                        keys_here = of_partition[partition]
                        found = await self._page(asked(keys_here), partition, None, len(keys_here) + 1, MOST_KEYS_BYTES)
                        page.lines.extend(found.lines)
            except HttpRefusal as refusal:
                return refusal
            if len(page.lines) != len(keys):
                return _too_large()
            return {number: line for (number, _, _), line in zip(keys, page.lines, strict=True)}

        batches = await self._batches(builder.name, list(of_partition), terms)
        lines: dict[int, str] = {}
        for batch in await _side_by_side([partial(rows, *one) for one in batches]):
            if isinstance(batch, HttpRefusal):
                raise batch
            lines |= batch
        if sum(map(len, lines.values())) > MOST_KEYS_BYTES:
            raise _too_large()
        text = ",".join(lines[number] for number in range(len(given)))
        return text_answer(f'{{"rows":[{text}]}}')

    async def _batches(
        self, store: str, partitions: Sequence[int | None], terms: Terms
    ) -> list[tuple[list[int | None], str | None]]:
        """Returns the partitions that are read by one request each, with the worker that is asked; ``None`` for those
        that are here, or whose worker is not known."""
        here, router = set(self._queries().local_partitions(store)), self._router
        together: dict[str, list[int | None]] = {}
        alone: list[list[int | None]] = []
        for partition in partitions:
            endpoint = None
            if partition is not None and partition not in here and not terms.local and terms.partition is None:
                endpoint = await router.owner(store, partition, fresh=False)
            if endpoint is None or endpoint == router.own:
                alone.append([partition])
            else:
                together.setdefault(endpoint, []).append(partition)
        return [*((one, None) for one in alone), *((found, endpoint) for endpoint, found in together.items())]

    async def _together(self, asked: Asked, endpoint: str) -> Page | None:
        """Asks a worker for keys of several of its partitions; returns ``None`` if it does not answer for all of them.

        :raises HttpRefusal: if it refuses the request.
        """
        query = {name: value for name, value in asked.query.items() if name not in _OWN_TERMS} | {"local": "true"}
        try:
            lines, last = await self._router.answer(endpoint, asked.store, "get", query, asked.body)
            return _page_of(lines, last, 0)
        except Unreachable:
            return None


Keys = list[tuple[int, Any, Any]]
"""Each with its place in the request, as it was given, and as the store takes it."""
ALL = -1
_OWN_TERMS = ("partition", "local", "limit", "cursor", "partial", "max_bytes")

Found = TypeVar("Found")


async def _side_by_side(calls: Sequence[Callable[[], Awaitable[Found]]]) -> list[Found]:
    """Returns the results of calls, of which some run at a time."""
    if len(calls) == 1:
        return [await calls[0]()]
    room = asyncio.Semaphore(AT_A_TIME)

    async def made(call: Callable[[], Awaitable[Found]]) -> Found:
        async with room:
            return await call()

    return await asyncio.gather(*map(made, calls))


def _too_large() -> HttpRefusal:
    return HttpRefusal(413, f"the rows of these keys have more than {MOST_KEYS_BYTES >> 20} MiB: request fewer keys")


def _page_of(lines: list[str], last: dict[str, Any], partition: int) -> Page:
    """Returns the page that another worker has answered with.

    :raises Unreachable: if it is not whole.
    """
    if last.get("end") is True:
        after = None if last["next"] is None else After.decode(last["next"])
        done = after is None or after.partition != partition  # the next page is of another partition
        return Page(lines[:-1], last["position"], None if done else after, last["cut_off"])
    if last.get("found") is False:
        return Page([], last["position"], None)
    if "rows" in last:
        return Page(list(map(json_text, last["rows"])), {}, None)
    if "count" in last:
        return Page(lines, {}, None)
    if len(lines) == 1 and "value" in last:
        position = last.pop("position")
        return Page([json_text(last)], position, None)
    raise Unreachable("the response of the worker was interrupted")


def _missing(asked: Asked, refusal: HttpRefusal, partition: int | None) -> dict[str, Any]:
    """Returns what an answer says of a partition that it lacks.

    :raises HttpRefusal: if it may lack none.
    """
    if not asked.terms.partial or refusal.status != 503:
        raise refusal
    return {"partition": partition, "error": refusal.message}


def _found(page: Page, partition: int | None) -> web.Response:
    if not page.lines:
        fields = {"error": "the key does not exist", "found": False, "partition": partition, "position": page.position}
        return json_answer(fields, status=404)
    return text_answer(f'{page.lines[0][:-1]},"position":{json_text(page.position)}}}')


async def _given_keys(request: web.Request) -> list[Any]:
    try:
        found = json.loads(await request.read())
    except (ValueError, RecursionError):
        found = None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise HttpRefusal(400, 'the body must be JSON such as {"keys": ["ann", "bob"]}')
    if len(keys) > MOST_KEYS:
        raise HttpRefusal(400, f"a request can have {MOST_KEYS} keys, got {len(keys)}")
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
        self._rows += len(page.lines)
        self._cut_off = self._cut_off or page.cut_off
        for topic, offsets in page.position.items():
            self._positions.setdefault(topic, {}).update(offsets)
        self._waiting += page.lines
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
        """Ends a response that cannot continue."""
        return await self._finish({"error": refusal.message, "next": after.encode(), **refusal.more})

    async def _finish(self, last: Mapping[str, Any]) -> web.StreamResponse:
        self._waiting.append(json_text(last))
        if self._answer is None:
            body = _bytes(self._waiting)
            return web.Response(body=body, content_type=LINES, charset="utf-8")
        await self._send()
        return self._answer

    async def _send(self) -> None:
        if self._answer is None:
            self._answer = web.StreamResponse(headers={"Content-Type": f"{LINES}; charset=utf-8"})
            await self._answer.prepare(self._request)
        lines, self._waiting = self._waiting, []
        if lines:
            await self._answer.write(_bytes(lines))


def _bytes(lines: Iterable[str]) -> bytes:
    return json_bytes("".join(f"{line}\n" for line in lines))
