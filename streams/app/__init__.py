"""The application: what a user starts and stops."""

from streams.app.kafka_streams import KafkaStreams

__all__ = ["KafkaStreams"]
