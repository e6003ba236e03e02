"""The membership of a worker in its group, by which it gets its tasks: the port, and Kafka's groups behind it."""
