"""Key-value stores whose values carry a timestamp and headers (KIP-1271): a row is a timestamped one whose value has
the headers in front."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from processor_api.record import HeaderList
from processor_api.stores.contracts import ValueTimestampHeaders
from processor_api.stores.factory import StoreBuilder
from processor_api.stores.time_to_live import ACCESS
from state.engine.port import Batch, Engine
from state.formats.headers_value import write_session_with_headers
from state.formats.keys import MAX_TIME
from state.key_value.store import KeyValueFacade
from state.write_buffer.access_header import guarded, split_access
from state.write_buffer.buffer import Rows
from state.write_buffer.fast_path import make_get, make_put, row_key_maker
from state.write_buffer.headers_codec import HEADERS, HeadersLog, WithHeaders, row_from_plain, row_from_timestamped
from state.write_buffer.row_codec import RowCodec, without_access
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind, open_rows
from state.write_buffer.value_forms import named, parts_with_headers

__all__ = ["KINDS"]


class HeadersFacade(KeyValueFacade):
    """For processors: a value of rows is a pair of value and headers."""

    def __init__(self, rows: Rows, changelog: HeadersLog | None) -> None:
        super().__init__(rows)
        if changelog is not None:
            self._put = _noting(rows, self._put, changelog)

    def _shown(self, value: Any, timestamp: int) -> Any:
        return named(ValueTimestampHeaders, (value[0], timestamp, value[1]))

    def _parts(self, value: Any) -> tuple[Any, int]:
        if type(value) is ValueTimestampHeaders:  # checked here, without another call, if nothing is wrong with it
            alone, timestamp, headers = value
            if type(timestamp) is int and 0 <= timestamp <= MAX_TIME:
                return None if alone is None else (alone, headers), timestamp
        return parts_with_headers(self.name, value, self._rows.cursor.timestamp)


class HeadersOperator:
    """For operators of the DSL, which see values alone; what they put has no headers (semantics 19)."""

    def __init__(self, rows: Rows, changelog: HeadersLog | None) -> None:
        self.name, self.cached = rows.name, rows.cached
        self._rows = rows
        self._get, self._put = make_get(rows), make_put(rows)
        self._note = None if changelog is None else changelog.note_deletion
        self._row_key = row_key_maker(rows)

    def get(self, key: Any) -> tuple[Any, int] | None:
        found = self._get(key)
        return None if found is None else (found[0][0], found[1])

    def put(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is None and self._note is not None:
            self._note(self._rows.key_bytes(self._row_key(key)), headers)
        self._put(key, None if value is None else (value, []), timestamp, headers)

    def on_flush(self, callback: Callable[..., None], *, old_values: bool) -> None:
        def alone(key: Any, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
            callback(key, None if new is None else new[0], None if old is None else old[0], timestamp, headers)

        self._rows.on_flush(alone, old_values=old_values)


def _noting(rows: Rows, put: Callable[..., None], changelog: HeadersLog) -> Callable[..., None]:
    """`put` of a processor, with deletions noted for the changelog."""
    row_key, note = row_key_maker(rows), changelog.note_deletion

    def noted(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is None:
            note(rows.key_bytes(row_key(key)), changelog.cursor.headers)
        put(key, value, timestamp, headers)

    return noted


def _open(opening: Opening) -> OpenStore:
    lives, log = opening.builder.time_to_live, opening.log
    if log is not None and (lives is None or lives.by != ACCESS):
        log = guarded(log)
    changelog = None if log is None else HeadersLog(log, opening.cursor)
    rows = open_rows(
        replace(opening, value_serde=WithHeaders(opening.value_serde)), log=changelog, log_each=opening.log_each
    )
    return OpenStore(
        builder=opening.builder,
        rows=rows,
        facade=HeadersFacade(rows, changelog),
        operator=HeadersOperator(rows, changelog),
        upkeep=() if changelog is None else (changelog,),
    )


def _restoring(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    fill, handle = codec.fill, engine.family(f"{builder.name}.{codec.family_suffix}").handle

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        rows = map(write_session_with_headers, values, (split_access(found)[1] for found in headers))
        fill(batch, handle, zip(keys, rows, timestamps, strict=True))

    return restore


def _from_accessed(row: bytes) -> bytes:
    return row_from_timestamped(without_access(row))


KINDS = {
    "headers-key-value": StoreKind(
        HEADERS,
        _open,
        _restoring,
        older={
            "timestamped": row_from_timestamped,
            "plain": row_from_plain,
            "headers-accessed": without_access,
            "accessed": _from_accessed,
        },
    ),
}
