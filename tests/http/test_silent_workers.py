"""A worker that takes connections and never answers: those who need it wait for some seconds, and no one else does."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any

import pytest

from http_support.asking import AT_ONCE, ask, free_port, lines
from processor_api.topology.partitioner import partition_for_key
from runtime_support.running_app import Cluster, counting
from streams.app.states import ClientState
from streams.config import StreamsConfig
from streams.http import peers
from streams.http.front import Front
from streams.http.peers import Peer, Silent
from waiting import wait_until

WORDS = [f"w{number:04}" for number in range(20)]
PARTITIONS = 2
MOST_S = 25.0
"""Far more than a request waits, and less than the port lets an answer take."""


def send(cluster: Cluster) -> None:
    producer = cluster.clients.producer({})
    for word in WORDS:
        producer.produce("in", word.encode(), word.encode(), -1, None, None, 1, None)
    producer.flush()


class Pair:
    """Two workers, one of which tells the address of a port that takes connections and never answers."""

    def __init__(self, cluster: Cluster, silent: socket.socket) -> None:
        self.address = f"127.0.0.1:{silent.getsockname()[1]}"
        self.port = free_port()
        self.app = cluster.app(counting(), AT_ONCE, http_listen=f"127.0.0.1:{self.port}")
        cluster.until_state(self.app, ClientState.RUNNING)
        self.other = cluster.app(counting(), application_server=self.address)
        cluster.until_state(self.other, ClientState.RUNNING)
        send(cluster)
        wait_until("each has a task", lambda: len(self.here()) == 1 and self.own_answer() == 200)

    def here(self) -> list[int]:
        found: list[int] = ask(self.port, "/stores/counts").json.get("here", [])
        return found

    def words(self, *, own: bool) -> list[str]:
        here = self.here()
        return [word for word in WORDS if (partition_for_key(word.encode(), PARTITIONS) in here) == own]

    def own_answer(self) -> int:
        return ask(self.port, f"/stores/counts/get?key={self.words(own=True)[0]}").status


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Cluster(tmp_path_factory.mktemp("silent"), partitions=PARTITIONS) as cluster,
    ):
        yield Pair(cluster, silent)


def timed(port: int, path: str) -> tuple[float, Any]:
    begun = time.monotonic()
    answer = ask(port, path)
    return time.monotonic() - begun, answer


def test_its_keys_are_503_with_its_name_after_some_seconds_and_then_at_once(pair: Pair) -> None:
    theirs = pair.words(own=False)[0]
    seconds, answer = timed(pair.port, f"/stores/counts/get?key={theirs}")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert f"worker {pair.address} has not responded for" in answer.json["error"]
    assert seconds < MOST_S
    quick = min(timed(pair.port, f"/stores/counts/get?key={theirs}")[0] for _ in range(5))
    assert quick < peers.SLOW_S + peers.LIVES_S
    for word in pair.words(own=True):
        assert ask(pair.port, f"/stores/counts/get?key={word}").json["value"] == 1


def test_a_range_is_503_or_names_what_it_lacks(pair: Pair) -> None:
    answer = ask(pair.port, "/stores/counts/range")
    assert answer.status == 503
    assert pair.address in answer.json["error"]
    found, last = lines(ask(pair.port, "/stores/counts/range?partial=true"))
    assert sorted(row["key"] for row in found) == sorted(pair.words(own=True))
    [missing] = last["missing"]
    assert pair.address in missing["error"]


def test_the_front_asks_another_worker_in_place_of_one_that_does_not_answer(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    port = free_port()
    given = {**AT_ONCE, "application.id": "app", "bootstrap.servers": "b:1", "http.listen": f"127.0.0.1:{port}"}
    front = Front(StreamsConfig.of(given), 2)
    front.start()
    try:
        with Cluster(tmp_path_factory.mktemp("front"), partitions=PARTITIONS) as cluster:
            pairs = dict(pair.split("=", 1) for pair in front.settings(0))
            listen = {"http.listen": f"fd:{os.dup(front.descriptor(0))}"}
            app = cluster.app(counting(), {**AT_ONCE, **pairs, **listen})
            cluster.until_state(app, ClientState.RUNNING)
            send(cluster)
            front.mark([True, False], False)
            wait_until("all are counted", lambda: ask(port, f"/stores/counts/get?key={WORDS[-1]}").status == 200)
            front.mark([True, True], True)  # the socket of the second one is there, and nobody behind it
            took = []
            for word in WORDS:
                seconds, answer = timed(port, f"/stores/counts/get?key={word}")
                assert (answer.status, answer.json.get("value")) == (200, 1)
                took.append(seconds)
            assert max(took) < MOST_S
            assert sorted(took)[len(took) // 2] < peers.SLOW_S
            answer = ask(port, "/workers/1/stores")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert "worker 1 has not responded for" in answer.json["error"]
            [missing] = ask(port, "/state").json["missing"]
            assert missing["worker"] == f"127.0.0.1:{port}/1"
            assert "it has not responded for" in missing["reason"] or "worker 1 has not responded" in missing["reason"]
            assert 'kafka_streams_ready{worker="1"} 0.0' in ask(port, "/metrics").text
    finally:
        front.close()


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Other:
    """A process that is asked; it does not answer until it goes on."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.times_asked = 0
        self.peer = Peer("there", self.lives, slow_s=0.02, lives_s=0.1)

    async def lives(self) -> None:
        self.times_asked += 1
        await self.goes_on.wait()

    async def ask(self) -> str:
        async with self.peer.asked():
            await self.goes_on.wait()
        return "answered"


@in_a_loop
async def test_all_who_wait_for_a_silent_worker_are_told_and_it_is_asked_once() -> None:
    other = Other()
    found = await asyncio.gather(*(other.ask() for _ in range(20)), return_exceptions=True)
    assert {type(one) for one in found} == {Silent}
    assert other.times_asked == 1
    with pytest.raises(Silent, match="worker there has not responded for"):
        await other.ask()
    await other.peer.close()


@in_a_loop
async def test_a_worker_that_goes_on_is_asked_again() -> None:
    other = Other()
    with pytest.raises(Silent):
        await other.ask()
    other.goes_on.set()
    async with asyncio.timeout(30):
        while True:
            try:
                assert await other.ask() == "answered"
                break
            except Silent:
                await asyncio.sleep(0)
    await other.peer.close()


@in_a_loop
async def test_an_answer_that_takes_long_is_waited_for_while_the_worker_lives() -> None:
    asked = 0

    async def lives() -> None:
        nonlocal asked
        asked += 1

    peer = Peer("there", lives, slow_s=0.01, lives_s=0.1)
    async with asyncio.timeout(30), peer.asked():
        while asked < 5:
            await asyncio.sleep(0)
    await peer.close()


@in_a_loop
async def test_the_error_of_a_request_is_its_own() -> None:
    peer = Peer("there", asyncio.Event().wait)
    with pytest.raises(TimeoutError):
        async with peer.asked(), asyncio.timeout(0):
            await asyncio.Event().wait()
    with pytest.raises(ValueError, match="mine"):
        async with peer.asked():
            raise ValueError("mine")
    assert not peer.is_silent
    await peer.close()


@in_a_loop
async def test_no_more_than_some_wait_for_a_worker_of_which_nothing_is_heard() -> None:
    other = Other()
    asked = [asyncio.create_task(other.ask()) for _ in range(peers.MOST_WAITING)]
    async with asyncio.timeout(30):
        while not other.times_asked:
            await asyncio.sleep(0)
    with pytest.raises(Silent):
        await other.ask()
    other.goes_on.set()
    assert set(await asyncio.gather(*asked)) == {"answered"}
    await other.peer.close()
