"""The store kinds that there are, and what is asked of every store whatever its kind.

A new kind is a line in :mod:`state.registry.kinds`, where to start. Imported by views, offline readers and the runtime.
"""
