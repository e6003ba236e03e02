"""Spans of OpenTelemetry for records on their way through a task (docs/monitoring.md#tracing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from processor_api.errors import ConfigError
from streams.runtime.processing.probe import RecordWatch

if TYPE_CHECKING:
    from streams.config import StreamsConfig


def spans_by(config: StreamsConfig) -> RecordWatch | None:
    """Returns what makes the spans of an application; ``None`` where ``otel.traces`` is not set, without an import of
    OpenTelemetry.

    :raises ConfigError: if OpenTelemetry is not installed.
    """
    if config.otel_traces is None:
        return None
    try:
        from streams.telemetry.spans import watch_of
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ConfigError(
            "otel.traces needs OpenTelemetry: pip install 'streams-for-kafka[otel]', and the SDK with an exporter"
        ) from None
    return watch_of(config, config.otel_traces)
