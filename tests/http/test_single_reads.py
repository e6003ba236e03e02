"""Reads of one key that are answered without the framework are answered as it would."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dsl import Consumed, Grouped, Materialized, StreamsBuilder, TimeWindows
from http_support.asking import AT_ONCE, free_port, sent
from processor_api.clock import SystemClock
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from runtime_support.running_app import Cluster
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.http.connections.single_reads import SingleReads
from waiting import wait_until

KEYS = ["a", "b b", "ä", "%", "null", "7", "true", "€/?&=+#", 'quo"te', "x" * 300]
STORES = ("counts", "numbers", "objects", "parts", "minutes", "versions", "everywhere")
ELSEWHERE = "X-Other: 1"
"""A header that the short way does not know: the framework answers the request."""


def topology() -> Any:
    """Stores of several kinds, key serdes and value serdes, and one of all partitions."""
    builder = StreamsBuilder()
    text = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    words = builder.stream("in", text)
    words.group_by_key().count(materialized="counts")
    words.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(60_000)).count(materialized="minutes")
    history = Materialized(supplier=Stores.persistent_versioned_key_value_store("versions", 600_000))
    words.group_by_key().reduce(lambda old, new: new, materialized=history)
    numbered = words.select_key(lambda key, value: len(key)).group_by_key(Grouped(key_serde=Serdes.LONG))
    as_json = Materialized(name="numbers", key_serde=Serdes.LONG, value_serde=Serdes.JSON)
    numbered.aggregate(dict, lambda key, value, all_: {**all_, value: [key, 1.5, None]}, materialized=as_json)
    objects = words.select_key(lambda key, value: {"k": key}).group_by_key(Grouped(key_serde=Serdes.JSON))
    objects.count(materialized=Materialized(name="objects", key_serde=Serdes.JSON))
    builder.global_table("out", text, materialized="everywhere")
    return builder.build()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaStreams, int]]:
    with Cluster(tmp_path_factory.mktemp("single"), partitions=3) as cluster:
        port = free_port()
        app = cluster.app(topology(), AT_ONCE, http_listen=f"127.0.0.1:{port}", processing_guarantee="at_least_once")
        cluster.until_state(app, ClientState.RUNNING)
        producer = cluster.clients.producer({})
        for key in KEYS:
            producer.produce("in", f"value of {key}".encode(), key.encode(), -1, None, None, 10_000, None)
        producer.produce("out", b"here", b"a", 0, None, None, 1, None)
        producer.flush()
        wait_until("all are processed", lambda: sum(one.processed for one in app.status().threads) >= 3 * len(KEYS))
        yield app, port


def request(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def answered(port: int, path: str, *headers: str, post: bytes | None = None) -> bytes:
    """The whole answer, without its time, on a connection that stays open."""
    sent = request(path, *headers)
    if post is not None:
        sent = b"POST" + request(path, *headers, f"Content-Length: {len(post)}")[3:] + post
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        found = bytearray()
        while b"\r\n\r\n" not in found:
            found += connection.recv(65536)
        head, _, body = found.partition(b"\r\n\r\n")
        size = re.search(rb"Content-Length: (\d+)", head)
        assert size is not None
        while len(body) < int(size[1]):
            body += connection.recv(65536)
        assert len(body) == int(size[1])
    return _undated(bytes(head) + b"\r\n\r\n" + bytes(body))


QUERIES = [
    "",
    "key",
    "key=",
    "key=a&key=b",
    "key=a&other=1",
    "key=%zz",
    "key=%FF",
    "key=a+b",
    "key=b+b",
    "key=b%20b",
    "k%65y=a",
    "key=a;b",
    "key=null&keys=json",
    "key=%22a%22&keys=json",
    "key=a&keys=json",
    "key=a&keys=text",
    "key=a&keys=nonsense",
    "key=7&keys=json",
    "key=%7B%22k%22%3A%22a%22%7D&keys=json",
    "key=%5B1,2%5D",
    "key=1e3",
    "key=" + "9" * 30,
    *(f"key=a&{term}" for term in ("isolation=read_committed", "isolation=READ_uncommitted", "isolation=none")),
    *(f"key=a&{term}" for term in ("partition=0", "partition=1", "partition=2", "partition=3", "partition=-1")),
    *(f"key=a&{term}" for term in ("local=true", "local=false", "local=perhaps", "partial=true", "stale=true")),
    *(f"key=a&{term}" for term in ("max_lag=0", "max_lag=x", "limit=3", "cursor=x", "max_bytes=1", "as_of=5")),
    "key=a&position=" + quote('{"in":{"0":0,"1":0,"2":0}}'),
    "key=a&position=" + quote('{"in":{"0":99,"1":99,"2":99}}'),
    "key=a&position=nonsense",
    "&key=a",
    "key=a&",
    "key=a=b",
    "key=a%00",
    "key=%ED%A0%80",
]


@pytest.mark.parametrize("store", STORES)
def test_the_answer_is_that_of_the_framework_to_the_byte(served: tuple[KafkaStreams, int], store: str) -> None:
    _, port = served
    asked = [*QUERIES, *(f"key={quote(key, safe='')}" for key in KEYS), "key=not-there", "key=-5", "key=1"]
    for query in asked:
        path = f"/stores/{store}/get?{query}"
        assert answered(port, path) == answered(port, path, ELSEWHERE), path


BODIES = [
    b"",
    b"{}",
    b"[]",
    b"7",
    b"\xff",
    b'{"keys":{}}',
    b'{"keys":[]}',
    b'{"keys":["a"]}',
    b'{"keys":["a","not there","a"],"more":1}',
    b'{"keys":["a",null]}',
    b'{"keys":["a",7]}',
    b'{"keys":["\\ud800"]}',
    b'{"keys":[1,2,5,99,300]}',
    b'{"keys":[1.5,true]}',
    b'{"keys":[{"k":"a"},{"k":"none"},{"k":1}]}',
    b'\xef\xbb\xbf{"keys":["a"]}',
    json.dumps({"keys": KEYS}).encode(),
    json.dumps({"keys": KEYS}, ensure_ascii=False).encode("utf-16"),
    json.dumps({"keys": KEYS * 40}).encode(),
    json.dumps({"keys": ["a"] * 1001}).encode(),
    b"[" * 5000,
]


@pytest.mark.parametrize("store", STORES)
def test_answers_about_several_keys_are_the_frameworks_too(served: tuple[KafkaStreams, int], store: str) -> None:
    _, port = served
    terms = [
        "keys=json",
        "local=true",
        "partition=0",
        "partition=9",
        "isolation=read_committed",
        "key=a",
        "as_of=5",
        "x=1",
    ]
    for query, body in [*(("", body) for body in BODIES), *((term, BODIES[7]) for term in terms)]:
        path = f"/stores/{store}/get" + (f"?{query}" if query else "")
        assert answered(port, path, post=body) == answered(port, path, ELSEWHERE, post=body), (path, body)


@pytest.mark.parametrize(
    "path",
    [
        "/stores/none/get?key=a",
        "/stores/count%73/get?key=a",
        "/stores//get?key=a",
        "/stores/./get?key=a",
        "/stores/counts/get?key=a#b",
        "/stores/counts/get/?key=a",
        "//stores/counts/get?key=a",
        "/stores/counts/ge%74?key=a",
        "/stores/counts/get?key=a?key=b",
        "http://localhost/stores/counts/get?key=a",
    ],
)
def test_a_strange_path_is_the_frameworks(served: tuple[KafkaStreams, int], path: str) -> None:
    _, port = served
    close = "Connection: close"
    first, second = (sent(port, request(path, close, *more)) for more in ((), (ELSEWHERE,)))
    assert _undated(first) == _undated(second) != b""


def _undated(answer: bytes) -> bytes:
    return re.sub(rb"Date: [^\r]+\r\n", b"", answer)


def test_the_short_way_is_taken(served: tuple[KafkaStreams, int]) -> None:
    app, port = served
    reads = SingleReads(app, lambda: app._queries, app._owners, SystemClock())
    reads.new_turn()
    for store, query in [
        ("counts", "key=a"),
        ("counts", "key=%C3%A4"),
        ("counts", "key=%22a%22&keys=json"),
        ("counts", "key=not-there"),
        ("counts", "key=a&isolation=read_committed"),
        ("numbers", "key=1"),
        ("objects", "key=" + quote('{"k":"a"}')),
        ("versions", "key=a"),
        ("everywhere", "key=a"),
    ]:
        found = reads.answer(store.encode(), query.encode())
        assert found is not None, (store, query)
        assert _undated(found) == answered(port, f"/stores/{store}/get?{query}", ELSEWHERE)
    for body in (b'{"keys":["a","b b","none"]}', json.dumps({"keys": KEYS}).encode()):
        several = reads.answer(b"counts", b"keys=json", body)
        assert several is not None
        assert _undated(several) == answered(port, "/stores/counts/get?keys=json", ELSEWHERE, post=body)
    for store, query in [("none", "key=a"), ("minutes", "key=a"), ("counts", "key=a&stale=true"), ("numbers", "key=x")]:
        assert reads.answer(store.encode(), query.encode()) is None, (store, query)


def test_a_store_that_is_closed_meanwhile_is_not_read(tmp_path: Path) -> None:
    """What is known of a turn does not outlive the task."""
    with Cluster(tmp_path) as cluster:
        app = cluster.app(topology(), AT_ONCE)
        cluster.until_state(app, ClientState.RUNNING)
        reads = SingleReads(app, lambda: app._queries, app._owners, SystemClock())
        reads.new_turn()
        assert reads.answer(b"counts", b"key=a") is not None
        app.close(30)
        assert reads.answer(b"counts", b"key=a") is None
        reads.new_turn()
        assert reads.answer(b"counts", b"key=a") is None


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_row_is_never_older_than_its_position_nor_than_the_one_before(tmp_path: Path, guarantee: str) -> None:
    """While records are processed, rows are put and commits are made: a count is at least the position beside it."""
    with Cluster(tmp_path) as cluster:
        port = free_port()
        app = cluster.app(topology(), AT_ONCE, http_listen=f"127.0.0.1:{port}", processing_guarantee=guarantee)
        cluster.until_state(app, ClientState.RUNNING)
        asked, rows = request("/stores/counts/get?key=k") * 8, list[dict[str, Any]]()
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            for _ in range(60):
                cluster.send(*["v"] * 20, key="k")
                connection.sendall(asked)
                got = b""
                while got.count(b"\n") < 8 * 7:  # six lines of a head, and one of a body
                    got += connection.recv(65536)
                rows += [json.loads(line) for line in got.split(b"\n") if line.startswith(b"{")]
        assert len(rows) == 480
        counted = [row.get("value", 0) for row in rows]
        assert counted == sorted(counted)
        assert counted[-1] > 0
        for row, count in zip(rows, counted, strict=True):
            assert count >= row["position"].get("in", {}).get("0", -1) + 1
