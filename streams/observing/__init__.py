"""The state of a worker as plain values, which can be printed, sent and compared."""
