"""The one port of a supervisor, before workers that run here in one process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus

from http_support.asking import AT_ONCE, ask, free_port, sent
from runtime_support.running_app import Cluster, counting
from streams.app.states import ClientState
from streams.config import StreamsConfig
from streams.http.front import Front
from streams.remote import RemoteStreams
from waiting import wait_until

WORDS = [f"w{number:04}" for number in range(20)]


def settings_of(front: Front, number: int) -> dict[str, Any]:
    """The settings that the worker gets; its socket is a copy, as a process of its own has one."""
    pairs = dict(pair.split("=", 1) for pair in front.settings(number))
    return {**AT_ONCE, **pairs, "http.listen": f"fd:{os.dup(front.descriptor(number))}"}


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Front, int, Cluster]]:
    port = free_port()
    given = {**AT_ONCE, "application.id": "app", "bootstrap.servers": "b:1", "http.listen": f"127.0.0.1:{port}"}
    front = Front(StreamsConfig.of(given), 2)
    front.start()
    try:
        with Cluster(tmp_path_factory.mktemp("front"), partitions=2) as cluster:
            for number in range(2):
                app = cluster.app(counting(), settings_of(front, number))
                cluster.until_state(app, ClientState.RUNNING)
            front.mark([True, True], True)
            producer = cluster.clients.producer({})
            for word in WORDS:
                producer.produce("in", word.encode(), word.encode(), -1, None, None, 1, None)
            producer.flush()
            with RemoteStreams(f"http://127.0.0.1:{port}", wait=60) as app:
                wait_until("all are counted", lambda: len(list(app.store("counts").range())) == len(WORDS))
            yield front, port, cluster
    finally:
        front.close()


def test_one_port_answers_for_all_workers(front: tuple[Front, int, Cluster]) -> None:
    _, port, _ = front
    for _ in range(2):  # each worker in turn
        with RemoteStreams(f"http://127.0.0.1:{port}", wait=30) as app:
            assert app.store("counts").get_all(WORDS) == [1] * len(WORDS)


def test_an_answer_of_one_row_has_its_length_and_a_long_one_is_passed_on_as_it_comes(
    front: tuple[Front, int, Cluster],
) -> None:
    _, port, _ = front
    word = f"/stores/counts/get?key={WORDS[0]}"
    for path, status in ((word, 200), ("/stores/counts/get?key=nobody", 404), ("/page.js", 200)):
        answer = ask(port, path)
        assert (answer.status, int(answer.headers["Content-Length"] or -1)) == (status, len(answer.text.encode()))
    for method in (b"HEAD", b"OPTIONS"):
        found = sent(port, b"%b %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (method, word.encode()))
        assert found.startswith(b"HTTP/1.1 200" if method == b"HEAD" else b"HTTP/1.1 405")


def test_workers_tell_the_port_and_their_number(front: tuple[Front, int, Cluster]) -> None:
    _, port, cluster = front
    assert [app.status().endpoint for app in cluster.apps] == [f"http://127.0.0.1:{port}/workers/{n}" for n in (0, 1)]
    owners = ask(port, "/stores/counts").json["workers"]
    assert sorted(owners) == [f"127.0.0.1:{port}/0", f"127.0.0.1:{port}/1"]
    [host] = cluster.apps[0].metadata_for_all_streams_clients()
    assert host.host_info.port == port


def test_each_worker_can_be_asked_by_its_number(front: tuple[Front, int, Cluster]) -> None:
    _, port, cluster = front
    for number, app in enumerate(cluster.apps):
        assert ask(port, f"/workers/{number}/state?worker=self").json["client_id"] == app.status().client_id
    assert ask(port, "/workers/2/state").json["error"] == "worker '2' does not exist: the numbers of workers are 0 to 1"
    assert ask(port, "/workers/x/state").status == 404
    assert b"404" in sent(port, b"GET /workers/0/../../etc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")


def test_states_and_metrics_are_joined(front: tuple[Front, int, Cluster]) -> None:
    _, port, cluster = front
    for _ in range(2):  # each worker in turn
        whole = ask(port, "/state").json
        assert [one["client_id"] for one in whole["workers"]] == [app.status().client_id for app in cluster.apps]
        assert (whole["ready"], whole["missing"]) == (True, [])
        assert (whole["totals"]["workers"], whole["totals"]["processed"]) == (2, len(WORDS))
    families = {family.name: family for family in prometheus(ask(port, "/metrics").text)}
    ready = families["kafka_streams_ready"].samples
    assert {sample.labels["worker"] for sample in ready} == {"0", "1"}
    assert sum(one.value for one in families["kafka_streams_task_process"].samples) == len(WORDS)


def test_a_worker_that_is_away_is_503_and_the_other_one_answers(front: tuple[Front, int, Cluster]) -> None:
    found, port, _ = front
    found.mark([True, False], False)
    try:
        assert ask(port, "/ready").json == {"ready": False, "workers": 2, "alive": 1}
        assert ask(port, "/live").status == 200
        assert ask(port, "/workers/1/state").json["error"] == "worker 1 does not run now: try again later"
        wait_until("the worker is named", lambda: ask(port, "/state").json["missing"] != [])
        whole = ask(port, "/state").json
        address, reason = f"127.0.0.1:{port}/1", "worker 1 does not run now: try again later"
        assert whole["missing"] == [{"worker": address, "reason": reason}]
        assert (whole["ready"], whole["totals"]["workers"], len(whole["workers"])) == (False, 1, 1)
        assert {ask(port, f"/stores/counts/get?key={word}").status for word in WORDS} == {200, 503}
        answer = ask(port, "/stores/counts/get", json.dumps({"keys": WORDS}).encode())
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        found.mark([False, False], False)
        assert ask(port, "/stores").json["error"] == "no worker runs now: try again later"
    finally:
        found.mark([True, True], True)


@pytest.mark.parametrize(("origin", "status"), [("http://127.0.0.1:PORT", 200), ("http://example.org", 403)])
def test_post_of_a_page_is_passed_on_from_this_origin_alone(
    front: tuple[Front, int, Cluster], origin: str, status: int
) -> None:
    """Behind the port, workers have an address of their own."""
    _, port, _ = front
    body, given = json.dumps({"keys": [WORDS[0]]}).encode(), origin.replace("PORT", str(port))
    assert ask(port, "/stores/counts/get", body, Origin=given, Content_Type="application/json").status == status
