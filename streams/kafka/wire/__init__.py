"""A small blocking client of Kafka's protocol, for the few requests of a group member that librdkafka never sends.

One of them it sends too: its client does not show the answer as it is (`offset_texts`)."""

from streams.kafka.wire.leave import leave_group
from streams.kafka.wire.offset_texts import offset_texts

__all__ = ["leave_group", "offset_texts"]
