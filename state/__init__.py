"""Stores: what bytes mean, over one storage port. No Kafka and no threads."""
