"""Tasks: opened, restored, run, committed, closed.

Imported by threads, global stores and the test driver. Start with :mod:`streams.runtime.tasks.task`, then
:mod:`streams.runtime.threads.task_manager`.
"""
