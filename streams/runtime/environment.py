"""What the nodes of one task share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import ConfigError
from processor_api.serde import Serde
from processor_api.task_id import TaskId
from processor_api.timestamps import TimestampExtractor
from state.cursor import Cursor
from streams.runtime.error_policy import ErrorPolicy

__all__ = ["Environment", "TaskMetrics", "resolve_serde"]


@dataclass
class TaskMetrics:
    """Plain counters of one task, published by the batch."""

    records_processed: int = 0
    dropped_records: int = 0
    punctuations: int = 0


@dataclass(kw_only=True)
class Environment:
    """Of one task."""

    application_id: str
    task_id: TaskId
    clock: Clock
    state_dir: Path
    app_configs: Callable[[], Mapping[str, Any]]
    default_key_serde: Serde[Any] | None
    default_value_serde: Serde[Any] | None
    default_timestamp_extractor: TimestampExtractor | None
    errors: ErrorPolicy
    cursor: Cursor = field(default_factory=Cursor)
    metrics: TaskMetrics = field(default_factory=TaskMetrics)
    commit_requested: bool = False

    def key_serde(self, given: Serde[Any] | None, what: str, topic: str) -> Serde[Any]:
        """The serde of keys in a topic, bound to it."""
        return resolve_serde(given, self.default_key_serde, what, "key").bind(topic, is_key=True)

    def value_serde(self, given: Serde[Any] | None, what: str, topic: str) -> Serde[Any]:
        """The serde of values in a topic, bound to it."""
        return resolve_serde(given, self.default_value_serde, what, "value").bind(topic, is_key=False)


def resolve_serde(given: Serde[Any] | None, default: Serde[Any] | None, what: str, part: str) -> Serde[Any]:
    """The serde given, or the application's default.

    :raises ConfigError: if there is neither.
    """
    if given is not None:
        return given if default is None else given.with_default(default)
    if default is None:
        raise ConfigError(
            f"{what} has no {part} serde and the application has no default: give {part}_serde there, or set"
            f" default.{part}.serde"
        )
    return default
