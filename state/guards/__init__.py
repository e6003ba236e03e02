"""What stands before a store: who may call what, and what happens with each call.

Knows neither kinds nor engines, so that anybody in the house may import it. Start with :mod:`state.guards.guard`.
"""
