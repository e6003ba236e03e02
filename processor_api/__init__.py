"""The vocabulary of the framework: records, serdes, processors, store contracts and the topology as plain data.

Standard library only. Nothing here talks to Kafka, opens a file or starts a thread.
"""
