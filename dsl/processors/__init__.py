"""Operators of the DSL: frozen values that are bound to a task as a function of key, value, timestamp and headers.

:mod:`dsl.plan` puts them into the plan, and the runtime binds them. They import only ``processor_api`` and the files
beside this room. Start with :mod:`dsl.processors.stateless`.
"""
