"""The pages about a worker: probes, state, metrics and topology."""

from __future__ import annotations

import math
import socket
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from http_support.asking import ask, free_port, listening
from processor_api.errors import ConfigError, StreamsError
from processor_api.metrics import MetricName
from runtime_support.running_app import Cluster, counting
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.http.exposition import exposition
from streams.metrics.registry import Gauge
from waiting import wait_until

RUNNING = ClientState.RUNNING


def started(cluster: Cluster, **settings: Any) -> tuple[KafkaStreams, int]:
    port = free_port()
    return cluster.start(counting(), **listening(port), **settings), port


def test_probes_say_whether_the_worker_lives_and_is_ready(cluster: Cluster) -> None:
    app, port = started(cluster)
    assert ask(port, "/live").json == {"state": "RUNNING"}
    assert ask(port, "/ready").json == {"ready": True, "state": "RUNNING"}
    app.close()
    with pytest.raises(urllib.error.URLError, match="refused"):
        ask(port, "/live")


def test_readiness_has_limits_for_lag_and_commits(cluster: Cluster) -> None:
    app, port = started(cluster)
    cluster.send("a")
    wait_until("it has caught up", lambda: ask(port, "/ready?max_lag=0").status == 200)
    found = ask(port, "/ready?max_lag=0&max_commit_age_ms=3600000").json
    assert (found["ready"], found["lag"]) == (True, 0)
    assert 0 <= found["commit_age_ms"] < 3_600_000
    app.pause()
    cluster.send("b", "c")
    wait_until("two wait", lambda: ask(port, "/ready?max_lag=2").json["lag"] == 2)
    assert [ask(port, f"/ready?max_lag={most}").status for most in (1, 2)] == [503, 200]
    assert ask(port, "/ready").status == 200
    for query in ("max_lag=-1", "max_lag=x", "max_lags=1", "max_commit_age_ms="):
        assert ask(port, f"/ready?{query}").status == 400, query


def test_the_port_is_free_after_the_close_and_can_be_taken_again(cluster: Cluster) -> None:
    app, port = started(cluster)
    app.close()
    again = cluster.app(counting(), http_listen=f"127.0.0.1:{port}")
    cluster.until_state(again, RUNNING)
    assert ask(port, "/live").status == 200


def test_a_port_in_use_is_one_clear_error_before_anything_is_opened(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StreamsError, match=f"cannot listen on http.listen 127.0.0.1:{port}: Address already"):
            cluster.app(counting(), http_listen=f"127.0.0.1:{port}")


def test_the_state_names_the_tasks(cluster: Cluster) -> None:
    app, port = started(cluster)
    found = ask(port, "/state?worker=self").json
    assert (found["application_id"], found["state"], found["ready"]) == ("app", "RUNNING", True)
    assert [task["id"] for task in found["tasks"]] == ["0_0", "0_1"]
    assert found["endpoint"] == app.status().endpoint == f"http://127.0.0.1:{port}"
    whole = ask(port, "/state").json
    assert [one["client_id"] for one in whole["workers"]] == [found["client_id"]]
    assert (whole["ready"], whole["missing"], whole["totals"]["tasks"]) == (True, [], 2)
    assert {one["cause"] for one in whole["reasons"]} <= {"empty-topic", "not-read"}
    other = ask(port, "/state?worker=2")
    assert (other.status, other.json["error"].partition(":")[0]) == (400, "worker must be self, got '2'")


def test_metrics_are_read_by_prometheus(cluster: Cluster) -> None:
    _, port = started(cluster)
    cluster.send("a", "b", "c")
    wait_until("a result", lambda: cluster.values("out"))
    answer = ask(port, "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    families = {family.name: family for family in prometheus(answer.text)}
    assert families["kafka_streams_ready"].samples[0].value == 1.0
    processed = families["kafka_streams_task_process"]
    assert processed.type == "counter"
    assert sum(sample.value for sample in processed.samples) == 3.0
    assert {sample.labels["task_id"] for sample in processed.samples} == {"0_0", "0_1"}


def test_metrics_are_read_as_openmetrics_too(cluster: Cluster) -> None:
    _, port = started(cluster)
    answer = ask(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert "kafka_streams_client_state" in {family.name for family in openmetrics(answer.text)}


def test_the_topology_is_shown_as_json_text_and_picture(cluster: Cluster) -> None:
    app, port = started(cluster)
    found = ask(port, "/topology").json
    assert [box["name"] for box in found["topics"]] == ["in", "out"]
    assert ask(port, "/topology?format=text").text == app.topology.describe()
    assert ask(port, "/topology?format=svg").text.startswith("<svg")
    refused = ask(port, "/topology?format=pdf")
    assert (refused.status, refused.json["error"]) == (
        400,
        "format must be one of json, text, svg, got 'pdf'",
    )


def test_an_unknown_page_is_named(cluster: Cluster) -> None:
    _, port = started(cluster)
    answer = ask(port, "/nothing")
    assert answer.status == 404
    assert answer.json["error"].startswith("page '/nothing' does not exist; the pages are /live, /ready")


def test_a_token_file_that_is_missing_or_short_is_a_clear_error(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"http\.token\.file .* cannot be read: No such file"):
        cluster.app(counting(), http_listen="127.0.0.1:0", http_token_file=str(tmp_path / "none"))
    (tmp_path / "short").write_text("secret")
    with pytest.raises(ConfigError, match="must hold one word of at least 16 characters"):
        cluster.app(counting(), http_listen="127.0.0.1:0", http_token_file=str(tmp_path / "short"))


def test_a_metric_that_is_not_a_number_yet_is_left_out() -> None:
    """The lag of one partition that was never read made the sum of all, and alerts on it, nothing."""
    lag = [MetricName("records-lag", "consumer-fetch-manager-metrics", "lag", {"partition": n}) for n in "01"]
    metrics = {name: Gauge(name, lambda value=value: value) for name, value in zip(lag, (5.0, math.nan), strict=True)}
    text = exposition(lambda: metrics, lambda: True, "text/plain")[0].decode()
    samples = [sample for family in prometheus(text) for sample in family.samples if "lag" in sample.name]
    assert [(sample.labels, sample.value) for sample in samples] == [({"partition": "0"}, 5.0)]
