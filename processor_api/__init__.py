"""The vocabulary: records, processors, stores as contracts, the topology as plain data."""
