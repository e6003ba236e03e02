"""The plans of an application, as data: which tasks a topology has on the topics that exist. Pure functions.

Imported by everything else in the runtime. Start with :mod:`streams.runtime.plan.task_plan`.
"""
