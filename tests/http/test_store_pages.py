"""Reads of the stores of one worker over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dsl import Consumed, Materialized, StreamsBuilder, TimeWindows
from dsl.windows.definitions import SessionWindows
from http_support.asking import AT_ONCE, ask, free_port, lines, listening, pages_of, rows_of_pages
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from runtime_support.running_app import Cluster
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.http.reads import After
from waiting import wait_until

WORDS = [f"w{number:04}" for number in range(40)]


def topology() -> Any:
    """Counts of words, by minute, in sessions, their last values with history, and an order by number."""
    builder = StreamsBuilder()
    text = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    words = builder.stream("in", text)
    grouped = words.group_by_key()
    grouped.count(materialized="counts")
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(60_000)).count(materialized="minutes")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(1000)).count(materialized="visits")
    history = Materialized(supplier=Stores.persistent_versioned_key_value_store("versions", 600_000))
    grouped.reduce(lambda old, new: new, materialized=history)
    builder.global_table("out", text, materialized="everywhere")
    return builder.build()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaStreams, int]]:
    with Cluster(tmp_path_factory.mktemp("stores"), partitions=3) as cluster:
        port = free_port()
        app = cluster.app(topology(), AT_ONCE, http_listen=f"127.0.0.1:{port}", processing_guarantee="at_least_once")
        cluster.until_state(app, ClientState.RUNNING)
        producer = cluster.clients.producer({})
        for time in (10_000, 70_000):
            for word in WORDS:
                producer.produce("in", f"{word} at {time}".encode(), word.encode(), -1, None, None, time, None)
        producer.produce("out", b"here", b"all", 0, None, None, 1, None)
        producer.flush()
        wait_until(
            "all are counted",
            lambda: (
                len(rows(port, "/stores/counts/range")) == len(WORDS)
                and all(row["value"] == 2 for row in rows(port, "/stores/counts/range"))
            ),
        )
        yield app, port


@pytest.fixture
def port(served: tuple[KafkaStreams, int]) -> int:
    return served[1]


def rows(port: int, path: str) -> list[Any]:
    answer = ask(port, path)
    assert answer.status == 200, answer
    found, last = lines(answer)
    assert last["end"]
    return found


def test_the_stores_are_listed_with_what_can_be_asked(port: int) -> None:
    found = {one["name"]: one for one in ask(port, "/stores").json["stores"]}
    assert found["counts"]["reads"] == ["get", "range", "prefix", "count"]
    assert found["minutes"]["reads"] == ["windows"]
    assert found["visits"]["reads"] == ["sessions"]
    assert found["versions"]["reads"] == ["get", "range", "prefix", "versions", "count"]
    assert (found["counts"]["partitions"], found["counts"]["here"]) == (3, [0, 1, 2])
    assert found["everywhere"]["global"]
    assert ask(port, "/stores/counts").json == {**found["counts"], "workers": [f"127.0.0.1:{port}"] * 3}


def test_a_key_is_read_with_its_timestamp_and_the_position_of_its_partition(port: int) -> None:
    found = ask(port, "/stores/counts/get?key=w0001").json
    partition = found.pop("partition")
    assert found.pop("position")["in"].keys() == {str(partition)}
    assert found == {"key": "w0001", "value": 2, "timestamp": 70_000}


def test_a_key_that_is_not_there_is_404_and_says_so(port: int) -> None:
    answer = ask(port, "/stores/counts/get?key=nobody")
    assert answer.status == 404
    assert (answer.json["error"], answer.json["found"]) == ("the key does not exist", False)


def test_several_keys_are_read_at_once_in_their_order(port: int) -> None:
    answer = ask(port, "/stores/counts/get", json.dumps({"keys": ["w0002", "nobody", "w0001"]}).encode())
    assert [(row["key"], row.get("value"), row.get("found")) for row in answer.json["rows"]] == [
        ("w0002", 2, None),
        ("nobody", None, False),
        ("w0001", 2, None),
    ]


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_pages_of_a_range_have_each_row_once(port: int, limit: int, order: str) -> None:
    pages = list(pages_of(port, f"/stores/counts/range?from=w0005&to=w0030&limit={limit}&order={order}"))
    assert max(map(len, pages)) <= limit
    assert sorted(chain(*pages)) == WORDS[5:31]


@pytest.mark.parametrize("limit", [2, 1000])
def test_keys_with_a_prefix_are_found_page_by_page(port: int, limit: int) -> None:
    assert sorted(chain(*pages_of(port, f"/stores/counts/prefix?prefix=w001&limit={limit}"))) == WORDS[10:20]


def test_a_count_is_that_of_all_partitions(port: int) -> None:
    found = ask(port, "/stores/counts/count").json
    assert found["count"] >= 40  # RocksDB counts a row once more for each flush that has it
    assert (found["approximate"], found["missing"]) == (True, [])


def test_windows_are_read_by_key_and_time(port: int) -> None:
    found = rows(port, "/stores/minutes/windows?key=w0001")
    assert [(row["start"], row["end"], row["value"]) for row in found] == [(0, 60_000, 1), (60_000, 120_000, 1)]
    assert [row["start"] for row in rows(port, "/stores/minutes/windows?key=w0001&from=1970-01-01T00:01:00Z")] == [
        60_000
    ]
    assert len(rows(port, "/stores/minutes/windows?from=0&to=0")) == 40


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("path", ["minutes/windows?from=0", "visits/sessions?from=0", "versions/versions?from=0"])
def test_windows_sessions_and_versions_of_all_keys_have_pages(port: int, path: str, order: str) -> None:
    """Each row once; a partition's rows come in one order whatever the length of its pages."""
    whole = rows(port, f"/stores/{path}&order={order}")
    assert len(whole) == (40 if path.startswith("visits") else 80)
    assert {row["key"] for row in whole} == set(WORDS)
    for limit in (1, 7, 1000):
        pages = list(rows_of_pages(port, f"/stores/{path}&order={order}&limit={limit}"))
        assert max(map(len, pages)) <= limit
        assert list(chain(*pages)) == whole


def test_the_descending_rows_of_a_partition_are_the_ascending_ones_turned_round(port: int) -> None:
    for path in ("counts/range?", "minutes/windows?", "visits/sessions?", "versions/versions?"):
        for more in ("partition=1", *(("key=w0001",) if path != "counts/range?" else ())):
            found = rows(port, f"/stores/{path}{more}")
            assert found
            assert rows(port, f"/stores/{path}{more}&order=descending") == found[::-1]


def test_the_windows_of_one_key_have_pages(port: int) -> None:
    for path in ("minutes/windows", "versions/versions"):
        pages = list(rows_of_pages(port, f"/stores/{path}?key=w0001&limit=1"))
        assert [len(page) for page in pages] == [1, 1]


def test_an_answer_ends_after_so_many_bytes_with_a_cursor(port: int) -> None:
    pages = list(rows_of_pages(port, "/stores/counts/range?max_bytes=200"))
    assert 3 <= max(map(len, pages)) <= 8  # a page of each of two partitions
    assert sorted(row["key"] for page in pages for row in page) == WORDS


def test_a_cursor_goes_on_with_its_own_request_only(port: int) -> None:
    """With another store, read or parameter it would begin anywhere, without a word."""
    _, last = lines(ask(port, "/stores/minutes/windows?from=0&limit=3"))
    cursor = last["next"]
    assert ask(port, f"/stores/minutes/windows?from=0&limit=30&cursor={cursor}").status == 200
    for path in (
        "minutes/windows?from=1",
        "minutes/windows?from=0&order=descending",
        "visits/sessions?from=0",
        "counts/range?from=0",
    ):
        answer = ask(port, f"/stores/{path}&cursor={cursor}")
        assert (answer.status, answer.json["error"]) == (
            400,
            "the cursor is from another request: use it with the same read and parameters",
        )
    other = ask(port, f"/stores/minutes/windows?from=0&partition=2&cursor={cursor}")
    assert (other.status, other.json["error"]) == (
        400,
        "the cursor is from partition 0, which this request does not read",
    )
    forged = After(0, b"abc", After.decode(cursor).of).encode()
    answer = ask(port, f"/stores/minutes/windows?from=0&cursor={forged}")
    assert (answer.status, answer.json["error"][:51]) == (400, "the cursor is not from a response of this store: th")


def test_sessions_are_read_by_key_and_by_time(port: int) -> None:
    found = rows(port, "/stores/visits/sessions?key=w0001")
    assert [(row["start"], row["end"], row["value"]) for row in found] == [(70_000, 70_000, 1)]
    assert len(rows(port, "/stores/visits/sessions?from=60000")) == 40


def test_versions_are_read_as_of_a_time(port: int) -> None:
    assert ask(port, "/stores/versions/get?key=w0001").json["value"] == "w0001 at 70000"
    former = ask(port, "/stores/versions/get?key=w0001&as_of=20000").json
    assert (former["value"], former["valid_to"]) == ("w0001 at 10000", 70_000)
    assert [row["timestamp"] for row in rows(port, "/stores/versions/versions?key=w0001")] == [10_000, 70_000]
    assert rows(port, "/stores/versions/range?as_of=5000") == []


def test_a_global_store_is_read_like_others(port: int) -> None:
    assert ask(port, "/stores/everywhere/get?key=all").json["value"] == "here"
    assert [row["key"] for row in rows(port, "/stores/everywhere/range")] == ["all"]


def test_a_bound_that_is_not_reached_is_503_until_it_is(port: int) -> None:
    found = ask(port, "/stores/counts/get?key=w0001").json
    position = found["position"]
    assert ask(port, f"/stores/counts/get?key=w0001&position={quote(json.dumps(position))}").status == 200
    ahead = {"in": {partition: offset + 1 for partition, offset in position["in"].items()}}
    answer = ask(port, f"/stores/counts/get?key=w0001&position={quote(json.dumps(ahead))}")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert "but the request requires" in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/stores/none/get?key=a", 404, "the topology does not have store 'none'; it has:"),
        (
            "/stores/counts/windows?key=a",
            404,
            "store 'counts' is a timestamped-key-value store and does not have 'windows'",
        ),
        ("/stores/counts/get", 400, "key is missing"),
        ("/stores/counts/get?key=a&as_of=3", 400, "as_of: store 'counts' is not a versioned store"),
        ("/stores/counts/get?key=a&partition=7", 400, "store 'counts' does not have partition 7: it has 3"),
        ("/stores/counts/get?key=a&partition=-1", 400, "partition must be a number from 0"),
        ("/stores/counts/get?key=a&colour=red", 400, "get does not have parameter 'colour'; it has"),
        ("/stores/counts/get?key=a&isolation=some", 400, "isolation must be read_committed or"),
        ("/stores/counts/get?key=a&position=3", 400, "position must be JSON such as"),
        ("/stores/counts/get?key=a&stale=maybe", 400, "stale must be true or false"),
        ("/stores/counts/range?limit=0", 400, "limit must be a number from 1 to 100000"),
        ("/stores/counts/range?limit=9999999", 400, "limit must be a number from 1 to 100000"),
        ("/stores/counts/range?cursor=%00", 400, "cursor '\\x00' is not from a response"),
        ("/stores/counts/range?order=up", 400, "order must be ascending or descending"),
        ("/stores/minutes/windows?from=yesterday", 400, "from: "),
        ("/stores/minutes/windows?from=-1", 400, "from: "),
        ("/stores/minutes/windows?order=up", 400, "order must be ascending or descending"),
        ("/stores/versions/versions?from=5&to=4", 400, "from, 5 ms, is after to, 4 ms"),
        ("/stores/counts/range?max_bytes=0", 400, "max_bytes must be a number from 1"),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_wrong(port: int, path: str, status: int, sentence: str) -> None:
    answer = ask(port, path)
    assert answer.status == status
    assert answer.json["error"].startswith(sentence)


def test_a_parameter_that_several_keys_do_not_take_is_named(port: int) -> None:
    answer = ask(port, "/stores/versions/get?as_of=5", b'{"keys": ["w0001"]}')
    assert (answer.status, answer.json["error"]) == (400, "a request for several keys does not have parameter 'as_of'")
    assert ask(port, "/stores/counts/get?isolation=read_committed", b'{"keys": ["w0001"]}').status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"keys": 3}', b"[" * 100_000])
def test_a_body_that_is_no_list_of_keys_is_named(port: int, body: bytes) -> None:
    answer = ask(port, "/stores/counts/get", body or b" ")
    assert answer.status == 400
    assert answer.json["error"].startswith("the body must be JSON such as")


def test_a_store_that_the_worker_has_closed_is_503(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        port = free_port()
        app = cluster.app(topology(), **listening(port), start=False)
        app.start()
        answers = {ask(port, "/stores/counts/get?key=a").status for _ in range(20)}
        assert answers <= {404, 503}
        cluster.until_state(app, ClientState.RUNNING)
        assert ask(port, "/stores/counts/get?key=a").status == 404
