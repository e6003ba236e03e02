"""What joins run: operators that look for the partners of a record.

Imported by :mod:`dsl.joins`, which puts them into the plan. Start with ``stream_table``, the smallest one.
"""
