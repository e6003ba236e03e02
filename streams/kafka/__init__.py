"""The access of the runtime to Kafka: ports, and one adapter each for librdkafka and for the embedded broker."""
