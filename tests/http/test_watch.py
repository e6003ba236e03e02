"""Workers form a ring in which each watches one other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from http_support.asking import free_port
from processor_api.clock import ManualClock
from processor_api.errors import ConfigError
from processor_api.task_id import TopicPartition
from streams.config import StreamsConfig
from streams.http.access.credentials import Credentials
from streams.http.access.proofs import PEER_PATH, Proofs
from streams.http.options import HttpOptions
from streams.http.routing import Router
from streams.http.watch import PeerWatch, next_in_ring
from streams.kafka.ports import GroupMember
from streams.kafka.suspects import processes_at
from streams.queries.owners import OwnerMap
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.threads import SYSTEM_THREADS
from waiting import DEADLINE_S

BASE = {"application.id": "app", "bootstrap.servers": "b:1"}
CONFIG = StreamsConfig.of(BASE)
ONE, TWO, THREE = (f"0000000{number}-0000-4000-8000-000000000001" for number in (1, 2, 3))


def member(process: str, endpoint: str | None, thread: int = 1, **more: str) -> GroupMember:
    address = "" if endpoint is None else f"@{endpoint}"
    client = f"{more.get('client', f'app-{process}')}{address}-StreamThread-{thread}-consumer-topology-0f3c9a71"
    instance = more.get("instance", f"app-{process}-{thread}")
    return GroupMember(client, "m", instance, frozenset[TopicPartition](), process_id=more.get("process_id", ""))


def found(*members: GroupMember) -> dict[str, list[tuple[str, int]]]:
    return {
        endpoint: [(one.process, one.threads) for one in all_]
        for endpoint, all_ in processes_at(CONFIG, members).items()
    }


def test_a_process_is_known_by_the_clients_of_its_threads() -> None:
    members = [member(f"{ONE}-0", "a:80", number) for number in (1, 3)]
    assert found(*members, member(f"{TWO}-0", "b:80")) == {"a:80": [(f"{ONE}-0", 3)], "b:80": [(f"{TWO}-0", 1)]}


def test_a_process_whose_client_id_is_the_users_is_known_by_its_instance_id_or_its_group() -> None:
    assert found(member(f"{ONE}-0", "a:80", client="mine")) == {"a:80": [(f"{ONE}-0", 1)]}
    streams = member(f"{ONE}-0", "a:80", client="mine", instance="", process_id=f"{ONE}-0")
    assert found(streams) == {"a:80": [(f"{ONE}-0", 1)]}


@pytest.mark.parametrize(
    "alone",
    [member(f"{ONE}-0", None), member("?", "a:80", client="mine", instance="mine-1"), member("../x", "a:80")],
)
def test_what_is_no_process_with_an_address_is_left_out(alone: GroupMember) -> None:
    assert found(alone) == {}


def test_an_address_of_several_machines_is_left_out() -> None:
    """Such as 127.0.0.1, by which each means itself."""
    assert found(member(f"{ONE}-0", "127.0.0.1:80"), member(f"{TWO}-0", "127.0.0.1:80")) == {}


def ring(*endpoints: str) -> dict[str, str | None]:
    """Who watches whom."""
    members = [
        member(f"0000000{endpoint[0]}-0000-4000-8000-000000000001-{endpoint.partition('/')[2] or 0}", endpoint)
        for endpoint in endpoints
    ]
    processes = processes_at(CONFIG, members)
    return {one: next_in_ring(one, processes) for one in endpoints}


def test_each_is_watched_by_one_other() -> None:
    assert ring("1.a:80", "2.b:80", "3.c:80") == {"1.a:80": "2.b:80", "2.b:80": "3.c:80", "3.c:80": "1.a:80"}


def test_one_alone_watches_nobody() -> None:
    assert ring("1.a:80") == {"1.a:80": None}


def test_workers_of_one_supervisor_are_watched_together_by_one() -> None:
    """Their supervisor looks after each of them."""
    watched = ring("1.a:80/0", "1.a:80/1", "2.b:80/0", "2.b:80/1")
    assert watched == {"1.a:80/0": "2.b:80", "1.a:80/1": None, "2.b:80/0": "1.a:80", "2.b:80/1": None}


def test_a_worker_that_the_group_does_not_know_yet_watches_too() -> None:
    processes = processes_at(CONFIG, [member(f"{ONE}-0", "a:80")])
    assert next_in_ring("b:80", processes) == "a:80"


# ------------------------------------------------------------------ what answers there

TOKEN, OTHER = "correct-horse-battery-staple", "tr0ub4dor-and-3-horses"
OWN = "127.0.0.1:1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Listener:
    def on_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_lost(self, partitions: Collection[TopicPartition]) -> None: ...


class Scene:
    """A worker that watches another one, which is a member of a group on a broker in memory, with an open
    transaction."""

    def __init__(self, folder: Path, guarantee: str = "exactly_once_v2", peers_token: str = TOKEN) -> None:
        (folder / "own").write_text(TOKEN)
        (folder / "peers").write_text(peers_token)
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.proofs = Proofs(Credentials(folder / "peers"), self.endpoint, ManualClock())
        self.live: Handler = alive
        broker = EmbeddedBroker()
        broker.create_topic("out", 1)
        clients = EmbeddedClients(broker)
        self.admin = clients.admin({})
        self.id = f"app-{ONE}-0-1"
        client = member(f"{ONE}-0", self.endpoint).client_id
        consumer = clients.consumer({"group.id": "app", "group.instance.id": self.id, "client.id": client})
        consumer.subscribe(["out"], Listener())
        consumer.poll(0)
        producer = clients.producer({"transactional.id": self.id})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("out", b"v", b"k", 0, None, None, 5, None)
        producer.flush()
        owners: Any = SimpleNamespace(own=OWN, known=OwnerMap())
        options = HttpOptions(host="127.0.0.1", port=1, credentials=Credentials(folder / "own"))
        self.router = Router(owners, options, SYSTEM_THREADS)
        config = StreamsConfig.of({**BASE, "processing.guarantee": guarantee})
        self.watch = PeerWatch(config, OWN, self.router, lambda: self.admin, 0.5, ManualClock(), SYSTEM_THREADS)

    @property
    def is_taken_over(self) -> bool:
        return not self.admin.group_members("app")

    def run(self, play: Callable[[web.AppRunner], Awaitable[None]]) -> None:
        """Has the peer answer, and the worker watch it, while a function says what happens."""

        async def all_of_it() -> None:
            application = web.Application()
            application.add_routes([web.get(PEER_PATH, self._peer), web.get("/live", self._live)])
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            host, _, port = self.endpoint.rpartition(":")
            await web.TCPSite(runner, host, int(port)).start()
            watching = asyncio.create_task(self.watch.run())
            try:
                await play(runner)
            finally:
                watching.cancel()
                self.watch.close()
                await self.router.close()
                await runner.cleanup()

        asyncio.run(all_of_it())

    async def _live(self, request: web.Request) -> web.StreamResponse:
        return await self.live(request)

    async def _peer(self, request: web.Request) -> web.StreamResponse:
        found = self.proofs.answer(request.query["nonce"], request.query["code"])
        return web.json_response(found, status=401 if found is None else 200)


async def alive(request: web.Request) -> web.StreamResponse:
    return web.json_response({})


async def hanging(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(600)
    return web.json_response({})


async def until(what: str, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [one for one in caplog.records if one.message.startswith(event)]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "streams")
    return caplog


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_worker_whose_port_refuses_connections_is_taken_over(
    tmp_path: Path, logged: pytest.LogCaptureFixture, guarantee: str
) -> None:
    scene = Scene(tmp_path, guarantee)

    async def play(runner: web.AppRunner) -> None:
        await until("it is watched", lambda: lines(logged, "watches another worker"))
        await runner.cleanup()
        await until("it is taken over", lambda: scene.is_taken_over)

    scene.run(play)
    assert scene.admin.open_transactions() == ([] if guarantee == "exactly_once_v2" else [scene.id])
    (line,) = lines(logged, "a process is taken over")
    assert line.reason == f"worker {scene.endpoint}: its machine refuses connections to its port"


def test_a_silent_worker_is_taken_over(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    scene = Scene(tmp_path)

    async def play(runner: web.AppRunner) -> None:
        await until("it is watched", lambda: lines(logged, "watches another worker"))
        scene.live = hanging
        await until("it is taken over", lambda: scene.is_taken_over)

    scene.run(play)
    assert scene.admin.open_transactions() == []


def test_at_least_once_a_silent_worker_is_only_reported(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    scene = Scene(tmp_path, "at_least_once")

    async def play(runner: web.AppRunner) -> None:
        await until("it is watched", lambda: lines(logged, "watches another worker"))
        scene.live = hanging
        await until("it is reported", lambda: lines(logged, "a worker is silent"))

    scene.run(play)
    assert not scene.is_taken_over


async def refused(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503)


async def redirected(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/live")


@pytest.mark.parametrize("proxy", [refused, redirected])
def test_a_worker_behind_a_proxy_is_not_watched(
    tmp_path: Path, logged: pytest.LogCaptureFixture, proxy: Handler
) -> None:
    """Nothing follows from the answers of the proxy, nor from its end."""
    scene = Scene(tmp_path)

    async def play(runner: web.AppRunner) -> None:
        await until("it is watched", lambda: lines(logged, "watches another worker"))
        scene.live = proxy
        await until("that is reported", lambda: lines(logged, "a worker is not watched"))
        await runner.cleanup()
        await until("nothing listens", lambda: scene.watch.refusals > 1)

    scene.run(play)
    assert "is it a proxy" in lines(logged, "a worker is not watched")[0].reason
    assert len(lines(logged, "a worker is not watched")) == 1
    assert not scene.is_taken_over


def test_a_worker_without_the_token_is_not_watched(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    scene = Scene(tmp_path, peers_token=OTHER)

    async def play(runner: web.AppRunner) -> None:
        await until("that is reported", lambda: lines(logged, "a worker is not watched"))
        await runner.cleanup()
        await until("nothing listens", lambda: scene.watch.refusals > 1)

    scene.run(play)
    assert "does not take the token" in lines(logged, "a worker is not watched")[0].reason
    assert not scene.is_taken_over


def test_a_port_and_a_token_are_needed() -> None:
    for more in ({}, {"http.listen": "127.0.0.1:0"}, {"http.token.file": "/token"}):
        with pytest.raises(ConfigError, match=r"http.listen or http.token.file is not"):
            StreamsConfig.of({**BASE, "http.peer.timeout.ms": 1000, **more})
