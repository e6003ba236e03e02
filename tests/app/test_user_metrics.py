"""Metrics that a processor adds, in a running application and in one task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from processor_api.metrics import RecordingLevel
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from runtime_support.task_kit import TaskKit
from streams.metrics import Max
from streams.testing import MockProcessorContext
from waiting import wait_until


class Measuring(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        metrics = context.metrics()
        self.seen = metrics.add_rate_total_sensor("orders", str(context.task_id), "seen")
        self.detail = metrics.add_latency_rate_total_sensor("orders", "all", "detail", RecordingLevel.DEBUG)

    def process(self, record: Any) -> None:
        self.seen.record()
        self.detail.record(len(record.value))
        self.context.forward(record)


def measuring() -> Topology:
    topology = Topology().add_source("source", "in").add_processor("p", Measuring, "source")
    return topology.add_sink("sink", "out", "p")


def found(app: Any) -> dict[str, tuple[Any, dict[str, str]]]:
    return {
        name.name: (metric.metric_value(), dict(name.tags))
        for name, metric in app.metrics().items()
        if name.group == "stream-orders-metrics"
    }


def test_they_are_among_the_applications(cluster: Cluster) -> None:
    """With the thread's name, and kept when tasks are made anew."""
    app = cluster.app(measuring(), {"client.id": "me"})
    cluster.send("a", "bb")
    wait_until("both are counted", lambda: found(app).get("seen-total", (0,))[0] == 2)
    value, tags = found(app)["seen-total"]
    assert tags == {"thread-id": "me-StreamThread-1", "orders-id": "0_0"}
    assert found(app)["detail-total"][0] == 0.0
    assert 0 < found(app)["seen-rate"][0] < 1
    assert value == 2.0


def test_the_recording_level_and_the_windows_are_those_configured(cluster: Cluster) -> None:
    settings = {"metrics.recording.level": "DEBUG", "metrics.num.samples": 10, "metrics.sample.window.ms": 60_000}
    app = cluster.app(measuring(), settings)
    cluster.send("a", "bbb")
    wait_until("both are counted", lambda: found(app).get("detail-total", (0,))[0] == 2)
    assert found(app)["detail-latency-avg"][0] == 2.0
    assert found(app)["detail-latency-max"][0] == 3.0
    assert found(app)["seen-rate"][0] < 2 / 500  # two in ten windows of a minute


def test_a_task_alone_has_metrics_too(tmp_path: Path) -> None:
    """As in the test driver."""
    with TaskKit(measuring(), tmp_path) as kit:
        kit.pipe("in", b"k", b"v")
        metrics = kit.environment.users.metrics()
        sensor = metrics.add_sensor("more")
        assert {name.name for name in metrics.metrics()} == {
            "seen-rate",
            "seen-total",
            "detail-rate",
            "detail-total",
            "detail-latency-avg",
            "detail-latency-max",
        }
        metrics.remove_sensor(sensor)
        assert Max().measure(0) != 0


def test_a_mocked_context_has_metrics_too() -> None:
    """At its own time."""
    context = MockProcessorContext()
    processor = Measuring()
    processor.init(context)
    processor.process(Record("k", "value", 0))
    found = {name.name: metric.metric_value() for name, metric in context.metrics().metrics().items()}
    assert found["seen-total"] == 1.0
