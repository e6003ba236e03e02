"""The reader of an application's settings, for code that shapes a topology and cannot import their model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

SettingsReader = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Checks settings that were given under any of their names; returns those in effect under Kafka's dotted names."""

_READERS: list[SettingsReader] = []


def register_settings_reader(reader: SettingsReader) -> None:
    """Sets the reader of settings; it is asked when a mapping of settings is first given."""
    _READERS[:] = [reader]


def checked_settings(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the settings in effect under Kafka's dotted names; those given, where no reader is set.

    :raises ConfigError: if one is unknown or wrong.
    """
    return _READERS[0](given) if _READERS and given else given
