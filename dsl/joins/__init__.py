"""Joins: their windows, their options, and the functions that add them to the plan.

Imported by the fluent classes of :mod:`dsl.streams`; what runs is in :mod:`dsl.processors.joins`. Start with
``stream_stream`` for joins of streams, ``stream_table`` for joins of a stream with a table.
"""
