"""Runs a topology over history in Spark, stage by stage."""
