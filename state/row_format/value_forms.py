"""Forms of a store's values: the value only, or with the timestamp (KIP-258) and headers (KIP-1271) of its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from processor_api.errors import StoreError
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.texts import repr_of
from processor_api.user_code.durations import whole_ms
from state.formats.keys import MAX_TIME
from state.row_format.record_context import Cursor

named: Callable[[type, tuple[Any, ...]], Any] = tuple.__new__
"""Makes a named tuple from a tuple: half the cost of its class, whose constructor is a function of Python."""


def wrong_timestamp(store: str, timestamp: Any) -> StoreError:
    return StoreError(
        f"store {store!r} needs timestamps in ms from 0 to 2 to the 63 minus 1, got {repr_of(timestamp)}: the"
        " changelog cannot store others",
        store=store,
    )


class Shown(Protocol):
    """Converts between a value as users give and get it, and a value with its timestamp in ms."""

    def show(self, value: Any, timestamp: int) -> Any: ...

    def parts(self, value: Any) -> tuple[Any, int]:
        """Returns the value and timestamp to put.

        :raises StoreError: if the store takes no such value.
        """
        ...

    def value_only(self) -> Shown:
        """Returns the form of the same rows that shows only their values."""
        ...


class Plain:
    """Only the value. A put has the timestamp of the current record."""

    def __init__(self, store: str, cursor: Cursor) -> None:
        self._cursor = cursor

    def show(self, value: Any, timestamp: int) -> Any:
        return value

    def parts(self, value: Any) -> tuple[Any, int]:
        return value, self._cursor.timestamp

    def value_only(self) -> Shown:
        return self


class Untimed(Plain):
    """Values of a timestamped store without their timestamps.

    A put outside of a record has the timestamp 0, since the row must have one.
    """

    def parts(self, value: Any) -> tuple[Any, int]:
        return value, max(self._cursor.timestamp, 0)


class Timestamped:
    """Values as :class:`~processor_api.stores.contracts.ValueAndTimestamp`.

    A deletion has the timestamp of the current record.
    """

    def __init__(self, store: str, cursor: Cursor) -> None:
        self._store = store
        self._cursor = cursor

    def show(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp)

    def parts(self, value: Any) -> tuple[Any, int]:
        if value is None:
            return None, self._cursor.timestamp
        if not isinstance(value, tuple) or len(value) != 2:
            raise StoreError(f"store {self._store!r} needs ValueAndTimestamp, got {repr_of(value)}", store=self._store)
        timestamp = value[1] if type(value[1]) is int else whole_ms(value[1])
        if timestamp is None or not 0 <= timestamp <= MAX_TIME:
            raise wrong_timestamp(self._store, value[1])
        return value[0], timestamp

    def value_only(self) -> Shown:
        return Untimed(self._store, self._cursor)


def parts_with_headers(store: str, value: Any, now: int) -> tuple[Any, int]:
    """Returns the parts of a :class:`~processor_api.stores.contracts.ValueTimestampHeaders` for a row.

    They are a pair of value and headers, and the timestamp; for ``None``, they are ``None`` and ``now``.

    :raises StoreError: if the value is of another type.
    """
    if value is None:
        return None, now
    if not isinstance(value, tuple) or len(value) != 3:
        raise StoreError(f"store {store!r} needs ValueTimestampHeaders, got {repr_of(value)}", store=store)
    value, given, headers = value
    timestamp = given if type(given) is int else whole_ms(given)
    if timestamp is None or not 0 <= timestamp <= MAX_TIME:
        raise wrong_timestamp(store, given)
    return None if value is None else (value, headers), timestamp


class TimestampedWithHeaders:
    """Values as :class:`~processor_api.stores.contracts.ValueTimestampHeaders`.

    The rows have pairs of value and headers.
    """

    def __init__(self, store: str, cursor: Cursor) -> None:
        self._store = store
        self._cursor = cursor

    def show(self, value: Any, timestamp: int) -> Any:
        return ValueTimestampHeaders(value[0], timestamp, value[1])

    def parts(self, value: Any) -> tuple[Any, int]:
        return parts_with_headers(self._store, value, self._cursor.timestamp)

    def value_only(self) -> Shown:
        return WithoutHeaders(Untimed(self._store, self._cursor))


class Aggregated(TimestampedWithHeaders):
    """Values as :class:`~processor_api.stores.contracts.AggregationWithHeaders`, of the same rows.

    A put has the timestamp of the current record.
    """

    def show(self, value: Any, timestamp: int) -> Any:
        return AggregationWithHeaders(*value)

    def parts(self, value: Any) -> tuple[Any, int]:
        now = self._cursor.timestamp
        if value is None:
            return None, now
        if not isinstance(value, AggregationWithHeaders):
            raise StoreError(
                f"store {self._store!r} needs AggregationWithHeaders, got {repr_of(value)}", store=self._store
            )
        return None if value.aggregation is None else tuple(value), now


class WithoutHeaders:
    """The same rows without their headers; a put has none.

    :param shown: shows their values and timestamps.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def show(self, value: Any, timestamp: int) -> Any:
        return self._shown.show(value[0], timestamp)

    def parts(self, value: Any) -> tuple[Any, int]:
        alone, timestamp = self._shown.parts(value)
        return None if alone is None else (alone, []), timestamp

    def value_only(self) -> Shown:
        return WithoutHeaders(self._shown.value_only())
