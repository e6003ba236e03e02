"""The part of a backfill that runs on Spark's executors: one task of a topology over its history."""
