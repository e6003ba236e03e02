"""The format of one store's rows in memory, in the engine and on the changelog: its codec and its serdes.

A row key is the key itself if its serde gives every key back exactly (strings and bytes), otherwise the key's bytes. In
the same way a value is kept decoded in memory if its serde gives it back exactly, else as bytes. So a failing serde
fails at the put, and a value that its owner changes in place does not change the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from processor_api.serde import Serde, Serdes, never_null
from state.row_format.checked_serdes import reader
from state.row_format.codec import RowCodec

Entry = tuple[Any, ...]
"""A row in memory: a tuple that starts with (value, timestamp); a value of ``None`` says that the row is deleted."""

ENTRY_OVERHEAD_BYTES = 45
"""Fixed part of what Kafka Streams' cache counts for an entry: links, dirty flag, and context without the topic."""

FIXED_ENTRY_BYTES = ENTRY_OVERHEAD_BYTES + 8
"""An entry without its key, for values of fixed size."""


def _sized_cost(key: Any, value: Any) -> int:
    return len(key) + (8 if value is None else len(value)) + ENTRY_OVERHEAD_BYTES


def _fixed_cost(key: Any, value: Any) -> int:
    return len(key) + FIXED_ENTRY_BYTES


def fixed_size(keys: Collection[Any]) -> int:
    """Returns the bytes that the memory budget counts for rows with these keys, whose values have a fixed size."""
    return sum(map(len, keys)) + len(keys) * FIXED_ENTRY_BYTES


def _is_plain(serde: Serde[Any]) -> bool:
    return serde is Serdes.STRING or serde is Serdes.BYTES


def _as_it_is(data: bytes) -> bytes:
    return data


def _trusted(serde: Serde[Any]) -> Callable[[Any], bytes]:
    """Writes values that were checked when they were put."""
    return serde.write_exact or never_null(serde.serialize)


class KeyFormat:
    """The keys of one store: as users know them, as row keys and as bytes."""

    def __init__(self, store: str, serde: Serde[Any]) -> None:
        self.serde = serde
        self.read = reader(serde, "key", store)
        self.plain = _is_plain(serde)
        """Whether row keys are the keys themselves, not their bytes."""
        # `bytes` gives bytes back as they are, here and below, without a call of Python code.
        self.row_key_of: Callable[[bytes], Any] = self.read if self.plain else bytes
        """Converts a key's bytes to its row key."""
        self.write: Callable[[Any], bytes] = _trusted(serde) if self.plain else bytes
        """Converts a row key to its bytes."""

    def bytes_of(self, row_key: Any) -> bytes:
        """Returns the bytes of a row key that was not checked yet."""
        return self.serde.serialize(row_key) if self.plain else row_key

    def key_of(self, row_key: Any) -> Any:
        """Returns a row's key as users know it."""
        return row_key if self.plain else self.read(row_key)


class ValueFormat:
    """The values of one store: as users know them, as they are kept in memory, and as bytes."""

    def __init__(self, store: str, serde: Serde[Any]) -> None:
        self.serde = serde
        self.read = reader(serde, "value", store)
        self.encoded = serde.exact is None
        """Whether values are kept as bytes."""
        self.stored: Callable[[bytes], Any] = _as_it_is if self.encoded else self.read
        """Converts a value's bytes to the value as it is kept in memory."""
        self.decode = (
            self.stored if self.encoded else bytes.decode if serde is Serdes.STRING else never_null(serde.deserialize)
        )
        """A quicker `stored`, which fails with the errors of the serde, and with strings that have bad bytes."""
        self.write: Callable[[Any], bytes] = bytes if self.encoded else _trusted(serde)
        """Converts a kept value to its bytes."""
        self.sized = self.encoded or _is_plain(serde)
        """Whether each kept value has a size of its own."""

    def value_of(self, value: Any) -> Any:
        """Returns a kept value as users know it."""
        return self.read(value) if self.encoded and value is not None else value


class RowFormat:
    """The format of one store's rows, and what follows from it. It never changes, so any thread may use it."""

    def __init__(self, store: str, codec: RowCodec, key_serde: Serde[Any], value_serde: Serde[Any]) -> None:
        self.store = store
        self.codec = codec
        self.keys = KeyFormat(store, key_serde)
        self.values = ValueFormat(store, value_serde)
        self.cost = _sized_cost if self.values.sized else _fixed_cost
        """Returns the bytes that the memory budget counts for ``(row key, value)``."""
        self.entry_of = codec.in_steps(self.values.stored)
        """Converts a row of the engine to the row as it is kept in memory."""

    def size(self, rows: Mapping[Any, Entry]) -> int:
        """Returns the bytes that the memory budget counts for rows."""
        if not self.values.sized:
            return fixed_size(rows)
        values = [8 if (value := entry[0]) is None else len(value) for entry in rows.values()]
        return sum(map(len, rows)) + sum(values) + len(rows) * ENTRY_OVERHEAD_BYTES
