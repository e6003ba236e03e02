"""Errors of the bridge to PySpark."""

from __future__ import annotations

from processor_api.errors import StreamsError

__all__ = ["SparkBridgeError"]


class SparkBridgeError(StreamsError):
    """A request to the bridge that cannot be carried out; raised on the driver, before data moves where possible."""
