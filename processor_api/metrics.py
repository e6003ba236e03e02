"""Metrics of the user's own, as a processor sees them: names, sensors and statistics.

A sensor takes values; each of its metrics is a statistic of them. The statistics are in `streams.metrics`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class RecordingLevel(enum.IntEnum):
    """The level of a sensor: it takes values if its level is not above ``metrics.recording.level``."""

    INFO = 0
    DEBUG = 1
    TRACE = 2


@dataclass(frozen=True)
class MetricName:
    """The name of a metric: two that are equal in name, group and tags are the same metric."""

    name: str
    group: str
    description: str = field(default="", compare=False)
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


class Metric(Protocol):
    """A value that can be read at any time, from any thread."""

    @property
    def metric_name(self) -> MetricName:
        """The name, group and tags of the metric."""
        ...

    def metric_value(self) -> Any:
        """Returns the value: a number for all that is measured, text for versions and states."""
        ...


class Stat(Protocol):
    """A statistic of a sensor's values, such as an average or a rate."""

    def record(self, value: float, now_ms: int) -> None:
        """Takes a value at a wall-clock time in ms."""
        ...

    def measure(self, now_ms: int) -> float:
        """Returns the statistic as of a wall-clock time in ms."""
        ...


class Sensor(Protocol):
    """A sensor, which takes values for its metrics. Use it on the thread that made it."""

    @property
    def name(self) -> str:
        """The name that it was made with."""
        ...

    def record(self, value: float = 1.0, now_ms: int | None = None) -> None:
        """Takes a value, for its own metrics and for its parents.

        :param now_ms: the wall-clock time in ms; the current one if not given.
        """
        ...

    def should_record(self) -> bool:
        """Returns whether values are taken at the application's recording level."""
        ...

    def add(self, name: MetricName, stat: Stat) -> None:
        """Makes a metric of this sensor's values. Adding it again does nothing.

        :raises ValueError: if another sensor has a metric of this name.
        """
        ...


class StreamsMetrics(Protocol):
    """The metrics of an application, from ``context.metrics()`` (Kafka Streams' StreamsMetrics)."""

    def add_rate_total_sensor(
        self,
        scope: str,
        entity: str,
        operation: str,
        level: RecordingLevel = RecordingLevel.INFO,
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        """Makes a sensor of events with the metrics ``<operation>-rate`` (per second) and ``<operation>-total``.

        Their group is ``stream-<scope>-metrics``, their tags ``thread-id``, ``<scope>-id`` (the entity) and those
        given. The same names on the same thread give the same sensor.
        """
        ...

    def add_latency_rate_total_sensor(
        self,
        scope: str,
        entity: str,
        operation: str,
        level: RecordingLevel = RecordingLevel.INFO,
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        """Makes a sensor of events whose values are durations, in a unit of the user's choice.

        It has the metrics of :meth:`add_rate_total_sensor`, and ``<operation>-latency-avg`` and
        ``<operation>-latency-max``.
        """
        ...

    def add_sensor(self, name: str, level: RecordingLevel = RecordingLevel.INFO, *parents: Sensor) -> Sensor:
        """Makes a sensor without metrics, to which they are added by :meth:`Sensor.add`.

        The same name gives the same sensor.

        :param parents: sensors that take every value too.
        """
        ...

    def remove_sensor(self, sensor: Sensor) -> None:
        """Removes the sensor, its metrics and the sensors below it. Do so when the processor closes, unless the metrics
        shall outlast it."""
        ...

    def metrics(self) -> Mapping[MetricName, Metric]:
        """Returns the metrics of the users' own sensors, of all threads of this process."""
        ...
