"""Guards, which stand before a store: they decide who may call what, and what happens with each call.

This room knows neither kinds nor engines, so that every other room may import it. Start with
:mod:`state.guards.guard`.
"""
