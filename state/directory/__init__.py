"""The directory ``state.dir``: whose it is, which task's state is where, and the locks on it.

Knows files only, no stores and no engines. Anybody above may import it. Start with
:mod:`state.directory.state_directory`.
"""
