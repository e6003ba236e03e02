"""What is to run, as data: the tasks of a topology on the topics that there are. Pure functions.

Imported by everything else in the runtime. Start with :mod:`streams.runtime.plan.task_plan`.
"""
