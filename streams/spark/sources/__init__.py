"""Spark's data sources of topics and tables: the offsets of a read, its ranges, and their readers."""
