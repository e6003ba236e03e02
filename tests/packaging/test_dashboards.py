"""The board of Grafana and the rules of Prometheus ask for metrics that a worker exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from processor_api.metrics import Metric, MetricName
from processor_api.record import DropReason
from streams import Materialized, StreamsBuilder
from streams.app.client_metrics import client_statistics_metrics
from streams.http.exposition import exposition
from streams.kafka.client_statistics import BrokerFigures, ClientStatistics
from streams.testing import EmbeddedKafka
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\bkafka_streams_\w+")
LABELS = re.compile(r"(kafka_streams_\w+)\{([^}]*)\}|by \(([^)]*)\)|\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


BROKER = BrokerFigures(
    node=1,
    address="b1:9092",
    state="UP",
    partitions=1,
    latency_avg_ms=1.0,
    latency_p99_ms=1.0,
    latency_max_ms=1.0,
    throttle_avg_ms=0.0,
    requests=1,
    responses=1,
    bytes_out=1,
    bytes_in=1,
    queued=0,
    in_flight=0,
    timeouts=0,
    connects=1,
    disconnects=0,
)
PRODUCER = ClientStatistics(
    client_id="me-producer",
    is_producer=True,
    brokers=(BROKER,),
    topics=(),
    queued_records=0,
    queued_bytes=0,
    queue_bytes_max=1,
)


def yaml(name: str) -> Any:
    return YAML(typ="safe").load(DEPLOY / name)


def queries() -> Iterator[tuple[str, str, str]]:
    """Where a query stands, the query, and what is written about its result."""
    board = json.loads((DEPLOY / "grafana" / "streams.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"], ""
    for group in yaml("prometheus/alerts.yml")["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"], rule["annotations"]["summary"] + rule["annotations"]["description"]
    page = (ROOT / "docs" / "deployment.md").read_text()
    for number, query in enumerate(re.findall(r"^ +query: (.+)$", page, re.MULTILINE)):
        yield f"docs/deployment.md-{number}", query, ""


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of each metric that a worker exports with the default settings."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    counts = builder.stream("in").group_by_key().count(materialized=Materialized(name="counts"))
    counts.to_stream().to("out", value_serde="long")
    found: dict[str, set[str]] = {}

    def all_metrics() -> dict[MetricName, Metric]:
        clients = client_statistics_metrics([PRODUCER])  # the clients of a broker in memory have no such figures
        return {**app.metrics(), **{metric.metric_name: metric for metric in clients}}

    def has_all() -> bool:
        text = exposition(all_metrics, app.is_ready, "text/plain")[0].decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return {
            "kafka_streams_processor_node_no_result_records_total",
            "kafka_streams_consumer_fetch_manager_records_lag",
            "kafka_streams_thread_commit_latency_max_seconds",
        } <= found.keys()

    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        app = kafka.start(builder)
        topic = kafka.create_input_topic("in")
        topic.pipe_input("k", "v")
        topic.pipe_input(None, "v")
        kafka.read_records("out", 1, value_serde="long")
        wait_until("the metrics are there", has_all)
    return found


@pytest.mark.parametrize(("place", "query", "text"), [pytest.param(*one, id=one[0]) for one in queries()])
def test_a_query_names_what_a_worker_exports(place: str, query: str, text: str, exported: dict[str, set[str]]) -> None:
    """Metrics, and the labels by which they are chosen, added up and named."""
    names = METRIC.findall(query)
    assert names or query.startswith("up{"), place
    assert set(names) <= set(exported)
    labels = {"job", "instance"}.union(*(exported[name] for name in names))
    for _, chosen, by, named in LABELS.findall(query + text):
        given = re.findall(r"(\w+)=", chosen) + [one.strip() for one in by.split(",") if one.strip()] + [named]
        assert set(filter(None, given)) <= labels, place


def test_reasons_are_those_that_there_are() -> None:
    known = {reason.name.lower().replace("_", "-") for reason in DropReason}
    named = {
        one for _, query, _ in queries() for text in re.findall(r'reason=~"([^"]*)"', query) for one in text.split("|")
    }
    assert named
    assert named <= known


def test_panels_do_not_lie_on_each_other() -> None:
    panels = json.loads((DEPLOY / "grafana" / "streams.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    fields: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert fields.isdisjoint(own), panel["title"]
        assert place["x"] + place["w"] <= 24
        fields |= own


def test_what_is_mounted_is_there() -> None:
    """And the files name each other as they are mounted."""
    services = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]
    mounted = {
        volume.split(":")[1]: ROOT / volume.split(":")[0]
        for name in ("prometheus", "grafana")
        for volume in services[name]["volumes"]
    }
    files = {place: path for place, path in mounted.items() if path.name not in ("prometheus-data", "grafana-data")}
    assert all(path.exists() for path in files.values())
    (provider,) = yaml("grafana/provisioning/dashboards/streams.yml")["providers"]
    assert f"{provider['options']['path']}/streams.json" in files
    settings = yaml("prometheus/prometheus.yml")
    assert all((DEPLOY / "prometheus" / name).is_file() for name in settings["rule_files"])
    (job,) = settings["scrape_configs"]
    assert job["dns_sd_configs"][0]["names"] == ["worker"]
    jobs = {found for _, query, _ in queries() for found in re.findall(r'^up\{job="(\w+)"', query)}
    assert jobs == {job["job_name"]}
