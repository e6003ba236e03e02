"""The Kafka clients that the tasks of one stream thread share."""

from __future__ import annotations

from dataclasses import dataclass

from streams.kafka.ports import Admin, Consumer, Producer


@dataclass(frozen=True)
class ThreadClients:
    """Holds the Kafka clients of one stream thread. Each thread has its own, but for the admin client."""

    consumer: Consumer
    """Reads the inputs of tasks, and is the member of the group."""
    restore_consumer: Consumer
    """Reads committed records of changelogs."""
    producer: Producer
    admin: Admin
