"""The storage of an application: its engines, the memory for buffers, the recovery of damaged state.

Imported by tasks and threads. Start with :mod:`streams.runtime.engines.opener`.
"""
