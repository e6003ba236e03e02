"""The rows of one store between a processor and its engine: cache, source of the changelog, uncommitted writes.

Everything that store kinds share is here, also what a kind is (:mod:`state.write_buffer.store_kind`). Imported by all
rooms of kinds. Start with :mod:`state.write_buffer.buffer`.
"""
