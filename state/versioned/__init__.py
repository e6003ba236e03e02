"""Versioned key-value stores (KIP-889).

Imported by the registry, the views and the offline readers. Start with :mod:`state.versioned.store`.
"""
