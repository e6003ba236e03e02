"""Stores that users write: each has an engine to itself, through which commits and restores reach it.

The contract is :mod:`processor_api.stores.custom`. Imported by the registry, the views and the runtime. Start with
:mod:`state.custom.store`, then :mod:`state.custom.engine`.
"""
