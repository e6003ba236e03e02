"""The live page in a real browser: what a person sees, clicks and types."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsl import StreamsBuilder
from http_support.asking import free_port, listening
from http_support.browser import CHROMIUM, Browser
from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import CLOSE_TIMEOUT, Cluster, counting
from streams.app.kafka_streams import KafkaStreams
from streams.http.application.look import ApplicationLook
from streams.http.options import HttpOptions
from streams.http.page.live import LivePage
from streams.http.processor_share import ProcessorShare
from streams.http.routing import Router
from streams.http.server import HttpAnswers, HttpServer
from streams.observing.application import ApplicationStatus, MissingWorker, application_status
from streams.observing.status import DropStatus, NodeStatus, TaskStatus, WorkerStatus
from streams.queries.owners import OwnerMap
from streams.threads import SYSTEM_THREADS

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser is here: apt-get install chromium")

HOSTILE = "<img src=x onerror=\"window.broken=1\"> \u202e\u05d0\u05d1 & 'more'"
SINK = "add_sink(out)"
EVENTS = ("Network.requestWillBeSent", "Runtime.exceptionThrown", "Log.entryAdded")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


class Keeping(Processor):
    """Keeps the latest value of each key."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.get_state_store(HOSTILE)

    def process(self, record: Record) -> None:
        self.store.put(record.key, record.value)
        self.context.forward(record)


def topology() -> Topology:
    """Has names that try to be more than text."""
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store(HOSTILE), Serdes.STRING, Serdes.STRING)
    made = Topology().add_source("source", "in").add_processor(HOSTILE, Keeping, "source")
    return made.add_state_store(store.with_logging_disabled(), HOSTILE).add_sink("sink", "out", HOSTILE)


@pytest.fixture
def opened(cluster: Cluster, browser: Browser) -> Iterator[Callable[[], KafkaStreams]]:
    """Opens the page of a worker; each call starts one on the same port."""
    port = free_port()

    def start() -> KafkaStreams:
        return cluster.start(topology(), **listening(port))

    start()
    browser.events.clear()
    browser.open(f"http://127.0.0.1:{port}/")
    browser.until("document.querySelectorAll('.box').length === 6")
    yield start
    asked = {event["params"]["request"]["url"] for event in browser.events if event["method"] == EVENTS[0]}
    assert {url for url in asked if not url.startswith(("http://127.0.0.1:", "data:,"))} == set()
    faults = [event for event in browser.events if event["method"] in EVENTS[1:]]
    assert [fault for fault in faults if fault["params"].get("entry", {}).get("source") != "network"] == []
    assert browser.run("window.broken") is None
    browser.open("about:blank")


def box(kind: str) -> str:
    return f".box.{kind}"


def text(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)}).textContent"


def test_it_shows_what_flows_and_which_code_a_node_runs(
    opened: Callable[[], KafkaStreams], cluster: Cluster, browser: Browser
) -> None:
    """Nothing is asked of another host."""
    browser.until(f"{text('#totals')}.includes('Records0/s')")
    cluster.send("a", "b", "c")
    browser.until(f"!{text('#totals')}.includes('Records0/s')")
    browser.until("[...document.querySelectorAll('.label')].some((label) => label.textContent.includes('/s'))")
    assert browser.until("document.querySelectorAll('.line.busy').length") >= 1
    browser.click(box("processor"))
    browser.until("!document.querySelector('#details').hidden")
    assert HOSTILE in browser.run(text("#facts"))
    browser.key("Escape")
    browser.until("document.querySelector('#details').hidden")


def test_the_last_snapshot_of_a_task_is_told(cluster: Cluster, browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    given = {"state.snapshot.dir": str(tmp_path / "snapshots"), "state.snapshot.interval.ms": "50"}
    cluster.start(counting(), **listening(port), **{name.replace(".", "_"): value for name, value in given.items()})
    cluster.send("a")
    browser.open(f"http://127.0.0.1:{port}/")
    browser.until(f"/snapshot .* ago, /.test({text('#table')})")
    browser.open("about:blank")


def test_a_store_is_asked_and_strange_keys_and_values_are_text(
    opened: Callable[[], KafkaStreams], cluster: Cluster, browser: Browser
) -> None:
    cluster.send(HOSTILE, key=HOSTILE)
    cluster.until_out(HOSTILE)
    browser.click(box("store"))
    browser.until("!document.querySelector('#query').hidden")
    browser.run(f"document.querySelector('#query input').value = {json.dumps(HOSTILE)}")
    browser.click("#query button")
    assert browser.until(
        "document.querySelector('#answer td') && document.querySelector('#answer td').textContent"
    ) == (HOSTILE)
    browser.run(
        "(() => { const read = document.querySelector('#query select'); read.value = 'range';"
        " read.dispatchEvent(new Event('change')); document.querySelector('#query button').click(); })()"
    )
    browser.until(f"{text('#answer')}.includes('1 row')")
    assert browser.run("document.querySelectorAll('#answer img, #details img, #canvas img').length") == 0
    browser.run("document.querySelector('#query select').value = 'get'")
    browser.run("document.querySelector('#query select').dispatchEvent(new Event('change'))")
    browser.run("document.querySelector('#query input').value = 'nobody'")
    browser.click("#query button")
    browser.until(f"{text('#answer')}.includes('the key does not exist')")


def test_it_says_that_a_worker_has_ended_and_goes_on_with_the_next(
    opened: Callable[[], KafkaStreams], cluster: Cluster, browser: Browser
) -> None:
    assert cluster.last.close(CLOSE_TIMEOUT)
    browser.until("!document.querySelector('#notice').hidden && document.body.className === 'gone'")
    assert "has not responded" in browser.run(text("#notice"))
    opened()
    browser.until("document.querySelector('#notice').hidden && document.body.className === ''")
    browser.until(f"{text('#state')} === 'running'")


class Failed:
    """An application that has failed, and whose port still answers, as in the moment before it ends."""

    def __init__(self, app: KafkaStreams) -> None:
        self.topology = app.topology
        self._status = replace(app.status(), state="PENDING_ERROR", ready=False, failure="ValueError: it is broken")

    def status(self) -> WorkerStatus:
        return self._status


@contextmanager
def served(application: Any, look: Any = None) -> Iterator[int]:
    """The port of a page that shows an application, or the statuses that a look has."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    pace = ProcessorShare(1.0)
    options = HttpOptions(host="127.0.0.1", port=port)
    owners: Any = SimpleNamespace(own=None, known=OwnerMap(), current=lambda max_age_s: OwnerMap())
    look = look or ApplicationLook(application, Router(owners, options, SYSTEM_THREADS), SYSTEM_THREADS)
    page = LivePage(application, look, pace)
    server = HttpServer(HttpAnswers(routes=page.routes(), pace=pace, at_end=page.close), listener, options)
    server.start()
    try:
        yield port
    finally:
        server.close()


def test_it_says_once_why_the_worker_failed(cluster: Cluster, browser: Browser) -> None:
    failed: Any = Failed(cluster.start(topology()))
    with served(failed) as port:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.until("document.querySelector('#state').textContent === 'failed'")
        assert browser.run("document.body.innerText.split('it is broken').length - 1") == 1
        assert browser.run(text("#notice")) == (
            "The worker failed: ValueError: it is broken. Remove the cause, and start it again."
        )
        browser.open("about:blank")


class LargeApplication:
    """60 nodes, and 400 tasks on eight workers; a ninth one does not respond."""

    def __init__(self) -> None:
        builder = StreamsBuilder(key_serde="string", value_serde="string")
        for number in range(10):
            stream = builder.stream(f"in-{number}").filter(lambda key, value: True).map_values(str)
            stream.filter(lambda key, value: True).map_values(str).to(f"out-{number}")
        self.topology = builder.build()
        self.rounds = 0

    async def own(self) -> ApplicationStatus:
        return self._status()

    async def latest(self) -> ApplicationStatus:
        return self._status()

    async def made(self, make: Callable[[], bytes]) -> bytes:
        return make()

    def _status(self) -> ApplicationStatus:
        self.rounds += 1
        workers = [self._worker(number) for number in range(8)]
        silent = MissingWorker(worker="10.0.0.9:8080/1", reason="it has not responded for 7 s")
        return application_status("an-application-with-a-long-name", workers, [silent])

    def _worker(self, number: int) -> WorkerStatus:
        return WorkerStatus(
            application_id="an-application-with-a-long-name",
            client_id=f"app-{number}",
            host="orders-7d9f8b6c5",
            pid=70_000 + number,
            version="1",
            at_ms=1000 * self.rounds,
            started_at_ms=0,
            state="RUNNING",
            ready=number != 3,
            paused=False,
            failure=None,
            endpoint="javascript:window.broken=1" if number == 0 else f"http://127.0.0.1:1/workers/{number}",
            tasks=tuple(self._task(number, at) for at in range(50)),
        )

    def _task(self, worker: int, at: int) -> TaskStatus:
        node = "KSTREAM-FILTER-0000000001"
        drop = DropStatus(node=node, call=None, made_at=None, reason="late", count=1, text="it came late")
        names = list(self.topology.nodes)[at % 10 * 6 : at % 10 * 6 + 6]
        return TaskStatus(
            id=f"{at % 10}_{worker * 5 + at // 10}",
            thread=f"app-{worker}-StreamThread-1",
            state="RESTORING" if worker == 3 else "RUNNING",
            processed=100 * self.rounds,
            rate=12.5,
            stream_time_ms=1000,
            dropped=1,
            dead_letters=2,
            drops=(drop,),
            nodes=tuple(
                NodeStatus(name=name, call=None, made_at=None, records=self.rounds, rate=1.0, time_share=0.1)
                for name in names
            ),
        )


@pytest.mark.parametrize("width", [500, 1280])
def test_a_large_application_with_a_silent_worker_is_shown_whole(browser: Browser, width: int) -> None:
    large: Any = LargeApplication()
    assert len(large.topology.nodes) == 60
    with served(large, large) as port:
        browser.picture(width, 900, dark=True)
        browser.open(f"http://127.0.0.1:{port}/")
        browser.until("document.querySelectorAll('#table tbody').length === 400")
        totals = browser.run(text("#totals"))
        shown = ("Dropped400", "Dead letters800", "Tasks400", "Restoring50", "Workers8 of 9")
        assert [part for part in shown if part not in totals] == []
        assert browser.run(text("#state")) == "7 of 9 workers running"
        assert browser.run(text("#missing")) == (
            "The figures of one worker are missing: 10.0.0.9:8080/1 (it has not responded for 7 s)."
        )
        assert browser.run("document.querySelectorAll('.box.processor, .box.source, .box.sink').length") == 60
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        browser.click("#tab-workers")
        browser.until("document.querySelectorAll('#table tbody').length === 9")
        assert browser.run("document.querySelectorAll('#table tbody.fault').length") == 1
        links = browser.run("[...document.querySelectorAll('#table a')].map((link) => link.getAttribute('href'))")
        assert links[:3] == [None, None, "http://127.0.0.1:1/workers/1/?worker=self"]
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        table = "document.querySelector('#table')"
        assert browser.run(f"{table}.scrollWidth <= {table}.clientWidth")
        browser.open("about:blank")


def test_all_can_be_done_by_keyboard(opened: Callable[[], KafkaStreams], browser: Browser) -> None:
    browser.key("/")
    assert browser.run("document.activeElement.id") == "search"
    for letter in "sink":
        browser.key(letter)
    browser.until("document.querySelectorAll('.box.match').length === 1")
    browser.key("Enter")
    assert browser.until("document.activeElement.id === 'details-name' && document.activeElement.textContent") == SINK
    browser.key("Escape")
    browser.run("document.querySelector('.box[tabindex=\"0\"]').focus()")
    first = browser.run("document.activeElement.dataset.name")
    browser.key("ArrowDown")
    assert browser.run("document.activeElement.dataset.name") != first
    browser.key("Enter")
    browser.until("!document.querySelector('#details').hidden")
    assert browser.run("document.querySelectorAll('button:not([aria-label]):empty').length") == 0


def test_it_leads_to_the_pages_of_the_other_workers(opened: Callable[[], KafkaStreams], browser: Browser) -> None:
    browser.click("#tab-workers")
    browser.until("document.querySelector('#table a').href === location.href + '?worker=self'")
    browser.open(browser.run("document.querySelector('#table a').href"))
    browser.until(f"!document.querySelector('#all').hidden && {text('#state')} === 'running'")
    browser.open(browser.run("document.querySelector('#all').href"))
    browser.until(f"document.querySelector('#all').hidden && {text('#state')} === 'running'")


def test_subtopologies_fold_and_names_are_those_of_java(opened: Callable[[], KafkaStreams], browser: Browser) -> None:
    browser.click("#collapse")
    browser.until("document.querySelectorAll('.box.subtopology').length === 1")
    browser.click("#collapse")
    browser.until("document.querySelectorAll('.box').length === 6")
    browser.click("#names")
    browser.until("document.querySelector('#names').getAttribute('aria-pressed') === 'true'")
    browser.click("#names")
    browser.until("document.querySelector('#names').getAttribute('aria-pressed') === 'false'")
