"""Brings local stores up to date with their changelogs.

Imported by the runtime. Start with :mod:`streams.restore.restorer`.
"""
