"""The operators of windowed aggregations, one file for each kind of window.

Only :mod:`dsl.windows` makes them. Start with :mod:`dsl.processors.windows.time_windows`.
"""
