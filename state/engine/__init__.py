"""The port of storage engines, and the engine in memory.

An engine holds ordered bytes in named families and writes them in atomic batches. The other built-in one is
:mod:`state.rocksdb`; users register theirs. Anybody above may import it. Start with :mod:`state.engine.port`.
"""
