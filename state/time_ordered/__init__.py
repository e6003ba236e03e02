"""Buffers in which operators of the DSL let records wait, ordered by time: suppressions and joins with grace.

Imported by the registry and the offline readers. Start with :mod:`state.time_ordered.buffer`.
"""
