"""Turns the plan of a builder into the topology that runs.

Reads the frozen nodes of :mod:`dsl.plan` and never changes them: passes over the plan first (shared sources, shared
repartition topics, which tables need a store), then one node after the other. Only :mod:`dsl.builder` imports it. Start
with :mod:`dsl.compiler.compile`.
"""
