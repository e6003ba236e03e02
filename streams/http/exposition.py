"""The metrics of an application in the formats of Prometheus and OpenMetrics.

They are made when they are asked for: between two scrapes they cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from processor_api.metrics import Metric as StreamsMetric
from processor_api.metrics import MetricName

PREFIX = "kafka_streams"
READY = f"{PREFIX}_ready"
MOST_TEXT = 200
"""Characters of a text that is shown as a label; a longer one, such as a topology, is left out."""

_READY_HELP = "whether the worker is healthy"
_STRANGE = re.compile(r"[^a-zA-Z0-9_]+")
_GROUP = re.compile(r"^stream-|-?metrics$")
_STORE_TAG = re.compile(r"^(.+)-state-id$")
_UNIT = re.compile(r"(.*)\bin (ns|ms)$")
_SECONDS = {"ns": 1e-9, "ms": 1e-3}

Metrics = Callable[[], Mapping[MetricName, StreamsMetric]]


def exposition(metrics: Metrics, is_ready: Callable[[], bool], accept: str) -> tuple[bytes, str]:
    """Returns the metrics in the format that a header ``Accept`` asks for, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(metrics, is_ready))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def joined(texts: Mapping[int, str | None], accept: str) -> tuple[bytes, str]:
    """Returns the metrics of several workers as one answer, each with the label ``worker``.

    :param texts: the answers of the workers in the format of Prometheus, by number; a worker that gave none is shown as
        not ready.
    :param accept: as in :func:`exposition`, and so is what is returned.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OfWorkers(texts))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _OfWorkers(Collector):
    def __init__(self, texts: Mapping[int, str | None]) -> None:
        self._texts = texts

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily(READY, _READY_HELP)
        families: dict[str, Metric] = {READY: ready}
        for number, text in self._texts.items():
            if text is None:
                ready.add_sample(READY, {"worker": str(number)}, 0.0)
                continue
            for family in text_string_to_metric_families(text):
                found = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    found.add_sample(sample.name, {**sample.labels, "worker": str(number)}, sample.value)
        yield from families.values()


class MetricsCollector(Collector):
    """Reads the metrics of an application when it is asked for them; for a registry of `prometheus_client`.

    :param metrics: `KafkaStreams.metrics`.
    :param is_ready: `KafkaStreams.is_ready`.
    """

    def __init__(self, metrics: Metrics, is_ready: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._is_ready = is_ready

    def describe(self) -> list[Metric]:
        """Returns nothing: what there is changes with the tasks."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields every family, each with the values of now; without those that are not a number yet."""
        yield GaugeMetricFamily(READY, _READY_HELP, value=float(self._is_ready()))
        families: dict[str, Metric] = {}
        seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        for name, metric in self._metrics().items():
            sample = PrometheusName(name)
            value = metric.metric_value()
            if value != value:  # a NaN, which would make one of each sum that it is in
                continue
            found = families.get(sample.family)
            if found is None:
                made = sample.make(value)
                if made is None:
                    continue
                found = families[sample.family] = made
            identity = sample.family, frozenset(sample.labels.items())
            if identity not in seen:  # a second value of one name would make the whole answer unreadable
                seen.add(identity)
                sample.add(found, value)
        yield from families.values()


class PrometheusName:
    """One metric's name, unit and labels as Prometheus has them."""

    def __init__(self, name: MetricName) -> None:
        group = _plain(_GROUP.sub("", name.group)) or "client"
        own = _plain(name.name)
        unit = _UNIT.fullmatch(name.description)
        self.factor = 1.0
        self.help = name.description or name.name
        if unit is not None:
            self.factor = _SECONDS[unit[2]]
            self.help = f"{unit[1]}in seconds"
            own += "_seconds"
        self.is_total = own.endswith("_total")
        self.family = f"{PREFIX}_{group}_{own}"
        self.labels = dict(_labels(name.tags))

    def make(self, value: object) -> Metric | None:
        """Returns the family of the metric; ``None`` if the value is none that can be shown."""
        if isinstance(value, str):
            return InfoMetricFamily(self.family, self.help) if len(value) <= MOST_TEXT else None
        if self.is_total:
            return CounterMetricFamily(self.family, self.help)
        return GaugeMetricFamily(self.family, self.help)

    def add(self, family: Metric, value: object) -> None:
        if isinstance(family, InfoMetricFamily):
            family.add_sample(f"{self.family}_info", {**self.labels, "value": str(value)[:MOST_TEXT]}, 1.0)
        elif isinstance(value, (int, float)):  # bool among them
            family.add_sample(self.family, self.labels, float(value) * self.factor)


def _labels(tags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in tags.items():
        store = _STORE_TAG.match(name)
        if store is not None:  # the name of the tag says which kind of store it is
            yield "store_kind", store[1]
            yield "store", str(value)
        else:
            yield _plain(name), str(value)


def _plain(name: str) -> str:
    return _STRANGE.sub("_", name).strip("_")
