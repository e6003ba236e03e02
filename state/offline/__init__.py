"""State on disk, read without a running application: what ``streams state`` shows, and what repairs damage.

Imported by the CLI and by the runtime's recovery. Start with :mod:`state.offline.stores`.
"""
