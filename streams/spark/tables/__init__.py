"""Reads topics, changelogs and stores into DataFrames, and writes DataFrames to topics."""
