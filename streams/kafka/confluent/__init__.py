"""The adapter of the ports to librdkafka, through confluent-kafka. The only room that imports it."""

from streams.kafka.confluent.clients import ConfluentClients

__all__ = ["ConfluentClients"]
