"""The live page's files, picture and snapshots, as a browser asks for them."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dsl import StreamsBuilder
from http_support.asking import ask, free_port, listening
from processor_api.topology.topology import Topology
from runtime_support.running_app import CLOSE_TIMEOUT, Cluster, counting
from streams.drawing.drawn import drawn
from streams.drawing.graph import graph_of
from streams.http.page.live import MOST_PAGES, is_silent, snapshot
from streams.http.server import CLOSE_S
from streams.observing.application import ApplicationStatus, application_status
from streams.observing.status import (
    BrokerStatus,
    CopyingStatus,
    DropStatus,
    NodeStatus,
    SnapshotStatus,
    TaskStatus,
    WorkerStatus,
)
from waiting import wait_until

PAGE = Path(__file__).parents[2] / "streams" / "http" / "page"


def started(cluster: Cluster, topology: Topology | None = None, **settings: object) -> int:
    port = free_port()
    cluster.start(topology or counting(), **listening(port), **settings)
    return port


class Page:
    """An open page, as the port sees it."""

    def __init__(self, port: int, path: str = "/events") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request("GET", path)
        self.answer = self._connection.getresponse()

    def event(self) -> Any:
        line = self.answer.readline()
        assert line.startswith(b"data: ")
        assert self.answer.readline() == b"\n"
        return json.loads(line[6:])

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *error: object) -> None:
        self.answer.close()
        self._connection.close()


def test_the_files_name_nothing_elsewhere_and_forbid_the_browser_to_load_it(cluster: Cluster) -> None:
    port = started(cluster)
    for path, kind in {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}.items():
        answer = ask(port, path)
        assert (answer.status, answer.headers.get_content_type()) == (200, kind)
        assert "default-src 'none'; script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", answer.text) == []


def test_the_script_makes_no_elements_of_text() -> None:
    """Names, keys and values are those of strangers."""
    script = (PAGE / "page.js").read_text()
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(", script) == []


def test_snapshots_are_the_same_for_all_pages(cluster: Cluster) -> None:
    port = started(cluster)
    with Page(port) as one, Page(port) as other:
        assert one.event() == other.event()
        cluster.send("a", "b")
        wait_until("a page sees them", lambda: sum(task["processed"] for task in one.event()["tasks"]) == 2)


def test_one_page_too_many_is_refused_with_the_reason(cluster: Cluster) -> None:
    port = started(cluster)
    with ExitStack() as stack:
        pages = [stack.enter_context(Page(port)) for _ in range(MOST_PAGES)]
        assert [page.answer.status for page in pages] == [200] * MOST_PAGES
        refused = ask(port, "/events")
        message = f"{MOST_PAGES} live pages are open, which is the limit: close one"
        assert (refused.status, refused.json) == (503, {"error": message})

    def opened() -> bool:
        with Page(port) as page:
            return page.answer.status == 200

    wait_until("a place is free", opened)


def test_the_port_closes_at_once_while_pages_are_open(cluster: Cluster) -> None:
    port = started(cluster)
    with Page(port) as page:
        page.event()
        began = time.monotonic()
        assert cluster.last.close(CLOSE_TIMEOUT)
        assert time.monotonic() - began < CLOSE_S
        while page.answer.readline():
            pass


def test_the_page_needs_no_token_and_its_figures_do(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-this-test")
    port = started(cluster, http_token_file=str(file))
    assert [ask(port, path).status for path in ("/", "/page.js", "/page.css")] == [200] * 3
    assert [ask(port, path).status for path in ("/events", "/page/topology")] == [401] * 2
    assert ask(port, "/page/topology", Authorization="Bearer a-token-of-this-test").status == 200


def test_a_page_that_does_not_read_does_not_hold_up_the_others(cluster: Cluster) -> None:
    port = started(cluster)
    with socket.create_connection(("127.0.0.1", port)) as silent, Page(port) as page:
        silent.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert len({page.event()["at_ms"] for _ in range(3)}) == 3


def test_a_subtopology_is_drawn_as_one_box_with_its_links(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    words = builder.stream("in").group_by(lambda key, value: value)
    words.count(materialized="counts").to_stream().map_values(str).to("out")
    topology = builder.build()
    port = started(cluster, topology)
    picture = ask(port, "/page/topology?collapsed=Sub-topology%200&collapsed=unknown").json
    kinds = {box["name"]: box["kind"] for box in picture["boxes"]}
    assert kinds["Sub-topology 0"] == "subtopology"
    assert [frame["title"] for frame in picture["frames"]] == ["Sub-topology 1"]
    names = {box["id"]: box["name"] for box in picture["boxes"]}
    ends = {(names[line["source"]], names[line["target"]]) for line in picture["lines"]}
    assert {("in", "Sub-topology 0"), ("Sub-topology 0", "counts-repartition")} <= ends
    inside = {box["name"] for boxes in picture["groups"].values() for box in boxes}
    assert inside == {*topology.nodes, "counts"}


def test_a_box_shows_the_call_or_the_name_and_has_room_for_it() -> None:
    builder = StreamsBuilder()
    builder.stream("in").filter(lambda key, value: True).to("out")
    graph = graph_of(builder.build())
    [by_call] = [box for box in drawn(graph)["boxes"] if "FILTER" in box["name"]]
    [by_name] = [box for box in drawn(graph, names=True)["boxes"] if "FILTER" in box["name"]]
    assert by_call["title"] == ["filter(lambda)"]
    assert by_call["small"].startswith("…") or by_call["small"].startswith("test_live_page.py:")
    assert "".join(by_name["title"]) == by_name["name"]
    assert by_name["small"] == "filter(lambda)"


def task(
    number: int, rate: float, *nodes: NodeStatus, processed: int = 1, drops: Iterable[DropStatus] = ()
) -> TaskStatus:
    return TaskStatus(
        id=f"0_{number}",
        thread="t",
        state="RUNNING",
        processed=processed,
        rate=rate,
        stream_time_ms=None,
        dropped=0,
        nodes=nodes,
        drops=tuple(drops),
    )


def node(name: str, records: int | None, rate: float | None = None, share: float | None = None) -> NodeStatus:
    return NodeStatus(name=name, call="map(f)", made_at="a.py:1", records=records, rate=rate, time_share=share)


def worker(*tasks: TaskStatus, ready: bool = True, paused: bool = False) -> WorkerStatus:
    return WorkerStatus(
        application_id="a",
        client_id="c",
        host="h",
        pid=1,
        version="0",
        at_ms=0,
        started_at_ms=None,
        state="RUNNING",
        ready=ready,
        paused=paused,
        failure=None,
        tasks=tasks,
    )


def of(*workers: WorkerStatus) -> ApplicationStatus:
    return application_status("a", workers)


def test_a_snapshot_adds_up_nodes_and_dropped_records_over_the_tasks() -> None:
    def drop(count: int, late_by_ms: int | None) -> DropStatus:
        return DropStatus(
            node="n",
            call=None,
            made_at=None,
            reason="late",
            text="it came late",
            remedy="a longer grace",
            count=count,
            dropped=True,
            expected=False,
            late_by_ms=late_by_ms,
        )

    one = task(0, 30.0, node("n", 5, 3.0, 0.5), node("unknown", None), drops=[drop(2, 70)])
    other = task(1, 10.0, node("n", 5, 1.0, 0.1), drops=[drop(3, None)])
    found = snapshot(of(worker(one, other)))
    of_two = snapshot(of(worker(one), replace(worker(other), pid=2)))
    assert all(found[name] == of_two[name] for name in ("nodes", "drops", "errors"))
    assert [task["worker"] for task in of_two["tasks"]] == ["h:1", "h:2"]
    assert (found["brokers"], found["global_tasks"]) == ([], [])
    assert found["nodes"] == {"n": [10, 4.0, 0.4]}
    assert [(one["count"], one["late_by_ms"]) for one in found["drops"]] == [(5, 70)]
    json.dumps(found, allow_nan=False)


def test_a_snapshot_has_what_tasks_write_and_copy() -> None:
    written = SnapshotStatus(made_ms=7, size=8, elapsed_ms=9, failures=0)
    copying = CopyingStatus(bytes=1, size=2)
    found = snapshot(of(worker(replace(task(0, 1.0), snapshot=written), replace(task(1, 1.0), copying=copying))))
    first, second = found["tasks"]
    assert (first["snapshot"]["made_ms"], first["copying"]) == (7, None)
    assert (second["snapshot"], second["copying"]) == (None, {"bytes": 1, "size": 2})
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("status", "earlier", "silent"),
    [
        (worker(ready=False), None, True),
        (worker(paused=True), None, True),
        (worker(task(0, 0.0)), None, False),
        (worker(task(0, 0.0, processed=7)), worker(task(0, 0.0, processed=7)), True),
        (worker(task(0, 0.0, processed=8)), worker(task(0, 0.0, processed=7)), False),
        (worker(task(0, 0.0, node("sink", 3), processed=900)), worker(task(0, 0.0, node("sink", 3))), True),
        (worker(task(0, 0.0, node("sink", 3), processed=90)), worker(task(0, 0.0, node("sink", 3))), False),
        (worker(task(0, 0.0, node("sink", 4), processed=900)), worker(task(0, 0.0, node("sink", 3))), False),
        (worker(task(0, 0.0, node("other", 3), processed=900)), worker(task(0, 0.0, node("other", 3))), False),
    ],
)
def test_a_worker_is_silent_when_nothing_comes_out(
    status: WorkerStatus, earlier: WorkerStatus | None, silent: bool
) -> None:
    assert is_silent(of(status), None if earlier is None else of(earlier), {"sink"}) == silent


def test_a_paused_worker_says_so_on_its_page(cluster: Cluster) -> None:
    port = started(cluster)
    cluster.last.pause()
    with Page(port) as page:
        [reason] = page.event()["reasons"]
        assert (reason["cause"], reason["text"]) == ("paused", "the application is paused")
    cluster.last.resume()
    with Page(port) as page:
        wait_until("it runs", lambda: page.event()["reasons"] == [])


def test_it_lists_the_workers_of_the_application_with_their_tasks(cluster: Cluster) -> None:
    ports = [started(cluster), started(cluster)]

    def listed(page: Page) -> list[tuple[str, int]]:
        return [(one["endpoint"], one["totals"]["tasks"]) for one in page.event()["workers"]]

    expected = [(f"http://127.0.0.1:{port}", 1) for port in sorted(ports, key=str)]
    for port in ports:
        with Page(port) as page:
            wait_until("both have a task", lambda page=page: listed(page) == expected)
        with Page(port, "/events?worker=self") as page:
            assert listed(page) == [(f"http://127.0.0.1:{port}", 1)]


def test_brokers_and_what_fills_global_stores_are_in_a_snapshot() -> None:
    broker = BrokerStatus(
        id=1,
        address="b1:9092",
        connected=1,
        unreachable=0,
        partitions=2,
        latency_ms=1.5,
        latency_p99_ms=None,
        queued=0,
        unanswered=0,
        disconnects=0,
    )
    found = snapshot(of(replace(worker(), brokers=(broker,), global_task=task(7, 1.0, node("source", 4)))))
    assert [one["address"] for one in found["brokers"]] == ["b1:9092"]
    assert [one["id"] for one in found["global_tasks"]] == [task(7, 1.0).id]
    assert found["nodes"]["source"][0] == 4
    json.dumps(found, allow_nan=False)
