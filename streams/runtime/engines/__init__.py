"""The storage of an application: which engine a store is opened on, how much memory there is, what damage leads to.

Imported by tasks and threads. Start with :mod:`streams.runtime.engines.opener`.
"""
