"""Java's class names in recordings, and what stands for them here. The only such table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processor_api.errors import TopologyError
from processor_api.serde import Serdes

__all__ = ["BUILD_ERRORS", "DEFAULTS", "config_value", "translate_config"]

DEFAULTS: Mapping[str, Any] = {
    "application.id": "parity",
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

_VALUES: Mapping[str, Any] = {}


def config_value(value: Any) -> Any:
    """A recorded setting's value: a Java class name becomes what stands for it.

    :raises ValueError: if the class is not in the table.
    """
    if not isinstance(value, str) or not value.startswith(("org.apache.kafka.", "parity.")):
        return value
    if value not in _VALUES:
        raise ValueError(f"the Java class {value!r} is not in tests/support/golden_support/java_names.py")
    return _VALUES[value]


def translate_config(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of every recording with a case's own settings over them."""
    return {**DEFAULTS, **{name: config_value(value) for name, value in recorded.items()}}
