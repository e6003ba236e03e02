"""Rows of values with headers (KIP-1271), in stores of every kind that has them.

On the changelog a record has only the value, and the value's timestamp and headers as its own; a deletion has the
headers of the current record. In the engine the headers stand before the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from processor_api.record import HeaderList, Headers
from processor_api.serde import Serde
from state.engine.port import Batch
from state.formats.values import read_session_with_headers, write_session_with_headers
from state.row_format.codec import PLAIN, TIMESTAMPED
from state.row_format.codec import row_from_plain as timestamped_from_plain
from state.row_format.record_context import Cursor
from state.write_buffer.store_kind import CommitParticipant

HEADERS = replace(TIMESTAMPED, family_suffix="headers")
"""Timestamp, headers, value."""
HEADERS_ALONE = replace(PLAIN, family_suffix="headers")
"""Headers and aggregate of a session."""
_NO_HEADERS = b"\x00"


class WithHeaders(Serde[tuple[Any, HeaderList]]):
    """A value and its headers, written as ``size of the headers varint``, headers, value.

    A serde that takes headers gets those of the row; the row keeps what it adds.
    """

    def __init__(self, inner: Serde[Any]) -> None:
        def write(given: tuple[Any, HeaderList]) -> bytes:
            data = write_session_with_headers(inner.serialize(given[0]), given[1])
            assert data is not None
            return data

        def write_with_own(given: tuple[Any, HeaderList]) -> bytes:
            headers = Headers(given[1] or ())
            data = inner.with_headers(headers).serialize(given[0])
            found = write_session_with_headers(data, headers)
            assert found is not None
            return found

        def read(data: bytes) -> tuple[Any, HeaderList]:
            value, headers = read_session_with_headers(data)
            return inner.deserialize(value), headers

        def read_with_own(data: bytes) -> tuple[Any, HeaderList]:
            value, found = read_session_with_headers(data)
            headers = Headers(found or ())
            return inner.with_headers(headers).deserialize(value), headers

        if inner.takes_headers:
            write, read = write_with_own, read_with_own
        super().__init__(write, read, name=inner.name)


class HeadersLog(CommitParticipant):
    """Writes rows of a store as they stand on its changelog: a value with its headers beside it."""

    pending = False

    def __init__(self, log: Callable[..., None], cursor: Cursor) -> None:
        self.cursor = cursor
        self._log = log
        self._deleted: dict[bytes, HeaderList | None] = {}

    def note_deletion(self, logged_key: bytes, headers: HeaderList | None) -> None:
        """Notes the headers of a record that is about to delete a key; the changelog may be written later."""
        self._deleted[logged_key] = headers

    def __call__(self, key: bytes, data: bytes | None, timestamp: int) -> None:
        # Popped for a value too: the key was deleted and put again before the drain.
        headers = self._deleted.pop(key, None)
        if data is not None:
            data, headers = read_session_with_headers(data)
        self._log(key, data, timestamp, headers)

    def apply(self, batch: Batch) -> None:
        """Does nothing: the engine gets nothing of it."""

    def applied(self) -> None:
        self._deleted.clear()

    def close(self) -> None:
        self._deleted.clear()


def row_from_timestamped(row: bytes) -> bytes:
    """A row of a timestamped store as one of a store with headers."""
    return row[:8] + _NO_HEADERS + row[8:]


def row_from_plain(row: bytes) -> bytes:
    """A row of a plain store as one of a store with headers, whose timestamp is -1, not known."""
    return row_from_timestamped(timestamped_from_plain(row))


def session_from_plain(row: bytes) -> bytes:
    """A row of a plain session store as one of a session store with headers."""
    return _NO_HEADERS + row


def session_from_timestamped(row: bytes) -> bytes:
    """A row of a timestamped session store as one of a session store with headers, without the timestamp."""
    return _NO_HEADERS + row[8:]
