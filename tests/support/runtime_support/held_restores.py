"""Clients on the embedded broker whose restores wait until a test lets them go."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from runtime_support.running_app import Cluster
from streams.testing.broker import EmbeddedClients

__all__ = ["HeldConsumer", "HeldRestores"]


class HeldConsumer:
    """A consumer that gives no record until it is let go."""

    def __init__(self, consumer: Any, let_go: threading.Event) -> None:
        self._consumer, self._let_go = consumer, let_go

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, max_messages: int, timeout_s: float) -> Sequence[Any]:
        return self._consumer.consume(max_messages, timeout_s) if self._let_go.is_set() else []

    def poll(self, timeout_s: float) -> Any:
        return self._consumer.poll(timeout_s) if self._let_go.is_set() else None

    def position(self, partition: Any) -> int | None:
        found: int | None = self._consumer.position(partition) if self._let_go.is_set() else None
        return found


class HeldRestores(EmbeddedClients):
    """Clients whose restores get no record until they are let go."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.broker)
        self.let_go = threading.Event()
        self.held: list[HeldConsumer] = []

    def consumer(self, config: Mapping[str, Any]) -> Any:
        made = super().consumer(config)
        if not str(config.get("client.id", "")).endswith("restore-consumer"):
            return made
        self.held.append(HeldConsumer(made, self.let_go))
        return self.held[-1]
