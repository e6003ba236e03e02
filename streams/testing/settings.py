"""The configuration of the test tools, and suggestions for names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from processor_api.user_code.durations import whole_number
from streams.config import StreamsConfig

DEFAULTS: dict[str, Any] = {"application.id": "test-application", "bootstrap.servers": "embedded:9092"}

THROTTLES = ("outer_join_emit_interval_ms", "windowed_aggregation_emit_interval_ms")
"""Settings that hold results back by the wall clock, which is stopped in a test: 0 unless they are given."""


def config_for_tests(config: StreamsConfig | Mapping[str, Any] | None) -> StreamsConfig:
    """Returns a configuration, also from settings without an application id and a broker.

    :raises ConfigError: if a setting is wrong.
    """
    found = config if isinstance(config, StreamsConfig) else StreamsConfig.of(with_defaults(config))
    return found.model_copy(update={name: 0 for name in THROTTLES if found.origin(name) == "default"})


def with_defaults(settings: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """Returns settings over the defaults and ``more``, whose names are in snake case; any name may be given in either
    form."""
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError(f"settings must be a mapping of names to values or a StreamsConfig, got {repr_of(settings)}")
    defaults = DEFAULTS | {name.replace("_", "."): value for name, value in more.items()}
    names = {name.replace(".", "_"): name for name in defaults}
    return defaults | {names.get(name, name): value for name, value in (settings or {}).items()}


def checked_partitions(given: Mapping[str, int] | None) -> dict[str, int]:
    """Returns the numbers of partitions of topics.

    :raises TypeError: if they are not mapping of topics to numbers.
    :raises ValueError: if a number is less than 1.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"partitions must be a mapping of topics to numbers, such as {{'out': 12}}, got {repr_of(given)}"
        )
    found = {}
    for topic, count in given.items():
        number = whole_number(count)
        if number is None or not isinstance(topic, str):
            raise TypeError(f"partitions maps names of topics to numbers, got {repr_of(topic)}: {repr_of(count)}")
        if number < 1:
            raise ValueError(f"topic {repr_of(topic)} must have at least 1 partition, got {number}")
        found[topic] = number
    return found


def nearest(name: object, known: Iterable[str]) -> str:
    """Returns the names that were perhaps meant, else all that exist, for the end of a sentence."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names) if isinstance(name, str) else []
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; there are {', '.join(map(repr, names))}" if names else "; there are none"
