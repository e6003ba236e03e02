"""Follows chosen records through nodes, stores, changelogs and sinks (docs/following-a-record.md).

Off unless ``trace.keys`` or ``trace.every`` is set. The rooms below know it as their probe
(:mod:`streams.runtime.processing.probe`). Start with :mod:`streams.runtime.tracing.task_trace`.
"""
