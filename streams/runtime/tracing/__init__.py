"""Follows chosen records through nodes, stores, changelogs and sinks (docs/following-a-record.md).

Off unless ``trace.keys`` or ``trace.every`` is set, and then nothing of it is called: the nodes, stores and producers
of a task are made with it or without it. Imported by the rooms above, from `processing` on. Start with
:mod:`streams.runtime.tracing.task_trace`.
"""
