"""Stores of a running task as other threads read them, at a chosen isolation level (KIP-892).

Imported by the runtime, which opens views for queries. Start with :mod:`state.read_views.view`;
``docs/decisions/stores.md`` ("Queries from other threads add no work to puts") says what is promised.
"""
