"""Key-value stores: plain, timestamped, with headers, with a time to live, lists and LRU maps.

Each file is a store kind with its ``KINDS``. Imported by the registry and the views. Start with
:mod:`state.key_value.store`.
"""
