"""Reads the settings that a topology is built with: by the same rules as those of an application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streams.config.model import StreamsConfig

_MADE_UP = {"application.id": "topology", "bootstrap.servers": "localhost:9092"}
"""The settings that an application must have, and a topology alone need not."""


def read_topology_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in effect under Kafka's dotted names; without those that every application needs, unless
    they are given.

    :raises ConfigError: with one sentence for each setting that is unknown or wrong.
    """
    names = {str(name).replace("_", ".") for name in given}
    added = {name: value for name, value in _MADE_UP.items() if name not in names}
    found = StreamsConfig.of({**added, **given}).dotted()
    return {name: value for name, value in found.items() if name not in added}
