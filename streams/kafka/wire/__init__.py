"""A small blocking client of Kafka's protocol, for the few requests of a group member that librdkafka never sends."""

from streams.kafka.wire.leave import leave_group

__all__ = ["leave_group"]
