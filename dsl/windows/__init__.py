"""Windows of time: what they are, and the nodes and stores of aggregations over them.

The operators that run are in :mod:`dsl.processors.windows`. Only the DSL imports it. Start with
:mod:`dsl.windows.definitions`; then :mod:`dsl.windows.aggregations` says what a call adds to the plan.
"""
