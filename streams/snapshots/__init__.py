"""Snapshots of tasks: the databases of live workers, as files in a directory that all workers can read.

Imported by the runtime. Start with :mod:`streams.snapshots.manifest`.
"""
