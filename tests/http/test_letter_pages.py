"""Dead letters over HTTP are listed and replayed where `http.allow.replay` is set, by pages of the worker only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsl import StreamsBuilder
from http_support.asking import Answer, ask, free_port, listening
from processor_api.clock import SystemClock
from processor_api.errors import ConfigError
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.config import StreamsConfig
from streams.kafka.ports import OffsetAndMetadata
from waiting import wait_until

NOW_MS = SystemClock().time_ms()
TOKEN = "a-token-of-this-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content_Type": "application/json"}


class Rule:
    """Fails for records that are not allowed yet."""

    def __init__(self) -> None:
        self.allowed = {"good"}

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        builder.stream("in").map_values(self.checked).to("out")
        return builder.build()

    def checked(self, value: str) -> str:
        if value not in self.allowed:
            raise ValueError(f"{value} is not allowed")
        return value


def started(cluster: Cluster, tmp_path: Path, rule: Rule, **more: Any) -> int:
    file, port = tmp_path / "token", free_port()
    file.write_text(TOKEN)
    cluster.broker.create_topic("dead", 1)
    cluster.start(
        rule.topology(),
        **listening(port),
        http_token_file=str(file),
        processing_exception_handler="LogAndContinueProcessingExceptionHandler",
        errors_dead_letter_queue_topic_name="dead",
        **{"http_allow_replay": True, **more},
    )
    return port


def listed(port: int) -> list[dict[str, Any]]:
    found = ask(port, "/dead-letters", **BEARER)
    assert found.status == 200, found.text
    letters: list[dict[str, Any]] = found.json["letters"]
    return letters


def replay(port: int, body: Any, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(port, "/dead-letters/replay", data, **{**BEARER, **JSON, **headers})


def test_letters_are_listed_with_the_newest_first_and_replayed_once(cluster: Cluster, tmp_path: Path) -> None:
    rule = Rule()
    port = started(cluster, tmp_path, rule)
    cluster.send("bad", "worse", timestamp=NOW_MS)
    wait_until("both are dead letters", lambda: len(listed(port)) == 2)
    (letter,) = [one for one in listed(port) if one["value"] == "bad"]
    assert letter["exception"] == "ValueError"
    assert (letter["message"], letter["topic"], letter["is_replayed"]) == ("bad is not allowed", "in", False)
    rule.allowed.add("bad")
    place = {name: letter[name] for name in ("partition", "offset")}
    assert replay(port, place).json == {"sent": 1, "topics": {"in": 1}, "left": {}}
    cluster.until_out("bad")
    assert replay(port, place).json == {"sent": 0, "topics": {}, "left": {}}
    assert {one["value"]: one["is_replayed"] for one in listed(port)} == {"bad": True, "worse": False}


def test_list_is_bounded_in_letters_and_in_text(cluster: Cluster, tmp_path: Path) -> None:
    port = started(cluster, tmp_path, Rule())
    cluster.send(*(f"{number:03}{'x' * 3_000}" for number in range(130)))
    wait_until("all are dead letters", lambda: (found := listed(port)) and found[0]["offset"] == 129)
    found = listed(port)
    assert len(found) == 100
    assert max(len(one["value"]) for one in found) < 600


def test_pages_are_not_there_unless_the_setting_allows_them(cluster: Cluster, tmp_path: Path) -> None:
    port = started(cluster, tmp_path, Rule(), http_allow_replay=False)
    assert ask(port, "/dead-letters", **BEARER).status == 404
    assert replay(port, {"partition": 0, "offset": 0}).status == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer of-somebody-else"}, 401),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "same-origin", "Origin": "OWN"}, 200),
    ],
)
def test_replay_needs_the_token_and_a_page_of_the_same_origin(
    cluster: Cluster, tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    port = started(cluster, tmp_path, Rule())
    cluster.send("bad", timestamp=NOW_MS)
    wait_until("it is a dead letter", lambda: len(listed(port)) == 1)
    given = {name: value.replace("OWN", f"http://127.0.0.1:{port}") for name, value in headers.items()}
    assert replay(port, {"partition": 0, "offset": 0}, **given).status == status
    assert listed(port)[-1]["is_replayed"] is (status == 200)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        [0, 1],
        {},
        {"partition": 0},
        {"partition": 0, "offset": -1},
        {"partition": 0, "offset": 1 << 70},
        {"partition": True, "offset": 0},
        {"partition": 0, "offset": 0, "more": 1},
    ],
)
def test_body_that_names_no_letter_is_refused(cluster: Cluster, tmp_path: Path, body: Any) -> None:
    port = started(cluster, tmp_path, Rule())
    found = replay(port, body)
    assert (found.status, "as JSON, such as" in found.json["error"]) == (400, True)


def test_letter_that_is_not_there_is_not_sent(cluster: Cluster, tmp_path: Path) -> None:
    port = started(cluster, tmp_path, Rule())
    assert replay(port, {"partition": 7, "offset": 7}).json == {"sent": 0, "topics": {}, "left": {}}


def test_offsets_of_another_program_are_the_reason_of_a_refusal(cluster: Cluster, tmp_path: Path) -> None:
    port = started(cluster, tmp_path, Rule())
    cluster.send("bad", timestamp=NOW_MS)
    wait_until("it is a dead letter", lambda: len(listed(port)) == 1)
    consumer = cluster.clients.consumer({"group.id": "app~dlq-replay"})
    consumer.commit({TopicPartition("dead", 0): OffsetAndMetadata(0, "hello")})
    consumer.close()
    found = replay(port, {"partition": 0, "offset": 0})
    assert (found.status, "does not record what was replayed" in found.json["error"]) == (503, True)


@pytest.mark.parametrize(
    ("left_out", "text"),
    [
        ("http.listen", "http.allow.replay is true, and http.listen or http.token.file is not set"),
        ("http.token.file", "http.allow.replay is true, and http.listen or http.token.file is not set"),
        ("errors.dead.letter.queue.topic.name", "errors.dead.letter.queue.topic.name is not set"),
    ],
)
def test_setting_needs_a_port_with_a_token_and_a_topic(tmp_path: Path, left_out: str, text: str) -> None:
    given = {
        "application.id": "app",
        "bootstrap.servers": "b:9092",
        "http.listen": "127.0.0.1:0",
        "http.token.file": str(tmp_path / "token"),
        "errors.dead.letter.queue.topic.name": "dead",
        "http.allow.replay": True,
    }
    assert StreamsConfig.of(given).http_allow_replay
    del given[left_out]
    with pytest.raises(ConfigError, match=text):
        StreamsConfig.of(given)


def test_shadow_replays_nothing(tmp_path: Path) -> None:
    given = {
        "application.id": "app",
        "bootstrap.servers": "b:9092",
        "http.listen": "127.0.0.1:0",
        "http.token.file": str(tmp_path / "token"),
        "errors.dead.letter.queue.topic.name": "dead",
        "http.allow.replay": True,
        "shadow.of": "other",
    }
    with pytest.raises(ConfigError, match=r"a shadow must not write"):
        StreamsConfig.of(given)
