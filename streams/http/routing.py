"""Finds the worker that has a partition of a store, and asks it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp

from processor_api.errors import StreamsError
from processor_api.serde import Serde
from processor_api.texts import cut, kind_and_text
from streams.http.access.credentials import Credentials
from streams.http.access.proofs import ANSWERS, ASKS, PEER, PEER_PATH, TICKET_S, USES, code, is_same, new_nonce
from streams.http.local_reads import MOST_KEYS_BYTES
from streams.http.options import HttpOptions
from streams.http.peers import LIVES_S, Peer, Silent
from streams.http.responses import HttpRefusal, later
from streams.kafka.membership.group_picture import GroupProcess
from streams.queries.owners import Owners
from streams.threads import Threads

CONNECT_S = 2.0
ANSWER_S = 10.0
MOST_ANSWER_BYTES = MOST_KEYS_BYTES + (1 << 20)
"""The longest answer of another worker that is read: that about several keys, with its last line."""
MOST_STATUS_BYTES = 16 << 20
"""The longest status of another worker that is read."""
MOST_WORKERS = 256
"""The most workers of an application that are asked for their status."""
PROCESSES_S = 5.0
"""A list of the processes in the group that is older is asked for again."""
MOST_AGE_S = 30.0
"""A map of owners that is older is asked for again; a younger one is tried first, since each owner checks that it is
the owner."""


class Unreachable(Exception):
    """The worker that was asked does not answer, or no longer owns the partition: another may."""


Ask = Callable[..., Awaitable[tuple[int, bytes]]]
"""``(endpoint, method, path, headers, params=)`` to the status and the body of an answer."""


class Tickets:
    """Gets tickets of other workers, which show before that they have the token of this one."""

    def __init__(self, credentials: Credentials, ask: Ask) -> None:
        self._credentials = credentials
        self._ask = ask
        self._headers: dict[str, tuple[float, Mapping[str, str]]] = {}
        """Those for each address, with the time until which they are used."""

    async def headers(self, endpoint: str, *, renew: bool) -> Mapping[str, str]:
        """Returns the headers of a request to an address; none without a token.

        :param renew: asks for another ticket.
        :raises Unreachable: if what is at the address does not show that it has the token.
        """
        if not self._credentials.tokens:
            return {}
        now = asyncio.get_running_loop().time()
        until, found = self._headers.get(endpoint, (now, None))
        if found is not None and now < until and not renew:
            return found
        ticket, made = await self._new(endpoint)
        found = {"Authorization": f"{PEER} {ticket} {made}"}
        self._headers[endpoint] = now + TICKET_S / 2, found
        return found

    def forget(self, endpoint: str) -> None:
        """Forgets the ticket for an address."""
        self._headers.pop(endpoint, None)

    async def _new(self, endpoint: str) -> tuple[str, str]:
        why = "it does not take the token of this worker"
        for token in self._credentials.tokens:
            nonce = new_nonce()
            query = {"nonce": nonce, "code": code(token, ASKS, endpoint, nonce)}
            status, body = await self._ask(endpoint, "GET", PEER_PATH, {}, params=query)
            if status == 401:
                continue
            try:
                found = json.loads(body)
                ticket, shown = str(found["ticket"]), str(found["code"])
            except (ValueError, LookupError, TypeError, RecursionError):
                ticket = shown = ""
            is_header = ticket.isascii() and ticket.isprintable() and " " not in ticket
            if is_header and is_same(shown, code(token, ANSWERS, endpoint, nonce, ticket)):
                return ticket, code(token, USES, endpoint, ticket)
            why = "it does not show that it has the token"
        raise Unreachable(f"worker {endpoint} is not asked: {why} (http.token.file)")


class Router:
    """Asks other workers. Used by the loop of the server; the group is asked by a thread of its own."""

    def __init__(
        self,
        owners: Owners,
        options: HttpOptions,
        threads: Threads,
        *,
        most_answer_bytes: int = MOST_ANSWER_BYTES,
    ) -> None:
        self._most_bytes = most_answer_bytes
        self.own = owners.own
        self._owners = owners
        self._options = options
        self._scheme = "http" if options.tls is None else "https"
        self._peers: dict[str, Peer] = {}
        self._helper = threads.helper("http-owners")
        self._session: aiohttp.ClientSession | None = None
        self._asking: asyncio.Future[Any] | None = None
        self._tickets = Tickets(options.credentials, self._asked_for)

    async def close(self) -> None:
        """Closes connections, and ends the thread."""
        self._helper.shutdown(wait=False, cancel_futures=True)
        for peer in self._peers.values():
            await peer.close()
        if self._session is not None:
            await self._session.close()

    async def owner(self, store: str, partition: int, *, fresh: bool) -> str | None:
        """Returns the address of the worker that has a partition of a store; ``None`` if none is known.

        :param fresh: asks the group, unless it was asked just now.
        :raises HttpRefusal: if it does not answer.
        """
        try:
            if fresh or not self._owners.known.endpoints:
                await self._ask_group(0.2)
            elif self._asking is None:
                await self._ask_group(MOST_AGE_S)
        except StreamsError as error:
            raise later(f"the owner of the partition cannot be read from the application's group: {error}") from error
        task = self._owners.task(store, partition)
        return None if task is None else self._owners.known.endpoints.get(task)

    def partition(self, store: str, key: Any, serde: Serde[Any], count: int) -> int:
        """Returns the partition of a key, by its serde that is bound to no topic."""
        return self._owners.partition(store, key, serde, count)

    def keepers(self, store: str, partition: int) -> list[str]:
        """Returns the addresses of the other workers that keep a standby copy of a partition, as far as they are
        known."""
        task = self._owners.task(store, partition)
        found = frozenset[str]() if task is None else self._owners.known.standbys.get(task, frozenset())
        return sorted(found - {self.own})

    async def processes(self) -> frozenset[GroupProcess]:
        """Returns the processes of the application, as the group has them.

        :raises HttpRefusal: if the group does not answer.
        """
        try:
            await self._ask_group(PROCESSES_S)
        except StreamsError as error:
            raise later(f"the workers cannot be read from the application's group: {error}") from error
        return self._owners.known.processes

    async def _ask_group(self, max_age_s: float) -> None:
        """Has the map of owners read; requests at the same time wait for one reading."""
        if self._asking is None:
            pending: Any = self._helper.submit(self._owners.current, max_age_s)
            self._asking = asyncio.wrap_future(pending)
            self._asking.add_done_callback(self._asked)
        await asyncio.shield(self._asking)

    def _asked(self, _: object) -> None:
        self._asking = None

    async def answer(
        self, endpoint: str, store: str, operation: str, query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> tuple[list[str], dict[str, Any]]:
        """Asks another worker for a read of its own partition; returns the lines of its answer, and the last as JSON.

        :param body: what is posted, as JSON; ``None`` asks by GET.
        :raises Unreachable: if another worker may have the partition.
        :raises HttpRefusal: if the worker refuses the request.
        """
        path = f"/stores/{quote(store, safe='')}/{operation}"
        method = "GET" if body is None else "POST"
        found = await self._proved(endpoint, method, path, params=dict(query), json=body)
        return _lines(*found, endpoint)

    async def status_of(self, endpoint: str) -> bytes:
        """Returns the status of another worker, as it sends it.

        :raises Unreachable: if the worker does not send one.
        """
        found, body = await self._proved(
            endpoint, "GET", "/state", params={"worker": "self"}, most_bytes=MOST_STATUS_BYTES
        )
        if found != 200:
            raise Unreachable(_error_in(body) or f"it responds with status {found}")
        return body

    async def workers_behind(self, endpoint: str) -> int:
        """Returns how many workers there are behind the port of a supervisor, also those that are in no group now.

        :param endpoint: the address of one of them, which has to show first that it has the token.
        :raises Unreachable: if the port does not say so.
        """
        async with self._asked_peer(endpoint):
            await self._tickets.headers(endpoint, renew=False)
            port = endpoint.partition("/")[0]
            _, body = await self._asked_for(port, "GET", "/live", {}, most_bytes=MOST_STATUS_BYTES)
        try:
            return min(int(json.loads(body)["workers"]), MOST_WORKERS)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Unreachable(f"{port} does not respond as the port of a supervisor") from None

    async def _proved(self, endpoint: str, method: str, path: str, **more: Any) -> tuple[int, bytes]:
        """Returns the status and the body of the answer of a worker that has shown that it has the token.

        :raises Unreachable: if there is no answer.
        """
        async with self._asked_peer(endpoint):
            for is_renewed in (False, True):
                headers = await self._tickets.headers(endpoint, renew=is_renewed)
                found = await self._asked_for(endpoint, method, path, headers, **more)
                if found[0] != 401 or is_renewed or not headers:
                    break
        return found

    @asynccontextmanager
    async def _asked_peer(self, endpoint: str) -> AsyncIterator[None]:
        """Holds one request to a worker; a failure of it is an `Unreachable` that names the worker."""
        try:
            async with self._peer(endpoint).asked():
                yield
        except Silent as error:
            raise Unreachable(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"worker {endpoint} does not respond: {kind_and_text(error)}") from error

    async def beat(self, endpoint: str, port: str) -> int:
        """Returns the status of the answer to a probe.

        :param endpoint: the address of a worker that has to show first that it has the token.
        :param port: the ``host:port`` that is probed: of the same worker, or of its supervisor.
        :raises Unreachable: if it does not show that.
        :raises aiohttp.ClientError: if there is no answer.
        """
        await self._tickets.headers(endpoint, renew=False)
        url = f"{self._scheme}://{port}/live"
        async with self._opened().get(url, allow_redirects=False) as response:
            return response.status

    async def _asked_for(
        self,
        endpoint: str,
        method: str,
        path: str,
        headers: Mapping[str, str],
        most_bytes: int | None = None,
        **more: Any,
    ) -> tuple[int, bytes]:
        """Returns the status and the body of an answer.

        :raises Unreachable: if it is longer than any answer is.
        """
        most_bytes = self._most_bytes if most_bytes is None else most_bytes
        url, parts, size = f"{self._scheme}://{address_of(endpoint)}{path}", list[bytes](), 0
        async with self._opened().request(method, url, headers=headers, allow_redirects=False, **more) as response:
            async for part in response.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > most_bytes:
                    raise Unreachable(f"worker {endpoint} answers with more than {most_bytes >> 20} MiB")
            return response.status, b"".join(parts)

    def _peer(self, endpoint: str) -> Peer:
        found = self._peers.get(endpoint)
        if found is None:
            url = f"{self._scheme}://{address_of(endpoint)}/live"

            async def lives() -> None:
                async with self._opened().get(url, allow_redirects=False):
                    pass

            known = self._owners.known
            for gone in self._peers.keys() - set(known.endpoints.values()) - {one.endpoint for one in known.processes}:
                if not self._peers[gone].is_busy:
                    del self._peers[gone]
                    self._tickets.forget(gone)
            # A supervisor, through whose port its workers are asked, notices the same, and its answer is the first.
            lives_s = 2 * LIVES_S if "/" in endpoint else LIVES_S
            found = self._peers[endpoint] = Peer(endpoint, lives, lives_s=lives_s)
        return found

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._trusted()),  # each peer has its bound
                timeout=aiohttp.ClientTimeout(total=ANSWER_S, connect=CONNECT_S),
            )
        return self._session

    def _trusted(self) -> ssl.SSLContext | bool:
        """Returns how other workers prove who they are: by an authority of the system, or by this one's certificate."""
        if self._options.tls is None:
            return True
        context = ssl.create_default_context()
        if self._options.credentials.certificate is not None:
            context.load_verify_locations(self._options.credentials.certificate)
        return context


def _error_in(body: bytes) -> str | None:
    """Returns the sentence of an answer that reports a failure; ``None`` if it has none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = found.get("error") if isinstance(found, dict) else None
    return cut(error, 300) if isinstance(error, str) else None


def address_of(endpoint: str) -> str:
    """Returns where to ask: behind one port there may be several processes, by number."""
    address, slash, process = endpoint.partition("/")
    return f"{address}/workers/{process}" if slash else address


def _lines(status: int, body: bytes, endpoint: str) -> tuple[list[str], dict[str, Any]]:
    """Returns the answer of a worker as lines, and the last one as JSON. Rows are passed on as they are.

    :raises Unreachable: if the worker is not the owner, or has broken off.
    :raises HttpRefusal: if it has refused the request.
    """
    try:
        lines = body.decode().rstrip("\n").split("\n")
        last = json.loads(lines[-1]) if lines[-1] else {}
    except ValueError:
        raise Unreachable(f"the response of worker {endpoint} is not JSON: {cut(repr(body[:80]), 80)}") from None
    if not isinstance(last, dict):
        raise Unreachable(f"the response of worker {endpoint} is not about a store: {cut(repr(body[:80]), 80)}")
    error = last.get("error")
    if status == 421 or not last:
        raise Unreachable(str(error or f"the response of worker {endpoint} is empty"))
    if status == 404 and last.get("found") is False:
        return lines, last
    if status == 503:
        raise later(str(error))
    if status != 200:
        raise HttpRefusal(
            502 if status in (401, 403) else status, f"worker {endpoint} responded with status {status}: {error}"
        )
    if error is not None:
        raise Unreachable(str(error))
    return lines, last
