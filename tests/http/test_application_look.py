"""A worker asks the others for their status while somebody looks, and names those that do not answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from http_support.asking import AT_ONCE, ask, free_port, listening
from processor_api.errors import StreamsError
from runtime_support.running_app import Cluster, counting
from streams.app.states import ClientState
from streams.http.application.look import EVERY_S, ApplicationLook, missing_workers
from streams.http.options import HttpOptions
from streams.http.routing import Router
from streams.kafka.membership.group_picture import GroupProcess, process_of
from streams.observing.answers import status_json
from streams.observing.status import TaskStatus, WorkerStatus
from streams.queries.owners import OwnerMap
from streams.threads import SYSTEM_THREADS
from waiting import wait_until

OWN = "127.0.0.1:1"


def worker(number: int) -> WorkerStatus:
    return WorkerStatus(
        application_id="app",
        client_id=f"app-{number}",
        host="here",
        pid=number,
        version="1",
        at_ms=1000,
        started_at_ms=0,
        state="RUNNING",
        ready=True,
        paused=False,
        failure=None,
    )


class Others:
    """A group whose other workers answer as a test wants, each on a port of its own."""

    def __init__(self) -> None:
        self.endpoints: list[str] = []
        self.asked: list[str] = []
        self.owners: Any = SimpleNamespace(own=OWN, known=OwnerMap(), current=self.current)
        self.failure: StreamsError | None = None
        self._runners: list[web.AppRunner] = []

    def current(self, max_age_s: float) -> OwnerMap:
        if self.failure is not None:
            raise self.failure
        found = [GroupProcess(f"app-{number}", one) for number, one in enumerate([OWN, *self.endpoints])]
        self.owners.known = OwnerMap(processes=frozenset(found))
        return self.owners.known  # type: ignore[no-any-return]

    async def add(self, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        async def asked(request: web.Request) -> web.StreamResponse:
            self.asked.append(request.path_qs)
            return await answer(request)

        application = web.Application()
        application.add_routes([web.route("*", "/{path:.*}", asked)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", port := free_port()).start()
        self.endpoints.append(f"127.0.0.1:{port}")
        return self.endpoints[-1]

    def answering(self, number: int) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(text=status_json(worker(number)))

        return answer

    @asynccontextmanager
    async def look(self) -> AsyncIterator[ApplicationLook]:
        config = SimpleNamespace(application_id="app")
        application: Any = SimpleNamespace(status=lambda: worker(0), config=config)
        router = Router(self.owners, HttpOptions(host="127.0.0.1", port=1), SYSTEM_THREADS)
        look = ApplicationLook(application, router, SYSTEM_THREADS)
        try:
            yield look
        finally:
            await look.close()
            await router.close()
            for runner in self._runners:
                await runner.cleanup()


def run(test: Callable[[Others], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await test(Others())

    asyncio.run(limited())


async def without_end(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(bytes(1 << 16))


async def of_another_version(request: web.Request) -> web.StreamResponse:
    return web.json_response({"client_id": "app-1", "version": 7})


async def of_another_application(request: web.Request) -> web.StreamResponse:
    return web.Response(text=status_json(replace(worker(1), application_id="other")))


def with_rate(rate: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    task = TaskStatus(id="0_0", thread="t", state="RUNNING", processed=1, rate=7.25, stream_time_ms=None, dropped=0)
    text = status_json(replace(worker(1), tasks=(task,)))

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text.replace("7.25", rate))

    return answer


async def of_something_else(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>")


async def refusing(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": "no worker runs now"}, status=503)


async def redirecting(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/")


async def with_an_error_of_another_form(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": ["no"]}, status=500)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (without_end, "answers with more than 16 MiB"),
        (of_another_version, "it runs another version of this library: "),
        (of_another_application, "it is a worker of another application, 'other'"),
        (with_rate("NaN"), "it responds with a number that JSON does not have"),
        (with_rate("1e999"), "it responds with a number that JSON does not have"),
        (with_rate('"nan"'), "it runs another version of this library: "),
        (of_something_else, "it is not the HTTP port of a worker"),
        (refusing, "no worker runs now"),
        (redirecting, "it responds with status 302"),
        (with_an_error_of_another_form, "it responds with status 500"),
    ],
)
def test_a_worker_that_does_not_answer_well_is_named_with_the_reason(answer: Any, reason: str) -> None:
    async def test(others: Others) -> None:
        endpoint, _ = await others.add(answer), await others.add(others.answering(2))
        async with others.look() as look:
            found = await look.latest()
            while found.totals.workers < 2 or "not responded" in found.missing[0].reason:  # on a busy machine
                await pause(look)
                found = await look.latest()
            assert [one.worker for one in found.missing] == [endpoint]
            assert reason in found.missing[0].reason
            assert [one.client_id for one in found.workers] == ["app-0", "app-2"]
            assert (found.totals.workers, found.ready) == (2, False)

    run(test)


def test_a_worker_that_still_owes_an_answer_is_named_and_not_asked_again() -> None:
    async def test(others: Others) -> None:
        never = asyncio.Event()

        async def silent(request: web.Request) -> web.StreamResponse:
            await never.wait()
            return web.Response()

        endpoint, _ = await others.add(silent), await others.add(others.answering(2))
        async with others.look() as look:
            for _ in range(3):
                found = await look.latest()
                assert [(one.worker, one.reason.partition(" for ")[0]) for one in found.missing] == [
                    (endpoint, "it has not responded")
                ]
                await pause(look)
            assert others.asked.count("/state?worker=self") == 1 + 3

    run(test)


async def pause(look: ApplicationLook) -> None:
    """Returns when another look is due."""
    while not look.is_due:
        await asyncio.sleep(0)


def test_nobody_is_asked_while_nobody_looks_and_all_who_look_share_an_answer() -> None:
    async def test(others: Others) -> None:
        await others.add(others.answering(1))
        async with others.look() as look:
            assert others.asked == []
            found = await asyncio.gather(*(look.latest() for _ in range(20)))
            assert len({id(one) for one in found}) == 1
            assert await look.latest() is found[0], "another look is not due yet"
            assert others.asked == ["/state?worker=self"]
            await pause(look)
            assert others.asked == ["/state?worker=self"]
            assert (await look.latest()).totals.workers == 2
            assert len(others.asked) == 2
            assert EVERY_S > 0.9

    run(test)


def test_a_worker_that_is_late_keeps_its_last_figures_for_some_seconds() -> None:
    async def test(others: Others) -> None:
        goes_on = asyncio.Event()
        goes_on.set()

        async def answer(request: web.Request) -> web.StreamResponse:
            await goes_on.wait()
            return web.Response(text=status_json(worker(1)))

        await others.add(answer)
        async with others.look() as look:
            assert (await look.latest()).totals.workers == 2
            goes_on.clear()
            await pause(look)
            late = await look.latest()
            assert (late.totals.workers, late.missing) == (2, ())
            goes_on.set()

    run(test)


def test_a_group_that_cannot_be_read_is_named() -> None:
    async def test(others: Others) -> None:
        others.failure = StreamsError("the coordinator does not respond")
        async with others.look() as look:
            found = await look.latest()
            assert [one.client_id for one in found.workers] == ["app-0"]
            [missing] = found.missing
            assert missing.worker == "of other machines"
            assert "the coordinator does not respond" in missing.reason

    run(test)


def test_processes_of_the_group_without_an_address_or_with_that_of_another_are_named() -> None:
    own, other = worker(0), worker(1)
    processes = [
        GroupProcess("app-0", OWN),
        GroupProcess("app-1", "b:1"),
        GroupProcess("app-2", "b:1"),
        GroupProcess("app-3", None),
        GroupProcess("app-4", "c:1"),
        GroupProcess("app-5", OWN),
    ]
    found = {one.worker: one.reason for one in missing_workers(own, OWN, processes, {"b:1": other, "c:1": "silent"})}
    assert found.keys() == {"app-2", "app-3", "app-5", "c:1"}
    assert found["app-2"].startswith("worker app-1 responds at its address b:1")
    assert found["app-3"].startswith("it does not have an HTTP port that others reach")
    assert found["app-5"].startswith(f"worker app-0 responds at its address {OWN}")
    alone = [GroupProcess("app-0", None), GroupProcess("app-1", None)]
    assert [one.worker for one in missing_workers(own, None, alone, {})] == ["app-1"]


@pytest.mark.parametrize(
    ("client_id", "process"),
    [
        ("app-1@h:80/2-StreamThread-3-consumer-topology-abc", GroupProcess("app-1", "h:80/2")),
        ("app-1#zone=a@h:80-StreamThread-3-consumer-topology-abc", GroupProcess("app-1", "h:80")),
        ("app-1-StreamThread-3-consumer-topology-abc", GroupProcess("app-1", None)),
        ("something else", GroupProcess("something else", None)),
    ],
)
def test_the_process_of_a_member_is_in_its_client_id(client_id: str, process: GroupProcess) -> None:
    assert process_of(client_id) == process


# ------------------------------------------------------------------ workers of a group


TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", partitions=3) as found:
        yield found


def whole(port: int, **headers: str) -> Any:
    return ask(port, "/state", **headers).json


def test_each_worker_shows_all_and_names_one_without_a_port(cluster: Cluster, tmp_path: Path) -> None:
    (path := tmp_path / "token").write_text(TOKEN)
    ports = [free_port(), free_port()]
    apps = [cluster.app(counting(), **listening(port), http_token_file=str(path)) for port in ports]
    for app in apps:
        cluster.until_state(app, ClientState.RUNNING)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for port in ports:
        wait_until("both are shown", lambda port=port: whole(port, **bearer)["totals"]["tasks"] == 3)
        found = whole(port, **bearer)
        assert {one["client_id"] for one in found["workers"]} == {app.status().client_id for app in apps}
        assert (found["missing"], found["ready"]) == ([], True)
    hidden = cluster.app(counting())
    cluster.until_state(hidden, ClientState.RUNNING)
    name = hidden.status().client_id
    for port in ports:
        wait_until(
            "it is named", lambda port=port: [one["worker"] for one in whole(port, **bearer)["missing"]] == [name]
        )
        assert whole(port, **bearer)["totals"]["tasks"] < 3


def test_a_worker_of_another_token_is_named_and_gets_none(cluster: Cluster, tmp_path: Path) -> None:
    ports = []
    for number in range(2):
        (path := tmp_path / f"token-{number}").write_text(f"{TOKEN}-{number}")
        ports.append(free_port())
        app = cluster.app(counting(), **listening(ports[-1]), http_token_file=str(path))
        cluster.until_state(app, ClientState.RUNNING)
    bearer = {"Authorization": f"Bearer {TOKEN}-0"}
    wait_until("it is named", lambda: whole(ports[0], **bearer)["missing"] != [])
    [missing] = whole(ports[0], **bearer)["missing"]
    assert missing["worker"] == f"127.0.0.1:{ports[1]}"
    assert "it does not take the token of this worker" in missing["reason"]


def test_a_worker_that_takes_connections_and_never_answers_is_named(cluster: Cluster) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster.until_state(cluster.app(counting(), **listening(port)), ClientState.RUNNING)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        cluster.until_state(cluster.app(counting(), AT_ONCE, application_server=address), ClientState.RUNNING)
        wait_until("it is named", lambda: [one["worker"] for one in whole(port)["missing"]] == [address])
