"""The kinds of window and session stores: plain, with timestamps, with headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from processor_api.record import Record
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.queries import (
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from state.engine.port import Engine
from state.read_views.answers import UNANSWERED, QueryRows, itself, pairs, record_of, timestamped, value_only
from state.row_format.codec import PLAIN, TIMESTAMPED, RowCodec, row_from_plain
from state.row_format.record_context import Cursor
from state.row_format.value_forms import Aggregated, Plain, Shown, Timestamped, TimestampedWithHeaders
from state.windowed.base import TimedOperator, restore_timed, timed_as_records
from state.windowed.key_layout import SESSION, KeyFirst, RowLayout, TimedKeys, TimeFirst
from state.windowed.live_view import TimedView
from state.windowed.rows import TimedRows
from state.windowed.segments import FACTS, FACTS_KEY, Retention
from state.windowed.with_headers import HeadersRows, HeadersWindowOperator
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.headers_codec import (
    HEADERS,
    HEADERS_ALONE,
    row_from_timestamped,
    session_from_plain,
    session_from_timestamped,
)
from state.write_buffer.headers_codec import row_from_plain as headers_from_plain
from state.write_buffer.store_kind import (
    ITSELF,
    Answer,
    Opening,
    OpenStore,
    Restore,
    RowsAsRecords,
    StoreForm,
    StoreKind,
)
from state.write_buffer.stored_rows import (
    Reader,
    StoredFamily,
    StoredRow,
    read_headers,
    read_headers_alone,
    read_plain,
    read_timestamped,
)


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values of a kind's rows: how they are written, shown and read."""

    codec: RowCodec
    shown: Callable[[str, Cursor], Shown]
    read: Reader
    """Reads what a row has without a topology."""
    columns: tuple[str, ...] = ()
    older: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    """Functions that make a row of this codec from one of an older codec, by the older codec's suffix."""
    rows: Callable[..., TimedRows] = TimedRows
    operator: Callable[..., TimedOperator] = TimedOperator
    with_headers: bool = False
    forms: Mapping[str, StoreForm]
    answers: Mapping[type[Any], Answer]


# ---------------------------------------------------------------------- queries


def _without_timestamps(store: Any) -> Any:
    return store.without_timestamps()


def _without_headers(store: Any) -> Any:
    return store.without_headers()


_ALONE = StoreForm(_without_timestamps, value_only)


def _windows_of_key(shown: Callable[[Any], Any]) -> Answer:
    return lambda store, query: QueryRows(store.fetch_range(query.key, query.time_from, query.time_to), shown)


def _window_records_of_key(store: Any, query: Any) -> QueryRows:
    return QueryRows(store.fetch_keys(query.key, query.key, query.time_from, query.time_to), record_of)


def _windows(shown: Callable[[Any], Any]) -> Answer:
    """Answers with the windows by their starts; a query by key is one of sessions."""

    def answer(store: Any, query: Any) -> Any:
        if query.key is not None:
            return UNANSWERED
        return QueryRows(store.fetch_all(query.time_from, query.time_to), shown)

    return answer


def _sessions(shown: Callable[[Any], Any]) -> Answer:
    return lambda store, query: UNANSWERED if query.key is None else QueryRows(store.fetch(query.key), shown)


def _session_record(row: Any) -> Record[Any, Any]:
    key, found = row
    return Record(key, found[0], key.window.end, found[-1])


_WINDOW_ANSWERS: Mapping[type[Any], Answer] = {
    WindowKeyQuery: _windows_of_key(itself),
    WindowRangeQuery: _windows(itself),
}
_SESSION_ANSWERS: Mapping[type[Any], Answer] = {WindowRangeQuery: _sessions(itself)}


# ---------------------------------------------------------------------- values

WINDOWS: Mapping[str, Values] = {
    "": Values(codec=PLAIN, shown=Plain, read=read_plain, forms={"window": ITSELF}, answers=_WINDOW_ANSWERS),
    "timestamped-": Values(
        codec=TIMESTAMPED,
        shown=Timestamped,
        read=read_timestamped,
        columns=("timestamp",),
        older={PLAIN.family_suffix: row_from_plain},
        forms={"window": _ALONE, "timestamped-window": ITSELF},
        answers=_WINDOW_ANSWERS,
    ),
    "headers-": Values(
        codec=HEADERS,
        shown=TimestampedWithHeaders,
        read=read_headers,
        columns=("timestamp", "headers"),
        older={TIMESTAMPED.family_suffix: row_from_timestamped, PLAIN.family_suffix: headers_from_plain},
        rows=HeadersRows,
        operator=HeadersWindowOperator,
        with_headers=True,
        forms={
            "window": _ALONE,
            "timestamped-window": StoreForm(_without_headers, timestamped),
            "headers-window": ITSELF,
        },
        answers={
            WindowKeyQuery: _windows_of_key(pairs(timestamped)),
            WindowRangeQuery: _windows(pairs(timestamped)),
            TimestampedWindowKeyWithHeadersQuery: _window_records_of_key,
            TimestampedWindowRangeWithHeadersQuery: _windows(record_of),
        },
    ),
}
"""Values of the window kinds, by the part of the kind's name in front of ``window``."""
SESSIONS: Mapping[str, Values] = {
    "": replace(WINDOWS[""], forms={"session": ITSELF}, answers=_SESSION_ANSWERS),
    "timestamped-": replace(
        WINDOWS["timestamped-"],
        forms={"session": _ALONE, "timestamped-session": ITSELF},
        answers=_SESSION_ANSWERS,
    ),
    "headers-": replace(
        WINDOWS["headers-"],
        codec=HEADERS_ALONE,
        shown=Aggregated,
        read=read_headers_alone,
        columns=("headers",),
        older={TIMESTAMPED.family_suffix: session_from_timestamped, PLAIN.family_suffix: session_from_plain},
        forms={"session": _ALONE, "headers-session": ITSELF},
        answers={
            WindowRangeQuery: _sessions(pairs(value_only)),
            TimestampedWindowRangeWithHeadersQuery: _sessions(_session_record),
        },
    ),
}


# ---------------------------------------------------------------------- rows on disk


def _no_bounds(low: bytes | None, high: bytes | None) -> tuple[None, None]:
    """Returns no bounds: rows stand by segments of time first, so those of a range of keys are anywhere."""
    return None, None


def _stored(layout: RowLayout, value_of: Reader) -> Reader:
    session = layout.keys is SESSION
    front = 9 if isinstance(layout, TimeFirst) else 8
    least = front + layout.keys.tail.size

    def read(key: bytes, row: bytes) -> StoredRow | None:
        if key == FACTS_KEY:
            # Only for its error: it fails where the row is damaged.
            FACTS.unpack(row)
            return None
        if len(key) < least:
            raise ValueError(f"the key must have at least {least} bytes, got {len(key)}")
        # A row of the index.
        if front == 9 and key[8] == 1:
            if row:
                raise ValueError(f"a row of the index must not have a value, got {len(row)} bytes")
            return None
        name, time, rest = layout.parts(key)
        if time < 0 or rest < 0:
            raise ValueError(f"times must not be negative, got {time} and {rest}")
        found = value_of(name, row)
        assert found is not None
        more = {"session_start": rest, "session_end": time} if session else {"window_start": time, "sequence": rest}
        return StoredRow(name, found.value, found.timestamp, found.headers, more)

    return read


# ---------------------------------------------------------------------- kinds


def timed_kinds(
    name: str,
    values: Mapping[str, Values],
    keys: TimedKeys,
    open_with: Callable[[Values, bool], Callable[[Opening], OpenStore]],
    order_of: Callable[[StoreBuilder[Any, Any], Engine, bool], tuple[RowLayout, Retention]],
) -> dict[str, StoreKind]:
    """Returns the kinds of window or session stores, key first and ordered by time; the two functions are given which.

    :param name: ``window`` or ``session``.
    :param order_of: returns the layout and the retention of a store's rows.
    """

    # Functions of their own, so that each keeps the values of its turn of the loop below.
    def restoring(of: Values, time_ordered: bool) -> Callable[[StoreBuilder[Any, Any], Engine, RowCodec], Restore]:
        return lambda builder, engine, codec: restore_timed(
            builder, engine, codec, *order_of(builder, engine, time_ordered), with_headers=of.with_headers
        )

    def as_records(of: Values, time_ordered: bool) -> RowsAsRecords:
        return lambda builder, engine, codec: timed_as_records(
            builder, engine, codec, order_of(builder, engine, time_ordered)[0], with_headers=of.with_headers
        )

    times = ("session_start", "session_end") if keys is SESSION else ("window_start", "sequence")
    layouts: tuple[tuple[str, RowLayout], ...] = (("", KeyFirst(keys)), ("time-ordered-", TimeFirst(keys)))
    found: dict[str, StoreKind] = {}
    for order, layout in layouts:
        for prefix, of in values.items():
            suffix = f"{order}{name}-{of.codec.family_suffix}"
            stored = StoredFamily(_stored(layout, of.read), (*of.columns, *times), _no_bounds)
            found[f"{order}{prefix}{name}"] = StoreKind(
                codec=replace(of.codec, family_suffix=suffix),
                open=open_with(of, isinstance(layout, TimeFirst)),
                restoring=restoring(of, isinstance(layout, TimeFirst)),
                changelog_records=as_records(of, isinstance(layout, TimeFirst)),
                older={f"{order}{name}-{older}": convert for older, convert in of.older.items()},
                same=frozenset({FACTS_KEY}),
                view=TimedView,
                offline={suffix: stored},
                forms=of.forms,
                answers=of.answers,
                metrics_scope=name,
                changelog_form=ChangelogForm.SESSIONS if keys is SESSION else ChangelogForm.WINDOWS,
                time_first=isinstance(layout, TimeFirst),
                expires=True,
            )
    return found
