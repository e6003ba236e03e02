"""The client of the HTTP port, on two workers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Materialized, StreamsBuilder, TimeWindows
from http_support.asking import AT_ONCE, free_port
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.remote import RemoteError, RemoteRow, RemoteStreams, RemoteUnavailable
from waiting import wait_until

WORDS = [f"w{number:04}" for number in range(30)]


def topology() -> Any:
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    grouped = words.group_by_key()
    grouped.count(materialized="counts")
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(60_000)).count(materialized="minutes")
    history = Materialized(supplier=Stores.persistent_versioned_key_value_store("versions", 600_000))
    grouped.reduce(lambda old, new: new, materialized=history)
    words.group_by(lambda key, value: {"word": key}, key_serde="json").count(materialized="objects")
    return builder.build()


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    with Cluster(tmp_path_factory.mktemp("remote"), partitions=2) as cluster:
        found = [free_port(), free_port()]
        for port in found:
            app = cluster.app(topology(), AT_ONCE, http_listen=f"127.0.0.1:{port}")
            cluster.until_state(app, ClientState.RUNNING)
        producer = cluster.clients.producer({})
        for time in (10_000, 70_000):
            for word in WORDS:
                producer.produce("in", f"{word} at {time}".encode(), word.encode(), -1, None, None, time, None)
        producer.flush()
        with RemoteStreams(*map(url, found), wait=60) as app:
            wait_until("all are counted", lambda: [row.value for row in app.store("counts").range()] == [2] * 30)
            wait_until("all objects are counted", lambda: len(list(app.store("objects").range())) == 30)
        yield found


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.fixture(params=[0, 1])
def app(request: pytest.FixtureRequest, ports: list[int]) -> Iterator[RemoteStreams]:
    with RemoteStreams(url(ports[request.param]), wait=30) as found:
        yield found


def test_a_value_is_got_from_any_worker(app: RemoteStreams) -> None:
    counts = app.store("counts")
    assert counts.get("w0001") == 2
    assert counts.get("nobody") is None
    assert counts.get_all(["w0002", "nobody"]) == [2, None]
    row = counts.row("w0001")
    assert row is not None
    assert (row.key, row.timestamp) == ("w0001", 70_000)
    assert counts.count() >= 30


def test_rows_are_gone_through_in_pages(app: RemoteStreams) -> None:
    counts = app.store("counts")
    assert sorted(row.key for row in counts.range("w0003", "w0007")) == WORDS[3:8]
    assert sorted((row.key for row in counts.prefix("w001")), reverse=True) == WORDS[19:9:-1]
    of_partition = [row.key for row in counts.on_terms(partition=0).range(reverse=True)]
    assert of_partition == sorted(of_partition, reverse=True)


def test_windows_and_versions_have_their_times(app: RemoteStreams) -> None:
    assert list(app.store("minutes").windows("w0001")) == [
        RemoteRow(key="w0001", value=1, partition=row.partition, timestamp=time, start=start, end=start + 60_000)
        for row in [app.store("counts").row("w0001")]
        if row is not None
        for start, time in ((0, 10_000), (60_000, 70_000))
    ]
    versions = app.store("versions")
    assert versions.get("w0001", as_of="1970-01-01T00:00:30Z") == "w0001 at 10000"
    assert [row.valid_to for row in versions.versions("w0001")] == [70_000, None]


def test_windows_and_versions_of_all_keys_come_from_all_workers(app: RemoteStreams) -> None:
    expected = sorted((word, time) for word in WORDS for time in (0, 60_000))
    for reverse in (False, True):
        found = list(app.store("minutes").windows(reverse=reverse))
        assert sorted((row.key, row.start) for row in found) == expected
        assert len(list(app.store("versions").versions(reverse=reverse))) == 60


def test_a_key_may_be_any_value_of_json(app: RemoteStreams) -> None:
    objects = app.store("objects")
    assert objects.get({"word": "w0001"}) == 2
    assert objects.get_all([{"word": "w0001"}, {"word": "?"}]) == [2, None]


def test_the_worker_tells_its_stores_and_state(app: RemoteStreams) -> None:
    assert {"counts", "minutes"} <= {store["name"] for store in app.stores()}
    assert {one["state"] for one in app.state()["workers"]} <= {"RUNNING", "REBALANCING"}


def test_a_wrong_question_is_one_error_with_the_sentence_of_the_worker(app: RemoteStreams) -> None:
    with pytest.raises(RemoteError, match="the topology does not have store 'none'"):
        app.store("none").get("a")
    with pytest.raises(RemoteError, match="key: 3 does not fit the serde 'string'"):
        app.store("counts").get(3)
    with pytest.raises(RemoteError, match=r"store 'counts' is a .* store and does not have 'windows'"):
        list(app.store("counts").windows("a"))


def test_another_worker_is_asked_where_one_does_not_answer(ports: list[int]) -> None:
    with RemoteStreams(url(free_port()), url(ports[0]), wait=30) as app:
        assert app.store("counts").get("w0001") == 2


def test_no_worker_at_all_is_one_error() -> None:
    with RemoteStreams(url(free_port())) as app, pytest.raises(RemoteUnavailable, match="does not respond: Connection"):
        app.store("counts").get("a")


@pytest.mark.parametrize("address", ["", "localhost:8080", "ftp://a", "http://", "http://me@host:1"])
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match="the address of a worker must be"):
        RemoteStreams(address)


@pytest.mark.parametrize("token", ["two words", "caf\xe9", "a\r\nX-Evil: 1"])
def test_what_is_no_token_is_named_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="the token must be one ASCII word") as caught:
        RemoteStreams(url(1), token=token)
    assert token not in str(caught.value)


def test_a_token_may_end_with_the_line_of_its_file() -> None:
    heard: list[bytes] = []
    with answering(lambda: whole(ROW), heard) as port, RemoteStreams(url(port), token="secret-word\n") as app:
        assert app.store("counts").get("a") == 1
    assert b"Authorization: Bearer secret-word\r\n" in heard[0]


@contextmanager
def answering(data: Callable[[], bytes], heard: list[bytes] | None = None) -> Iterator[int]:
    """A server that answers each request by some bytes, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    found = connection.recv(65536)
                    if heard is not None:
                        heard.append(found)
                    connection.sendall(data())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def whole(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


ROW = json.dumps({"key": "a", "value": 1, "partition": 0}).encode() + b"\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense",
        whole(b"<html>"),
        whole(b""),
        whole(ROW),  # no line that says it is whole
        whole(ROW)[:-5],
        whole(ROW + b'{"error": "partition 1 went away", "next": "x"}\n'),
    ],
)
def test_an_answer_that_is_not_whole_is_an_error_and_no_short_result(answer: bytes) -> None:
    with answering(lambda: answer) as port, RemoteStreams(url(port)) as app, pytest.raises(RemoteUnavailable):
        list(app.store("counts").range())


def test_503_is_tried_again_for_the_time_that_is_given(tmp_path: Path) -> None:
    answers = [whole(b'{"error": "it moves"}\n', "503 Service Unavailable")] * 3 + [whole(ROW)]
    with answering(lambda: answers.pop(0)) as port, RemoteStreams(url(port), wait=60) as app:
        assert app.store("counts").get("a") == 1
    assert answers == []


def test_threads_that_ask_at_a_time_get_their_own_keys(app: RemoteStreams) -> None:
    """Keys of two workers, keys that are not there, and keys that the store does not take."""
    found: dict[Any, Any] = {}
    start = threading.Barrier(12)

    def ask(thread: int) -> None:
        counts, minutes = app.store("counts"), app.store("objects")
        start.wait(30)
        for number in range(thread, 12 * 4, 12):
            word = WORDS[number % 30]
            found[number] = counts.get(word), counts.get(f"no{number}"), minutes.get({"word": word})
            row = counts.row(word)
            assert row is not None
            assert (row.key, row.value, row.timestamp) == (word, 2, 70_000)
            for strange in (number, [word], None):
                with pytest.raises(RemoteError):
                    counts.get(strange)

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert found == dict.fromkeys(range(48), (2, None, 2))
