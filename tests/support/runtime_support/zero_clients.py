"""Clients on a broker in memory that take timestamp 0 for the time of sending, as librdkafka does."""

from __future__ import annotations

from typing import Any

from streams.testing.broker import EmbeddedClients

__all__ = ["SENT_AT", "ZeroIsNowClients"]

SENT_AT = 4_000_000_000_000
"""The time that is in place of 0."""


class _ZeroIsNow:
    zero_timestamp_ms = 1

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, topic: str, *given: Any) -> None:
        *before, timestamp, headers = given
        self._producer.produce(topic, *before, timestamp or SENT_AT, headers)

    def produce_plain(self, topic: str, *given: Any) -> None:
        self.produce(topic, *given, None)


class ZeroIsNowClients(EmbeddedClients):
    def producer(self, config: Any) -> Any:
        return _ZeroIsNow(super().producer(config))
