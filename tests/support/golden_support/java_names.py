"""Java's class names in recordings, and what stands for them here. The only such table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from golden_support.user_code import continue_production, own_dead_letter, telling, value_time
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from streams.config import StreamsConfig

__all__ = ["BUILD_ERRORS", "DEFAULTS", "config_of", "unknown_classes"]

DEFAULTS: Mapping[str, Any] = {
    "application.id": "parity",
    "dsl.java.defects": "keep",
    "bootstrap.servers": "unused:9092",
    "default.key.serde": Serdes.STRING,
    "default.value.serde": Serdes.STRING,
}
"""The configuration under which the topology recordings were made."""

BUILD_ERRORS: Mapping[str, tuple[type[Exception], ...]] = {
    "TopologyException": (TopologyError,),
    "IllegalArgumentException": (TopologyError, ValueError),
}
"""What may be raised where Java's builder throws."""

_CLASSES: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("dsl.store.suppliers.class", "BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"): {
        "dsl.store.suppliers.class": "BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
    },
    ("default.timestamp.extractor", "Processors$ValueTime"): {"default.timestamp.extractor": value_time},
    ("processing.exception.handler", "Errors$Telling"): {"processing.exception.handler": telling},
    ("processing.exception.handler", "Errors$OwnDeadLetter"): {"processing.exception.handler": own_dead_letter},
    ("production.exception.handler", "Errors$ContinueProduction"): {
        "production.exception.handler": continue_production
    },
}
"""Settings that name a Java class, by the setting and the class without its package, and the settings meant by them."""

_WITHOUT_COUNTERPART = {"__iq.consistency.offset.vector.enabled__"}
"""Settings that there are no such here; what they do in the recordings stands in differences.toml."""


def config_of(recorded: Mapping[str, Any]) -> StreamsConfig:
    """A recording's settings over the defaults that all have.

    :raises ValueError: if a setting names a Java class that is not in the table.
    """
    if unknown := unknown_classes(recorded):
        raise ValueError(f"{unknown} are not in tests/support/golden_support/java_names.py")
    settings = dict(DEFAULTS)
    for name, value in recorded.items():
        if (simple := _java_class(value)) is not None:
            settings |= _CLASSES[name, simple]
        elif name not in _WITHOUT_COUNTERPART:
            settings[name] = value
    return StreamsConfig.of(settings)


def unknown_classes(recorded: Mapping[str, Any]) -> list[str]:
    """The settings that name a Java class without a counterpart here."""
    return [
        f"{name}={simple}"
        for name, value in recorded.items()
        if (simple := _java_class(value)) is not None and (name, simple) not in _CLASSES
    ]


def _java_class(value: Any) -> str | None:
    """The name without its package, if the value names a Java class. The configuration itself knows Java's handlers."""
    if not isinstance(value, str) or value.startswith("org.apache.kafka.streams.errors."):
        return None
    if value.startswith(("org.apache.kafka.", "parity.")):
        return value.rpartition(".")[2]
    return None
