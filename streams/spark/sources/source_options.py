"""Options of the data sources when they are named in SQL or ``spark.read.format``: ours, and Kafka's settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from streams.config import StreamsConfig
from streams.spark.errors import SparkBridgeError
from streams.spark.sources.offsets import cluster_settings

_SHORT = {"key.serde": "default.key.serde", "value.serde": "default.value.serde"}


def settings_of(
    options: Mapping[str, str], format_name: str, *, required: Collection[str], known: Collection[str]
) -> tuple[dict[str, str], StreamsConfig]:
    """Returns the options of the data source itself, and the configuration that the others make.

    :raises SparkBridgeError: if a required one is missing.
    :raises ConfigError: if another one is no setting.
    """
    own = {name: value for name, value in options.items() if name in known}
    for name in required:
        if name not in own:
            raise SparkBridgeError(f"the format {format_name} needs the option {name!r}")
    if "bootstrap.servers" not in options and "bootstrap_servers" not in options:
        raise SparkBridgeError(f"the format {format_name} needs the option 'bootstrap.servers', the brokers' addresses")
    rest: dict[str, Any] = {_SHORT.get(name, name): value for name, value in options.items() if name not in known}
    rest.pop("path", None)
    return own, cluster_settings(rest)
