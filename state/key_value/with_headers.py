"""Key-value stores whose values carry a timestamp and headers (KIP-1271): a row is a timestamped one whose value has
the headers in front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from processor_api.record import HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueTimestampHeaders
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.queries import (
    KeyQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedKeyWithHeadersQuery,
    TimestampedRangeQuery,
    TimestampedRangeWithHeadersQuery,
)
from processor_api.stores.time_to_live import ACCESS
from state.engine.port import Batch, Engine
from state.formats.keys import MAX_TIME
from state.formats.values import read_session_with_headers, write_session_with_headers
from state.key_value.live_view import KeyValueView
from state.key_value.store import KeyValueFacade, KeyValueForm
from state.read_views.answers import pairs, record_of, timestamped, value_of_key, value_only, values_of_range
from state.row_format.access_header import guarded, guarded_headers, split_access
from state.row_format.codec import RowCodec, without_access
from state.row_format.value_forms import Shown, Timestamped, Untimed, WithoutHeaders, named, parts_with_headers
from state.write_buffer.buffer import Rows
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.fast_path import Put, make_get, make_put, row_key_maker
from state.write_buffer.headers_codec import HEADERS, HeadersLog, WithHeaders, row_from_plain, row_from_timestamped
from state.write_buffer.store_kind import (
    ITSELF,
    Answer,
    Opening,
    OpenStore,
    Restore,
    StoreForm,
    StoreKind,
    logged_rows,
    open_rows,
)
from state.write_buffer.stored_rows import HEADERS_FAMILY


class HeadersFacade(KeyValueFacade):
    """A store with headers as processors get it: a value of its rows is a pair of value and headers."""

    def without_timestamps(self) -> KeyValueForm:
        """Returns the same store in the form that shows only its values."""
        return self._in_form(Untimed(self.name, self._rows.cursor))

    def without_headers(self) -> KeyValueForm:
        """Returns the same store in the form that shows values with their timestamps."""
        return self._in_form(Timestamped(self.name, self._rows.cursor))

    def _in_form(self, form: Shown) -> KeyValueForm:
        return KeyValueForm(self, self._rows, self._put, WithoutHeaders(form), get=self._get, iterators=self._iterators)

    def _shown(self, value: Any, timestamp: int) -> Any:
        return named(ValueTimestampHeaders, (value[0], timestamp, value[1]))

    def _parts(self, value: Any) -> tuple[Any, int]:
        if type(value) is ValueTimestampHeaders:  # checked here, without another call, if nothing is wrong with it
            alone, timestamp, headers = value
            if type(timestamp) is int and 0 <= timestamp <= MAX_TIME:
                return None if alone is None else (alone, headers), timestamp
        return parts_with_headers(self.name, value, self._rows.cursor.timestamp)


class HeadersOperator:
    """The rows as operators of the DSL see them: only values; what they put has no headers (semantics 19)."""

    def __init__(self, rows: Rows, changelog: HeadersLog | None) -> None:
        self.name, self.cached = rows.name, rows.cached
        self._rows = rows
        self._get, self._put = make_get(rows), make_put(rows)
        self._get_forwarded = make_get(rows, forwarded=True) if rows.cached else self._get
        self._note = None if changelog is None else changelog.note_deletion
        self._row_key = row_key_maker(rows.format)

    def get(self, key: Any) -> tuple[Any, int] | None:
        found = self._get(key)
        return None if found is None else (found[0][0], found[1])

    def get_forwarded(self, key: Any) -> tuple[Any, int] | None:
        found = self._get_forwarded(key)
        return None if found is None else (found[0][0], found[1])

    def put(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is None and self._note is not None:
            self._note(self._rows.format.keys.bytes_of(self._row_key(key)), headers)
        self._put(key, None if value is None else (value, []), timestamp, headers)

    def on_flush(self, callback: Callable[..., None], *, old_values: bool) -> None:
        def value_only(key: Any, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
            callback(key, None if new is None else new[0], None if old is None else old[0], timestamp, headers)

        self._rows.on_flush(value_only, old_values=old_values)


def _noting(rows: Rows, changelog: HeadersLog | None) -> Put:
    """Returns a `put` for processors that notes deletions for the changelog."""
    put = make_put(rows)
    if changelog is None:
        return put
    row_key, note = row_key_maker(rows.format), changelog.note_deletion

    def noted(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        if value is None:
            note(rows.format.keys.bytes_of(row_key(key)), changelog.cursor.headers)
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
        kind=opening.kind,
        builder=opening.builder,
        rows=rows,
        facade=HeadersFacade(rows, _noting(rows, changelog)),
        operator=HeadersOperator(rows, changelog),
        participants=() if changelog is None else (changelog,),
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


def _records(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[ChangelogRecord]:
    for key, data, timestamp in logged_rows(builder, engine, codec):
        value, headers = read_session_with_headers(data)
        yield ChangelogRecord(key, value, timestamp, guarded_headers(headers))


def _from_accessed(row: bytes) -> bytes:
    return row_from_timestamped(without_access(row))


def _record(store: Any, query: Any) -> Any:
    found = store.get(query.key)
    return None if found is None else record_of((query.key, found))


_ANSWERS: Mapping[type[Any], Answer] = {
    KeyQuery: value_of_key(value_only),
    RangeQuery: values_of_range(pairs(value_only)),
    TimestampedKeyQuery: value_of_key(timestamped),
    TimestampedRangeQuery: values_of_range(pairs(timestamped)),
    TimestampedKeyWithHeadersQuery: _record,
    TimestampedRangeWithHeadersQuery: values_of_range(record_of),
}
_FORMS = {
    "key-value": StoreForm(lambda store: store.without_timestamps(), value_only),
    "timestamped-key-value": StoreForm(lambda store: store.without_headers(), timestamped),
    "headers-key-value": ITSELF,
}

KINDS = {
    "headers-key-value": StoreKind(
        codec=HEADERS,
        changelog_form=ChangelogForm.KEYS,
        open=_open,
        restoring=_restoring,
        changelog_records=_records,
        view=KeyValueView,
        offline={"headers": HEADERS_FAMILY},
        forms=_FORMS,
        answers=_ANSWERS,
        older={
            "timestamped": row_from_timestamped,
            "plain": row_from_plain,
            "headers-accessed": without_access,
            "accessed": _from_accessed,
        },
    ),
}
