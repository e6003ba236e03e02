"""Serdes that take headers, where stores are read over HTTP: on the worker that is asked, and on the one it asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Materialized, StreamsBuilder
from http_support.asking import AT_ONCE, ask, free_port, pages_of
from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.record import Headers, Record
from processor_api.topology.partitioner import partition_for_key
from runtime_support.running_app import Cluster
from streams import KafkaStreams, SessionWindows, Stores, TimeWindows, serde_of
from streams.app.states import ClientState
from streams.remote import RemoteStreams
from waiting import wait_until

PARTITIONS = 2
WORDS = [f"w{number:02}" for number in range(20)]
TIMES = (10_000, 70_000)
EACH = sorted((word, f"{word} at {time}") for word in WORDS for time in TIMES)


def write_key(word: str, headers: Headers) -> bytes:
    """Texts behind a mark, and as a header the length of the text."""
    if not isinstance(word, str):
        raise TypeError("not a text")
    headers.remove_all("length").add("length", str(len(word)).encode())
    return (headers.last("mark") or b"key") + b":" + word.encode()


def read_key(data: bytes, headers: Headers) -> str:
    _, colon, word = data.partition(b":")
    length = headers.last("length")
    headers.remove_all("length")
    if not colon or (length is not None and int(length) != len(word)):
        raise ValueError(f"no key, or another's headers: {data!r}, {length!r}")
    return word.decode()


def write_value(value: str, headers: Headers) -> bytes:
    """Text in UTF-16, with a header that says so."""
    headers.remove_all("encoding").add("encoding", b"utf-16-le")
    return value.encode("utf-16-le")


def read_value(data: bytes, headers: Headers) -> str:
    encoding = headers.last("encoding")
    if encoding is None:
        raise LookupError("no header says the encoding")
    headers.remove_all("encoding")
    return data.decode(encoding.decode())


KEY = serde_of(write_key, read_key, name="marked key", with_headers=True)
VALUE = serde_of(write_value, read_value, name="encoded text", with_headers=True)
EITHER = serde_of(write_value, lambda data, headers: data.decode("utf-16-le"), name="text", with_headers=True)
"""One that needs no header to read, for stores that keep none."""


def topology() -> Any:
    builder = StreamsBuilder({"dsl.store.format": "HEADERS"}, key_serde=KEY, value_serde=VALUE)
    grouped = builder.stream("in", Consumed(value_serde="string")).group_by_key()
    grouped.reduce(lambda old, new: f"{old}, {new}", materialized="texts")
    minutes = grouped.windowed_by(TimeWindows.of_size_with_no_grace(60_000))
    minutes.reduce(lambda old, new: new, materialized="minutes")
    visits = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(1000))
    visits.reduce(lambda old, new: new, materialized="visits")
    history = Stores.persistent_versioned_key_value_store("versions", 600_000)
    grouped.reduce(lambda old, new: new, materialized=Materialized(supplier=history, value_serde=EITHER))
    plain = Stores.persistent_timestamped_key_value_store("plain")
    grouped.reduce(lambda old, new: new, materialized=Materialized(supplier=plain, value_serde=EITHER))
    builder.global_table("all", materialized="everywhere")
    return builder.build()


Served = tuple[list[int], list[KafkaStreams]]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Cluster(tmp_path_factory.mktemp("headers"), partitions=PARTITIONS) as cluster:
        cluster.broker.create_topic("all", 1)
        ports, apps = [free_port(), free_port()], []
        for port in ports:
            apps.append(cluster.app(topology(), AT_ONCE, http_listen=f"127.0.0.1:{port}"))
            cluster.until_state(apps[-1], ClientState.RUNNING)
        producer = cluster.clients.producer({})
        for time in TIMES:
            for word in WORDS:
                headers = Headers()
                key = KEY.with_headers(headers).serialize(word)
                producer.produce("in", f"{word} at {time}".encode(), key, -1, None, None, time, headers)
        headers = Headers()
        key = KEY.with_headers(headers).serialize("all")
        value = VALUE.with_headers(headers).serialize("hëre")
        producer.produce("all", value, key, 0, None, None, 1, headers)
        producer.flush()
        with RemoteStreams(url(ports[0]), wait=60) as app:
            wait_until("both have tasks", lambda: all(any(one.tasks().values()) for one in apps))
            wait_until("all have both texts", lambda: all(", " in row.value for row in twenty(app.store("texts"))))
        yield ports, apps


def twenty(store: Any) -> list[Any]:
    found = list(store.range())
    return found if len(found) == len(WORDS) else [type("Row", (), {"value": ""})]


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.fixture(params=[0, 1])
def port(request: pytest.FixtureRequest, workers: Served) -> int:
    return workers[0][request.param]


@pytest.fixture
def app(port: int) -> Iterator[RemoteStreams]:
    with RemoteStreams(url(port), wait=30) as found:
        yield found


def test_a_row_of_each_key_is_got_from_any_worker(app: RemoteStreams) -> None:
    texts = app.store("texts")
    for word in WORDS:
        row = texts.row(word)
        assert row is not None
        assert (row.key, row.value, row.timestamp) == (word, f"{word} at 10000, {word} at 70000", 70_000)
        assert row.headers == (), "what the serde took off is not there"
    assert texts.get("nobody") is None
    assert texts.get_all(["w01", "nobody", "w02"]) == ["w01 at 10000, w01 at 70000", None, "w02 at 10000, w02 at 70000"]
    assert texts.count() >= len(WORDS)


def test_a_store_without_headers_and_a_global_one_are_read_too(app: RemoteStreams) -> None:
    assert app.store("plain").get("w01") == "w01 at 70000"
    assert sorted(row.value for row in app.store("plain").range()) == [f"{word} at 70000" for word in WORDS]
    assert app.store("everywhere").get("all") == "hëre"
    assert [(row.key, row.value) for row in app.store("everywhere").range()] == [("all", "hëre")]


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("store", ["texts", "plain"])
@pytest.mark.parametrize("limit", [3, 1000])
def test_ranges_are_gone_through_page_by_page(port: int, store: str, order: str, limit: int) -> None:
    found = [key for page in pages_of(port, f"/stores/{store}/range?limit={limit}&order={order}") for key in page]
    assert sorted(found) == WORDS
    some = pages_of(port, f"/stores/{store}/range?from=w03&to=w12&limit={limit}&order={order}")
    assert sorted(key for page in some for key in page) == WORDS[3:13]


def test_prefixes_are_those_of_the_written_keys(port: int) -> None:
    for limit in (2, 1000):
        found = [key for page in pages_of(port, f"/stores/texts/prefix?prefix=w1&limit={limit}") for key in page]
        assert sorted(found) == WORDS[10:20]


def test_windows_and_sessions_are_read_by_key_and_by_time(app: RemoteStreams) -> None:
    found = [(row.start, row.end, row.value) for row in app.store("minutes").windows("w01")]
    assert found == [(0, 60_000, "w01 at 10000"), (60_000, 120_000, "w01 at 70000")]
    found = [(row.start, row.end, row.value) for row in app.store("visits").sessions("w01")]
    assert found == [(70_000, 70_000, "w01 at 70000")]
    for reverse in (False, True):
        minutes = list(app.store("minutes").windows(reverse=reverse))
        assert sorted((row.key, row.value) for row in minutes) == sorted(
            (w, f"{w} at {t}") for w in WORDS for t in TIMES
        )
        visits = list(app.store("visits").sessions(reverse=reverse))
        assert sorted(row.value for row in visits if row.start == 70_000) == [f"{word} at 70000" for word in WORDS]


def test_versions_are_read_at_a_time_and_all(app: RemoteStreams) -> None:
    versions = app.store("versions")
    assert versions.get("w01", as_of=20_000) == "w01 at 10000"
    assert [row.value for row in versions.versions("w01")] == ["w01 at 10000", "w01 at 70000"]
    assert sorted((row.key, row.value) for row in versions.versions()) == EACH


def test_windows_of_all_keys_have_pages(port: int) -> None:
    for path in ("minutes/windows", "versions/versions"):
        found = [key for page in pages_of(port, f"/stores/{path}?from=0&limit=7") for key in page]
        assert sorted(found) == sorted(WORDS * 2)


def test_the_owner_of_a_key_is_found_by_the_headers_that_it_was_written_with(workers: Served) -> None:
    ports, apps = workers
    for word in WORDS:
        for headers in (None, [("mark", b"other")], [("mark", b"a" * 9)]):
            data = (b"key" if headers is None else headers[0][1]) + b":" + word.encode()
            for app in apps:
                found = app.query_metadata_for_key("texts", word, KEY, headers=headers)
                assert found.partition == partition_for_key(data, PARTITIONS)
                here = ask(found.active_host.port, "/stores/texts").json["here"]
                assert found.partition in here
                assert found.active_host.port in ports
    headers = [("mark", b"other")]
    apps[0].query_metadata_for_key("texts", "a", KEY, headers=headers)
    assert headers == [("mark", b"other")], "what the serde adds stays away from the caller's"


def test_a_key_that_the_serde_does_not_take_is_400(port: int) -> None:
    answer = ask(port, "/stores/texts/get?key=5&keys=json")
    assert (answer.status, "does not fit the serde 'marked key'" in answer.json["error"]) == (400, True)


class Keep(Processor[str, str, str, str]):
    """Puts each record into a store, and reads none."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.store = context.get_state_store("lost")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, record.value)


def test_a_value_that_needs_a_header_which_no_row_has_is_an_error_that_names_the_store(tmp_path: Path) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.add_state_store(Stores.key_value_store("lost", "string", VALUE))
    builder.stream("in").process(Keep, "lost")
    with Cluster(tmp_path, partitions=1) as cluster:
        port = free_port()
        app = cluster.app(builder.build(), AT_ONCE, http_listen=f"127.0.0.1:{port}")
        cluster.until_state(app, ClientState.RUNNING)
        cluster.send("x", key="a")
        wait_until("it is there", lambda: ask(port, "/stores/lost/get?key=a").status != 404)
        answer = ask(port, "/stores/lost/get?key=a")
        assert answer.status == 500
        assert "store 'lost': the encoded text serde cannot read the value: no header says" in answer.json["error"]
        assert app.failure is None
