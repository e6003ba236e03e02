"""The engine on RocksDB: a database for each task, a column family for each store.

The only room that imports ``rocksdict``. Imported by offline readers and the runtime's engines. Start with
:mod:`state.rocksdb.engine`.
"""
