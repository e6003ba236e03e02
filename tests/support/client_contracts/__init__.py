"""The contracts of Kafka clients and memberships, kept by the adapter of librdkafka and by the broker in memory."""
