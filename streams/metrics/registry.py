"""The sensors and metrics of a process, and the access to them for the processors of a stream thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from processor_api.metrics import Metric, MetricName, RecordingLevel, Sensor, Stat
from streams.metrics.stats import (
    DEFAULT_SAMPLES,
    DEFAULT_WINDOW_MS,
    Avg,
    CumulativeCount,
    Max,
    Rate,
    Sampled,
    WindowedCount,
)
from streams.metrics.windows import SampleWindows


class Gauge:
    """A metric whose value is worked out when it is read."""

    __slots__ = ("_read", "metric_name")

    def __init__(self, name: MetricName, read: Callable[[], Any]) -> None:
        self.metric_name = name
        self._read = read

    def metric_value(self) -> Any:
        return self._read()

    def __repr__(self) -> str:
        return f"Gauge({self.metric_name.name!r}, {self.metric_name.group!r}, value={self.metric_value()!r})"


class _Sensor:
    """Implements `processor_api.metrics.Sensor`."""

    def __init__(self, name: str, metrics: Metrics, takes: bool, parents: tuple[_Sensor, ...]) -> None:
        self.name = name
        self.parents = parents
        self.metric_names: list[MetricName] = []
        self._metrics = metrics
        self._takes = takes
        self._stats: tuple[Stat, ...] = ()
        self._now_ms = metrics.now_ms

    def should_record(self) -> bool:
        return self._takes

    def record(self, value: float = 1.0, now_ms: int | None = None) -> None:
        if not self._takes:
            return
        if now_ms is None:
            now_ms = self._now_ms()
        for stat in self._stats:
            stat.record(value, now_ms)
        for parent in self.parents:
            parent.record(value, now_ms)

    def add(self, name: MetricName, stat: Stat) -> None:
        self._metrics.add_stat(self, name, stat)

    def attach(self, stat: Stat) -> None:
        """Adds a statistic that gets every value from now on."""
        self._stats = (*self._stats, stat)


class Metrics:
    """The metrics of one process; may be used by any thread.

    :param now_ms: the wall-clock time
    :param samples: ``metrics.num.samples``
    :param window_ms: ``metrics.sample.window.ms``
    :param level: ``metrics.recording.level``
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        samples: int = DEFAULT_SAMPLES,
        window_ms: int = DEFAULT_WINDOW_MS,
        level: RecordingLevel = RecordingLevel.INFO,
    ) -> None:
        self.now_ms = now_ms
        self._samples = samples
        self._window_ms = window_ms
        self.level = level
        """The level up to which metrics are recorded."""
        self._lock = threading.RLock()
        self._sensors: dict[str, _Sensor] = {}
        self._metrics: dict[MetricName, Gauge] = {}

    def takes(self, level: RecordingLevel) -> bool:
        """Whether metrics of this level are recorded."""
        return level <= self.level

    def windows(self, of: Any, totals: Sequence[str], maxima: Sequence[str] = ()) -> SampleWindows:
        """Returns :class:`~streams.metrics.windows.SampleWindows`, as many and as long as configured."""
        return SampleWindows(of, totals, maxima, now_ms=self.now_ms, samples=self._samples, window_ms=self._window_ms)

    def sampled_as_configured(self, *stats: Sampled) -> None:
        """Gives statistics as many windows as are configured, as long as configured."""
        for stat in stats:
            stat.sample_by(self._samples, self._window_ms)

    def sensor(self, name: str, level: RecordingLevel = RecordingLevel.INFO, *parents: Sensor) -> Sensor:
        """Returns the sensor of this name; makes it if there is none.

        :raises ValueError: if a parent is not one of these sensors.
        """
        with self._lock:
            found = self._sensors.get(name)
            if found is None:
                known = tuple(self._known(parent) for parent in parents)
                found = self._sensors[name] = _Sensor(name, self, self.takes(level), known)
            return found

    def _known(self, sensor: Sensor) -> _Sensor:
        found = self._sensors.get(sensor.name)
        if found is not sensor or found is None:
            raise ValueError(
                f"sensor {sensor.name!r} does not belong to this application, or was removed: add it again with"
                " context.metrics()"
            )
        return found

    def add_stat(self, sensor: _Sensor, name: MetricName, stat: Stat) -> None:
        """Adds a statistic to a sensor, as `Sensor.add`."""
        with self._lock:
            if name in sensor.metric_names:
                return
            if name in self._metrics:
                raise ValueError(
                    f"metric {name.name!r} of group {name.group!r} with these tags already exists: choose another"
                    " name or tags"
                )
            sample_by = getattr(stat, "sample_by", None)
            if sample_by is not None:
                sample_by(self._samples, self._window_ms)
            now_ms = self.now_ms
            self._metrics[name] = Gauge(name, lambda: stat.measure(now_ms()))
            sensor.metric_names.append(name)
            sensor.attach(stat)

    def remove_sensor(self, sensor: Sensor) -> None:
        """Removes a sensor with its metrics and the sensors below it; one that was removed before is ignored."""
        with self._lock:
            found = self._sensors.get(sensor.name)
            if found is None or found is not sensor:
                return
            del self._sensors[sensor.name]
            for name in found.metric_names:
                self._metrics.pop(name, None)
            for other in [one for one in self._sensors.values() if found in one.parents]:
                self.remove_sensor(other)

    def metrics(self) -> dict[MetricName, Metric]:
        with self._lock:
            return dict(self._metrics)


class ThreadMetrics:
    """Implements `processor_api.metrics.StreamsMetrics` for the processors of one stream thread."""

    def __init__(self, metrics: Metrics, thread: str) -> None:
        self._metrics = metrics
        self._thread = thread

    def add_rate_total_sensor(
        self,
        scope: str,
        entity: str,
        operation: str,
        level: RecordingLevel = RecordingLevel.INFO,
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        sensor = self._metrics.sensor(self._name(scope, entity, operation, tags), level)
        self._add_rate_and_total(sensor, scope, entity, operation, tags)
        return sensor

    def add_latency_rate_total_sensor(
        self,
        scope: str,
        entity: str,
        operation: str,
        level: RecordingLevel = RecordingLevel.INFO,
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        sensor = self._metrics.sensor(self._name(scope, entity, operation, tags), level)
        self._add(sensor, f"{operation}-latency-avg", f"mean latency of {operation}", scope, entity, tags, Avg())
        self._add(sensor, f"{operation}-latency-max", f"largest latency of {operation}", scope, entity, tags, Max())
        self._add_rate_and_total(sensor, scope, entity, operation, tags)
        return sensor

    def _add_rate_and_total(
        self, sensor: Sensor, scope: str, entity: str, operation: str, tags: Mapping[str, str] | None
    ) -> None:
        rate = Rate(WindowedCount())
        self._add(sensor, f"{operation}-rate", f"{operation} events per second", scope, entity, tags, rate)
        self._add(sensor, f"{operation}-total", f"{operation} events", scope, entity, tags, CumulativeCount())

    def _add(
        self,
        sensor: Sensor,
        name: str,
        description: str,
        scope: str,
        entity: str,
        tags: Mapping[str, str] | None,
        stat: Stat,
    ) -> None:
        all_tags = {"thread-id": self._thread, f"{scope}-id": entity, **(tags or {})}
        sensor.add(MetricName(name, f"stream-{scope}-metrics", description, all_tags), stat)

    def _name(self, scope: str, entity: str, operation: str, tags: Mapping[str, str] | None) -> str:
        extra = "".join(f".{name}.{value}" for name, value in sorted((tags or {}).items()))
        return f"external.{self._thread}.{scope}.{entity}.{operation}{extra}"

    def add_sensor(self, name: str, level: RecordingLevel = RecordingLevel.INFO, *parents: Sensor) -> Sensor:
        return self._metrics.sensor(name, level, *parents)

    def remove_sensor(self, sensor: Sensor) -> None:
        self._metrics.remove_sensor(sensor)

    def metrics(self) -> Mapping[MetricName, Metric]:
        return self._metrics.metrics()
