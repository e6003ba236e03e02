"""Window and session stores: rows that belong to a key and a time, kept for a retention period.

Imported by the registry, the views and the offline readers. Start with :mod:`state.windowed.base`, then
:mod:`state.windowed.window`.
"""
