"""The reads of stores that can be asked for over HTTP: their parameters, and the rows that they find as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

from processor_api.forms.json_values import as_json, bytes_as_json, parsed_json
from processor_api.forms.times import MOST_MS, time_ms
from processor_api.serde import Serde, Serdes, never_null, with_default
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import (
    AggregationWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
)
from processor_api.stores.queries import IsolationLevel
from processor_api.stores.windowed import Windowed
from processor_api.texts import cut, plain_str
from state.formats.windowed_serdes import key_of_window_as_json
from state.registry.kinds import kind_of
from streams.config import StreamsConfig
from streams.http.responses import MOST_SHOWN, HttpRefusal, Query, json_text, number_in
from streams.kafka.topics.internal import changelog_name
from streams.queries.position import Position, PositionBound
from streams.serdes.values import DoesNotFit, fitted
from streams.trials import trial_on_this_thread

LIMIT, MOST_LIMIT = 1000, 100_000
"""Rows of an answer, as a rule and at most."""
MOST_KEYS = 1000
"""Keys of one request."""

Row = dict[str, Any]


class StoreSerdes:
    """The serdes of a store, by which keys are given and rows are shown."""

    def __init__(self, builder: StoreBuilder[Any, Any], config: StreamsConfig) -> None:
        self.builder = builder
        found = with_default(builder.key_serde, config.default_key_serde)
        if found is None:
            raise HttpRefusal(500, f"store {builder.name!r} does not have a serde for keys")
        # By the name of the changelog, as the store itself binds it: the schemas of a registry are those of a topic.
        topic = changelog_name(config.application_id, builder.name)
        self.unbound_key = found
        self.key: Serde[Any] = found.bind(topic, is_key=True)
        self._write_key = never_null(self.key.inside().serialize)
        value = with_default(builder.value_serde, config.default_value_serde)
        self._shown_value = as_json if value is None else value.bind(topic, is_key=False).to_json

    def write_key(self, key: Any) -> bytes:
        """Returns a key as the store has it: equal keys with equal bytes. Nothing is registered: a read of a key whose
        schema is not registered finds no row."""
        with trial_on_this_thread("a read of a store"):
            return self._write_key(key)

    def named(self, query: Query, name: str = "key") -> Any:
        """Returns the key that a parameter is: a text that was typed, or with ``keys=json`` a value of JSON.

        :raises HttpRefusal: if it is missing, or the serde does not take it.
        """
        text, form = query.get(name), query.get("keys", "text")
        if text is None:
            raise HttpRefusal(400, f"{name} is missing")
        if form not in ("text", "json"):
            raise HttpRefusal(400, f"keys must be text or json, got {cut(form, MOST_SHOWN)!r}")
        if form == "text":
            return self.key_of(text, is_text=True, name=name)
        try:
            return self.key_of(parsed_json(text), is_text=False, name=name)
        except ValueError as error:
            raise HttpRefusal(400, f"{name}: {plain_str(error)}") from None

    def key_of(self, given: Any, *, is_text: bool, name: str = "key") -> Any:
        """Returns the key that a request names, as the store takes it.

        :raises HttpRefusal: if the serde does not take it.
        """
        if type(given) is str and self.key is Serdes.STRING and given.isascii():
            return given
        try:
            with trial_on_this_thread("a read of a store"):
                found = fitted(self.key, given, is_text=is_text).value
        except DoesNotFit as error:
            raise HttpRefusal(400, f"{name}: {plain_str(error)}") from None
        if found is None:
            raise HttpRefusal(400, f"{name} must not be null: stores do not have null keys")
        return found

    # ------------------------------------------------------------------ rows

    def key_row(self, key: Any, value: Any) -> Row:
        """Returns the row of a key, which may be one of a window."""
        if isinstance(key, Windowed):
            start, end = key.window
            return {
                "key": key_of_window_as_json(self.key, key), "start": start, "end": end, **self._value_fields(value),
            }  # fmt: skip
        return {"key": self.key.to_json(key), **self._value_fields(value)}

    def _value_fields(self, value: Any) -> Row:
        shown = self._shown_value
        if isinstance(value, ValueTimestampHeaders):
            return {"value": shown(value.value), "timestamp": value.timestamp, "headers": _headers(value.headers)}
        if isinstance(value, ValueAndTimestamp):
            return {"value": shown(value.value), "timestamp": value.timestamp}
        if isinstance(value, VersionedRecord):
            return {"value": shown(value.value), "timestamp": value.timestamp, "valid_to": value.valid_to}
        if isinstance(value, AggregationWithHeaders):
            return {"value": shown(value.aggregation), "headers": _headers(value.headers)}
        return {"value": shown(value)}

    def row_text(self, key: Any, value: Any) -> str:
        """Returns the row of a key as JSON."""
        if type(value) is not ValueAndTimestamp or type(key) is not str or self.key is not Serdes.STRING:
            return json_text(self.key_row(key, value))
        shown = self._shown_value(value.value)
        text = str(shown) if type(shown) is int else json_text(shown)
        return f'{{"key":{json_text(key)},"value":{text},"timestamp":{value.timestamp}}}'

    def pair_row(self, pair: Any) -> str:
        """Returns the row of a key and its value as JSON."""
        return self.row_text(*pair)


def _headers(headers: Any) -> list[list[Any]]:
    return [[name, None if value is None else bytes_as_json(value)] for name, value in headers or ()]


class After(NamedTuple):
    """The row after which a page begins: its partition, and its place there; ``None`` before the first row."""

    partition: int
    place: bytes | None
    of: int
    """The number of the request whose rows these are (:func:`number_of`): a cursor of another one goes nowhere."""

    def encode(self) -> str:
        place = None if self.place is None else base64.b64encode(self.place).decode()
        return base64.urlsafe_b64encode(json.dumps([self.partition, place, self.of]).encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> After:
        """Reads what :meth:`encode` has written.

        :raises HttpRefusal: if it is something else.
        """
        try:
            partition, place, of = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            if type(partition) is int and type(of) is int and partition >= 0 and isinstance(place, (str, type(None))):
                return cls(partition, None if place is None else base64.b64decode(place, validate=True), of)
        except (ValueError, TypeError, RecursionError):
            pass
        raise HttpRefusal(400, f"cursor {cut(text, MOST_SHOWN)!r} is not from a response")


def number_of(store: str, operation: str, query: Query) -> int:
    """Returns a number that stands for what is asked, whatever its terms are and however long its pages."""
    asked = sorted((name, value) for name, value in query.items() if name not in COMMON and name not in PAGED)
    return crc32(json.dumps([store, operation, query.get("keys", "text"), asked]).encode())


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms on which a store is read, whatever is asked."""

    partition: int | None = None
    """``None``: the one of the key, or all."""
    isolation: IsolationLevel | None = None
    bound: PositionBound = field(default_factory=PositionBound)
    stale: bool = False
    """Whether a store that is restored is read as far as it is."""
    max_lag: int | None = None
    """How many offsets of its changelog a store may lack."""
    limit: int = LIMIT
    max_bytes: int | None = None
    """The bytes of rows after which an answer ends, with a cursor for those that follow."""
    after: After | None = None
    partial: bool = False
    """Whether an answer may lack partitions, which it names."""
    local: bool = False
    """Whether only this worker is asked."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """Describes a read of one key, or of rows, that any partition of a store can be asked for."""

    key: Any = None
    """The one key that is asked for; ``None`` for rows of any key."""
    rows: Callable[[Any, After | None], Iterator[Any]]
    """``(store, after)`` to what the store finds."""
    row: Callable[[Any], str]
    """Makes a row of the answer, an object of JSON."""
    place: Callable[[Any], bytes | None] | None = None
    """Says where a row is, so that a later page can begin after it; ``None``, or a place ``None``, if there are no
    pages."""
    single: bool = False
    """Whether there is one row at most."""


COMMON = frozenset({"keys", "partition", "isolation", "position", "stale", "max_lag", "partial", "local"})
PAGED = frozenset({"limit", "cursor", "max_bytes"})


_TERMS = Terms()
_NO_TERMS = frozenset({"key", "keys"})


def terms_of(query: Query) -> Terms:
    """Reads the terms of a request.

    :raises HttpRefusal: if a parameter is wrong.
    """
    if query.keys() <= _NO_TERMS:
        return _TERMS
    level, position, cursor = query.get("isolation"), query.get("position"), query.get("cursor")
    if level is not None and level.upper() not in IsolationLevel.__members__:
        raise HttpRefusal(400, f"isolation must be read_committed or read_uncommitted, got {cut(level, MOST_SHOWN)!r}")
    return Terms(
        partition=number_in(query, "partition"),
        isolation=None if level is None else IsolationLevel[level.upper()],
        bound=PositionBound() if position is None else PositionBound(position_of_json(position)),
        stale=_flag(query, "stale"),
        max_lag=number_in(query, "max_lag"),
        limit=LIMIT if "limit" not in query else number_in(query, "limit", 1, MOST_LIMIT) or LIMIT,
        max_bytes=number_in(query, "max_bytes", 1),
        after=None if cursor is None else After.decode(cursor),
        partial=_flag(query, "partial"),
        local=_flag(query, "local"),
    )


def _flag(query: Query, name: str) -> bool:
    text = query.get(name, "false").lower()
    if text not in ("true", "false"):
        raise HttpRefusal(400, f"{name} must be true or false, got {cut(text, MOST_SHOWN)!r}")
    return text == "true"


def _time(query: Query, name: str, default: int) -> int:
    if name not in query:
        return default
    try:
        return time_ms(query[name])
    except ValueError as error:
        raise HttpRefusal(400, f"{name}: {plain_str(error)}") from None


def position_of_json(text: str) -> Position:
    """Reads a position, such as ``{"orders": {"0": 41}}``.

    :raises HttpRefusal: if it is none.
    """
    try:
        found = json.loads(text)
        return Position({topic: {int(one): offset for one, offset in each.items()} for topic, each in found.items()})
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise HttpRefusal(
            400, f'position must be JSON such as {{"orders": {{"0": 41}}}}, got {cut(text, MOST_SHOWN)!r}'
        ) from None


# ---------------------------------------------------------------------- reads


def _get(serdes: StoreSerdes, query: Query) -> Read:
    return get_of(serdes, serdes.named(query), as_of=_as_of(serdes, query))


def get_of(serdes: StoreSerdes, key: Any, *, as_of: int | None = None) -> Read:
    """Returns the read of one key.

    :param as_of: the time of the version, in a versioned store.
    """

    def rows(store: Any, after: After | None) -> Iterator[Any]:
        found = store.get(key) if as_of is None else store.get(key, as_of)
        return iter(() if found is None else ((key, found),))

    return Read(key=key, rows=rows, row=serdes.pair_row, single=True)


def get_many_of(serdes: StoreSerdes, keys: Sequence[tuple[Any, Any]]) -> Read:
    """Returns the read of several keys of one partition, each with a row that may say that it is not there.

    :param keys: as they were given, and as the store takes them.
    """

    def row(found: Any) -> str:
        shown, key, value = found
        return json_text({"key": shown, "found": False}) if value is None else serdes.row_text(key, value)

    return Read(rows=lambda store, after: ((shown, key, store.get(key)) for shown, key in keys), row=row)


def _as_of(serdes: StoreSerdes, query: Query) -> int | None:
    if "as_of" not in query:
        return None
    if not _is(serdes, "versioned-key-value"):
        raise HttpRefusal(400, f"as_of: store {serdes.builder.name!r} is not a versioned store")
    return _time(query, "as_of", 0)


def _descending(query: Query) -> bool:
    order = query.get("order", "ascending")
    if order not in ("ascending", "descending"):
        raise HttpRefusal(400, f"order must be ascending or descending, got {cut(order, MOST_SHOWN)!r}")
    return order == "descending"


def _range(serdes: StoreSerdes, query: Query) -> Read:
    bounds = [serdes.named(query, name) if name in query else None for name in ("from", "to")]
    as_of, descending = _as_of(serdes, query), _descending(query)

    def rows(store: Any, after: After | None) -> Any:
        low, high = bounds
        if after is not None and after.place is not None:
            low, high = _continued(serdes, after.place, low, high, descending=descending)
        call = store.reverse_range if descending else store.range
        found = call(low, high) if as_of is None else call(low, high, as_of)
        return _behind(found, serdes, after)

    return Read(rows=rows, row=serdes.pair_row, place=lambda pair: serdes.write_key(pair[0]))


def _continued(serdes: StoreSerdes, place: bytes, low: Any, high: Any, *, descending: bool) -> tuple[Any, Any]:
    try:
        key = serdes.key.deserialize(place)
    except Exception:
        raise HttpRefusal(400, "the cursor is not from a response of this store") from None
    return (low, key) if descending else (key, high)


class _Chosen(Iterator[Any]):
    """Leaves out rows, such as those of a page before."""

    def __init__(self, rows: Any, is_shown: Callable[[Any], bool]) -> None:
        self._rows = rows
        self._is_shown = is_shown

    def __next__(self) -> Any:
        while not self._is_shown(row := next(self._rows)):
            pass
        return row

    def close(self) -> None:
        self._rows.close()


class _While(_Chosen):
    """Ends before the first row that is not meant."""

    def __next__(self) -> Any:
        if not self._is_shown(row := next(self._rows)):
            raise StopIteration
        return row


def _behind(rows: Any, serdes: StoreSerdes, after: After | None) -> Any:
    if after is None or after.place is None:
        return rows
    place = after.place
    return _Chosen(rows, lambda pair: serdes.write_key(pair[0]) != place)


def _prefix(serdes: StoreSerdes, query: Query) -> Read:
    prefix = serdes.named(query, "prefix")
    as_of = _as_of(serdes, query)

    def rows(store: Any, after: After | None) -> Any:
        if after is None or after.place is None:
            return store.prefix_scan(prefix) if as_of is None else store.prefix_scan(prefix, None, as_of)
        low, _ = _continued(serdes, after.place, None, None, descending=False)
        found = store.range(low, None) if as_of is None else store.range(low, None, as_of)
        return _behind(_While(found, lambda pair: serdes.write_key(pair[0]).startswith(begin)), serdes, after)

    begin = serdes.write_key(prefix)
    return Read(rows=rows, row=serdes.pair_row, place=lambda pair: serdes.write_key(pair[0]))


def _windows(serdes: StoreSerdes, query: Query) -> Read:
    key, begin, end = _key_of(serdes, query), _time(query, "from", 0), _time(query, "to", MOST_MS)

    def unplaced(store: Any) -> Any:
        return store.fetch_all(begin, end) if key is None else store.fetch_keys(key, key, begin, end)

    return _placed(serdes, query, key, (begin, end), unplaced)


def _sessions(serdes: StoreSerdes, query: Query) -> Read:
    """Reads the sessions of a key that overlap a time, or those of all keys that end in it."""
    key, begin, end = _key_of(serdes, query), _time(query, "from", 0), _time(query, "to", MOST_MS)
    if key is None:
        return _placed(serdes, query, None, (begin, end), lambda store: store.find_sessions_by_end(begin, end))
    return _placed(
        serdes, query, key, (begin, MOST_MS),
        lambda store: store.find_sessions(key, begin, end),
        lambda row: row[0].window.start <= end,
    )  # fmt: skip


def _versions(serdes: StoreSerdes, query: Query) -> Read:
    key = _key_of(serdes, query)
    begin = _time(query, "from", 0) if "from" in query else None
    end = _time(query, "to", 0) if "to" in query else None
    if begin is not None and end is not None and begin > end:
        raise HttpRefusal(400, f"from, {begin} ms, is after to, {end} ms")

    def unplaced(store: Any) -> Any:
        if key is None:
            return store.range_versions(None, None, begin, end)
        return ((key, version) for version in store.versions(key, begin, end))

    return _placed(serdes, query, key, (begin, end), unplaced)


def _key_of(serdes: StoreSerdes, query: Query) -> Any:
    return serdes.named(query) if "key" in query else None


def _placed(
    serdes: StoreSerdes,
    query: Query,
    key: Any,
    times: tuple[int | None, int | None],
    unplaced: Callable[[Any], Any],
    is_shown: Callable[[Any], bool] = lambda row: True,
) -> Read:
    """Returns the read of rows that a store gives with their places: windows, sessions and versions.

    :param unplaced: reads the same of a store whose kind is from elsewhere, and has no places.
    :param is_shown: which of the rows are meant.
    """
    descending = _descending(query)

    def rows(store: Any, after: After | None) -> Any:
        if not hasattr(store, "rows_after"):
            if descending:
                raise HttpRefusal(400, f"order: store {serdes.builder.name!r} can be read in ascending order only")
            return ((None, row) for row in unplaced(store))
        place = None if after is None else after.place
        try:
            found = store.rows_after(place, *times, key=key, reverse=descending)
        except ValueError as error:
            raise HttpRefusal(400, f"the cursor is not from a response of this store: {plain_str(error)}") from None
        return _Chosen(found, lambda row: is_shown(row[1]))

    return Read(key=key, rows=rows, row=lambda found: serdes.row_text(*found[1]), place=lambda found: found[0])


def _count(serdes: StoreSerdes, query: Query) -> Read:
    return Read(
        rows=lambda store, after: iter((store.approximate_num_entries(),)), row=lambda count: f'{{"count":{count}}}'
    )


class _Operation(NamedTuple):
    forms: tuple[str, ...]
    parameters: frozenset[str]
    read: Callable[[StoreSerdes, Query], Read]


_KEYS = ("key-value", "versioned-key-value")
_TIMES = frozenset({"key", "from", "to", "order"})
_OPERATIONS: Mapping[str, _Operation] = {
    "get": _Operation(_KEYS, frozenset({"key", "as_of"}), _get),
    "range": _Operation(_KEYS, frozenset({"from", "to", "order", "as_of"}) | PAGED, _range),
    "prefix": _Operation(_KEYS, frozenset({"prefix", "as_of"}) | PAGED, _prefix),
    "windows": _Operation(("window",), _TIMES | PAGED, _windows),
    "sessions": _Operation(("session",), _TIMES | PAGED, _sessions),
    "versions": _Operation(("versioned-key-value",), _TIMES | PAGED, _versions),
    "count": _Operation(_KEYS, frozenset(), _count),
}


def _is(serdes: StoreSerdes, form: str) -> bool:
    return form in kind_of(serdes.builder).forms


def operations_of(builder: StoreBuilder[Any, Any]) -> list[str]:
    """Returns the names of the reads that a store answers."""
    return list(_operations(frozenset(kind_of(builder).forms)))


@cache
def _operations(forms: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name, operation in _OPERATIONS.items() if any(form in forms for form in operation.forms))


def read_of(serdes: StoreSerdes, operation: str, query: Query) -> Read:
    """Returns the read that a request asks for.

    :raises HttpRefusal: if the store has no such read, or a parameter is wrong.
    """
    builder = serdes.builder
    known = operations_of(builder)
    if operation not in known:
        raise HttpRefusal(
            404,
            f"store {builder.name!r} is a {builder.kind} store and does not have {cut(operation, MOST_SHOWN)!r}; it"
            f" has: {', '.join(known) or 'no reads over HTTP'}",
        )
    found = _OPERATIONS[operation]
    strange = sorted(query.keys() - found.parameters - COMMON)
    if strange:
        takes = ", ".join(sorted(found.parameters | COMMON))
        raise HttpRefusal(400, f"{operation} does not have parameter {cut(strange[0], MOST_SHOWN)!r}; it has {takes}")
    names = [name for name, _ in query.items()]
    if len(names) != len(set(names)):
        raise HttpRefusal(400, f"{next(name for name in names if names.count(name) > 1)} is given twice")
    return found.read(serdes, query)
