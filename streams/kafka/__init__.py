"""The runtime's way to Kafka: ports, and an adapter each for librdkafka and for the embedded broker."""
