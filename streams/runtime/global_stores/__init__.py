"""Global stores: one thread of a process fills them, every task reads them.

Imported by the application only. Start with :mod:`streams.runtime.global_stores.task`.
"""
