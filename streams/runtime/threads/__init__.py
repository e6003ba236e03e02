"""Stream threads: the loop that polls, processes and commits, and what it is made of.

Imported by the application. Start with :mod:`streams.runtime.threads.stream_thread`.
"""
