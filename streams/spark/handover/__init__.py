"""Hands the result of a backfill over to live workers."""
