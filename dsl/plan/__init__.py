"""The plan: what calls on streams and tables add up to, as frozen nodes.

:mod:`dsl.plan.nodes` says which nodes there are; ``stream_nodes``, ``table_nodes`` and the others have a function for
each call of a user. Imported by the fluent classes and by :mod:`dsl.compiler`; knows nothing of either. Start with
:mod:`dsl.plan.nodes`, then :mod:`dsl.plan.builder`.
"""
