"""Stores of a running task as other threads read them, at a chosen isolation level (KIP-892).

Imported by the runtime, which opens views for queries. Start with :mod:`state.read_views.view`;
``docs/decisions/0013-views-of-running-stores.md`` says what is promised.
"""
