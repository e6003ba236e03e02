"""Workers that ask each other: no token leaves one, and what lies, redirects or answers without end is not believed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from http_support.asking import ask, free_port, listening
from processor_api.clock import ManualClock
from runtime_support.running_app import Cluster, counting
from streams.app.states import ClientState
from streams.http.access.credentials import Credentials
from streams.http.access.proofs import ANSWERS, ASKS, PEER_PATH, TICKET_S, USES, Proofs, code, new_nonce
from streams.http.options import HttpOptions
from streams.http.routing import Router, Tickets, Unreachable
from streams.queries.owners import OwnerMap
from streams.threads import SYSTEM_THREADS
from waiting import wait_until

TOKEN, OTHER = "correct-horse-battery-staple", "tr0ub4dor-and-3-horses"
HERE, THERE = "10.0.0.1:8080", "10.0.0.2:8080"
READ = b'{"key":"a","value":666,"partition":0,"position":{}}\n'


def having(folder: Path, *tokens: str) -> Credentials:
    path = folder / f"token-{len(list(folder.iterdir()))}"
    path.write_text("\n".join(tokens))
    return Credentials(path)


# ------------------------------------------------------------------ proofs


def test_a_ticket_is_for_those_who_have_the_token(tmp_path: Path) -> None:
    proofs, nonce = Proofs(having(tmp_path, TOKEN), HERE, ManualClock()), new_nonce()
    assert proofs.answer(nonce, "") is None
    assert proofs.answer(nonce, "\udcff") is None
    assert proofs.answer(nonce, code(OTHER, ASKS, HERE, nonce)) is None
    assert proofs.answer(new_nonce(), code(TOKEN, ASKS, HERE, nonce)) is None
    assert proofs.answer(nonce, code(TOKEN, ASKS, THERE, nonce)) is None, "it was asked of another worker"
    found = proofs.answer(nonce, code(TOKEN, ASKS, HERE, nonce))
    assert found is not None
    assert found["code"] == code(TOKEN, ANSWERS, HERE, nonce, found["ticket"])
    assert proofs.admits(f"{found['ticket']} {code(TOKEN, USES, HERE, found['ticket'])}")


def test_a_ticket_is_valid_at_its_worker_for_a_time(tmp_path: Path) -> None:
    clock = ManualClock()
    credentials = having(tmp_path, TOKEN)
    proofs, again, nonce = Proofs(credentials, HERE, clock), Proofs(credentials, HERE, clock), new_nonce()
    found = proofs.answer(nonce, code(TOKEN, ASKS, HERE, nonce))
    assert found is not None
    ticket = found["ticket"]
    right = f"{ticket} {code(TOKEN, USES, HERE, ticket)}"
    wrong = [
        "", " ", ticket, f"{ticket} {code(OTHER, USES, HERE, ticket)}", f"{ticket} {code(TOKEN, USES, THERE, ticket)}",
        f"{ticket} {found['code']}", f"9{right}", f"{int(ticket[:ticket.index('.')]) + 1}{right[right.index('.'):]}",
        "x.y.z w", f"\udcff {right}",
    ]  # fmt: skip
    assert [proofs.admits(one) for one in wrong] == [False] * len(wrong)
    assert not again.admits(right), "it is of another process"
    assert proofs.admits(right)
    clock.advance(1000 * TICKET_S)
    assert proofs.admits(right)
    clock.advance(1)
    assert not proofs.admits(right)


# ------------------------------------------------------------------ strangers


class Stranger:
    """What is at an address that a member of the group has told: it keeps what it is asked."""

    def __init__(self, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
        self.answer = answer
        self.seen: list[str] = []

    async def asked(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.raw_path} {dict(request.headers)}")
        return await self.answer(request)


def asked_by_a_worker(stranger: Stranger, credentials: Credentials) -> str:
    """Has a worker ask for a row; returns the row, or why there is none."""

    async def run() -> str:
        application = web.Application()
        application.add_routes([web.route("*", "/{path:.*}", stranger.asked)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port := free_port())
        await site.start()
        owners: Any = SimpleNamespace(own=HERE, known=OwnerMap())
        options = HttpOptions(host="127.0.0.1", port=port, credentials=credentials)
        router = Router(owners, options, SYSTEM_THREADS, most_answer_bytes=1 << 20)
        try:
            lines, _ = await router.answer(f"127.0.0.1:{port}", "counts", "get", {"key": "a"}, None)
            return lines[0]
        except Unreachable as error:
            return str(error)
        finally:
            await router.close()
            await runner.cleanup()

    return asyncio.run(run())


async def a_row(request: web.Request) -> web.StreamResponse:
    return web.Response(body=READ)


async def elsewhere(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/")


async def without_end(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(bytes(1 << 16))


async def a_proof_of_its_own(request: web.Request) -> web.StreamResponse:
    if request.path != PEER_PATH:
        return web.Response(body=READ)
    query = request.query
    return web.json_response({"ticket": "1.2.3", "code": query["code"]})


async def another_tokens_proof(request: web.Request) -> web.StreamResponse:
    host, nonce = request.headers["Host"], request.query.get("nonce", "")
    return web.json_response({"ticket": "1.2.3", "code": code(OTHER, ANSWERS, host, nonce, "1.2.3")})


async def a_header_in_its_ticket(request: web.Request) -> web.StreamResponse:
    host, nonce, ticket = request.headers["Host"], request.query.get("nonce", ""), "1\r\nX: y"
    return web.json_response({"ticket": ticket, "code": code(TOKEN, ANSWERS, host, nonce, ticket)})


async def relayed(request: web.Request) -> web.StreamResponse:
    """Has a worker that has the token answer the question."""
    proofs = Proofs(Credentials(TOKEN_FILE[0]), THERE, ManualClock())
    found = proofs.answer(request.query.get("nonce", ""), request.query.get("code", ""))
    return web.json_response(found or {}, status=200 if found else 401)


TOKEN_FILE: list[Path] = []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (a_row, "does not show that it has the token"),
        (elsewhere, "does not show that it has the token"),
        (without_end, "answers with more than"),
        (a_proof_of_its_own, "does not show that it has the token"),
        (another_tokens_proof, "does not show that it has the token"),
        (a_header_in_its_ticket, "does not show that it has the token"),
        (relayed, "does not take the token of this worker"),
    ],
)
def test_a_stranger_gets_no_token_and_is_not_believed(tmp_path: Path, answer: Any, why: str) -> None:
    credentials = having(tmp_path, TOKEN)
    TOKEN_FILE[:] = [next(tmp_path.iterdir())]
    stranger = Stranger(answer)
    assert why in asked_by_a_worker(stranger, credentials)
    assert stranger.seen
    assert not any(TOKEN in one or "/stores" in one for one in stranger.seen)


def test_without_tokens_workers_are_asked_as_they_are(tmp_path: Path) -> None:
    assert asked_by_a_worker(Stranger(a_row), Credentials()) == READ.decode().strip()
    stranger = Stranger(elsewhere)
    assert "is not JSON: b'302: Found'" in asked_by_a_worker(stranger, Credentials())
    assert len(stranger.seen) == 1, "it does not follow"


def test_a_ticket_is_kept_and_renewed(tmp_path: Path) -> None:
    credentials, asked = having(tmp_path, OTHER, TOKEN), list[str]()
    proofs = Proofs(having(tmp_path, TOKEN), HERE, ManualClock())

    async def answer(
        endpoint: str, method: str, path: str, headers: Any, *, params: dict[str, str]
    ) -> tuple[int, bytes]:
        asked.append(path)
        found = proofs.answer(params["nonce"], params["code"])
        return (401, b"") if found is None else (200, json.dumps(found).encode())

    async def run() -> None:
        tickets = Tickets(credentials, answer)
        first = await tickets.headers(HERE, renew=False)
        assert asked == [PEER_PATH] * 2, "one for each token that it has"
        assert await tickets.headers(HERE, renew=False) is first
        assert len(asked) == 2
        assert await tickets.headers(HERE, renew=True) != first
        assert proofs.admits(first["Authorization"].partition(" ")[2])
        tickets.forget(HERE)
        assert await tickets.headers(HERE, renew=False) != first

    asyncio.run(run())


# ------------------------------------------------------------------ workers


@pytest.fixture(name="workers")
def workers_fixture(tmp_path: Path) -> Iterator[list[tuple[int, Path]]]:
    """Two workers, each with a file of tokens, and a row in each of two partitions."""
    with Cluster(tmp_path / "cluster", partitions=2) as cluster:
        found = []
        for number in range(2):
            (path := tmp_path / f"token-{number}").write_text(TOKEN)
            port = free_port()
            app = cluster.app(counting(), **listening(port), http_token_file=str(path))
            cluster.until_state(app, ClientState.RUNNING)
            found.append((port, path))
        producer = cluster.clients.producer({})
        for word in WORDS:
            producer.produce("in", word.encode(), word.encode(), -1, None, None, 1, None)
        producer.flush()
        wait_until("all are counted", lambda: all(counts(port, TOKEN) == [1] * len(WORDS) for port, _ in found))
        yield found


WORDS = [f"w{number}" for number in range(8)]


def counts(port: int, token: str) -> list[Any]:
    answers = [ask(port, f"/stores/counts/get?key={word}", Authorization=f"Bearer {token}") for word in WORDS]
    return [one.json.get("value") if one.status == 200 else one.status for one in answers]  # prose: ok


def test_a_token_is_changed_worker_by_worker_without_a_failed_read(workers: list[tuple[int, Path]]) -> None:
    def status(port: int, token: str) -> int:
        return ask(port, "/state", Authorization=f"Bearer {token}").status

    def all_read(token: str) -> bool:
        return all(counts(port, token) == [1] * len(WORDS) for port, _ in workers)

    for port, path in workers:
        path.write_text(f"{TOKEN}\n{OTHER}")
        wait_until("the other token is valid too", lambda port=port: status(port, OTHER) == 200)
        assert all_read(TOKEN)
    for port, path in workers:
        assert all_read(OTHER)
        path.write_text(OTHER)
        wait_until("the former token is not valid", lambda port=port: status(port, TOKEN) == 401)
    assert all_read(OTHER)
