"""librdkafka behind the ports, through confluent-kafka. The only room that imports it."""

from streams.kafka.confluent.clients import ConfluentClients

__all__ = ["ConfluentClients"]
