"""The version of the client that is loaded."""

from __future__ import annotations

import confluent_kafka


def librdkafka_version() -> str:
    """Returns the version of the library itself, which need not be that of the Python package around it."""
    version: str = confluent_kafka.libversion()[0]
    return version
