"""Queries for ``KafkaStreams.query`` (KIP-796): frozen values, each with its result's type.

Times are in ms; both ends of a range are included, ``None`` is open, and a range whose start is above its end is empty.
Results that are iterators are context managers and must be closed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from processor_api.record import Record
from processor_api.stores.contracts import (
    KeyValueIterator,
    ValueAndTimestamp,
    VersionedRecord,
    VersionedRecordIterator,
    WindowStoreIterator,
)
from processor_api.stores.windowed import Windowed
from processor_api.texts import repr_of
from processor_api.user_code.durations import Timestamp, whole_ms
from processor_api.user_code.open_types import K, V

R_co = TypeVar("R_co", covariant=True)


class ResultOrder(enum.Enum):
    """The order of the results of a query: of keys by their bytes, of versions by their time.

    ::

        inputs.pipe_key_values([("ann", "hi"), ("bob", "hi")])
        query = RangeQuery(order=ResultOrder.DESCENDING)
        result = driver.query(StateQueryRequest.in_store("counts").with_query(query)).only_partition_result.result
        with result as rows:
            assert list(rows) == [("bob", 1), ("ann", 1)]
    """

    ANY = "any"
    ASCENDING = "ascending"
    DESCENDING = "descending"


class Query(Generic[R_co]):
    """The base of all queries, by the type of their result in one partition. A store kind says which it answers.

    ::

        request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
        assert isinstance(request.query, Query)
    """

    @property
    def reads_below_cache(self) -> bool:
        """Whether the query does not see what a cache has not forwarded yet."""
        return bool(getattr(self, "skip_cache", False))


def _needs(key: Any, query: object) -> None:
    if key is None:
        raise ValueError(f"a {type(query).__name__} needs a key, got None")


def _set_times(query: object, *names: str) -> None:
    """Puts the milliseconds of times in their place, of those that are given."""
    for name in names:
        time = getattr(query, name)
        if time is not None and type(time) is not int:
            found = whole_ms(time)
            if found is None:
                kinds = "times in whole ms, or as datetimes with a zone"
                raise ValueError(f"a {type(query).__name__} needs {kinds}, got {repr_of(time)}")
            object.__setattr__(query, name, found)  # it is frozen


def _check_order(order: Any, query: object) -> None:
    if not isinstance(order, ResultOrder):
        raise ValueError(f"the order of a {type(query).__name__} must be a ResultOrder, got {repr_of(order)}")


@dataclass(frozen=True)
class KeyQuery(Query[V | None], Generic[K, V]):
    """A query for the value of a key.

    ::

        inputs.pipe_input("ann", "hello")
        request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
        assert driver.query(request).only_partition_result.result == 1

    :param skip_cache: leaves out what is not forwarded yet.
    """

    key: K
    skip_cache: bool = False

    def __post_init__(self) -> None:
        _needs(self.key, self)


@dataclass(frozen=True)
class TimestampedKeyQuery(Query[ValueAndTimestamp[V] | None], Generic[K, V]):
    """A query for the value of a key and its timestamp (KIP-992).

    ::

        inputs.pipe_input("ann", "hello", timestamp=1_000)
        request = StateQueryRequest.in_store("counts").with_query(TimestampedKeyQuery("ann"))
        assert driver.query(request).only_partition_result.result == ValueAndTimestamp(1, 1_000)

    :param skip_cache: leaves out what is not forwarded yet.
    """

    key: K
    skip_cache: bool = False

    def __post_init__(self) -> None:
        _needs(self.key, self)


@dataclass(frozen=True)
class TimestampedKeyWithHeadersQuery(Query[Record[K, V] | None], Generic[K, V]):
    """A query for the value of a key as a record with its timestamp and headers (KIP-1356).

    ::

        request = StateQueryRequest.in_store("counts").with_query(TimestampedKeyWithHeadersQuery("ann"))
        assert request.query.key == "ann"
    """

    key: K
    skip_cache: bool = False

    def __post_init__(self) -> None:
        _needs(self.key, self)


@dataclass(frozen=True)
class _OfRange(Generic[K]):
    lower: K | None = None
    upper: K | None = None
    order: ResultOrder = ResultOrder.ANY

    def __post_init__(self) -> None:
        _check_order(self.order, self)

    @property
    def reads_below_cache(self) -> bool:
        """Always true: ranges read below the cache, as in Kafka Streams."""
        return True


@dataclass(frozen=True)
class RangeQuery(_OfRange[K], Query[KeyValueIterator[K, V]], Generic[K, V]):
    """A query for the keys from ``lower`` to ``upper`` with their values.

    It does not read the cache, as in Kafka Streams: changes that were not forwarded yet are left out. The other queries
    of ranges of keys do the same.

    ::

        inputs.pipe_key_values([("ann", "hi"), ("bob", "hi"), ("eve", "hi")])
        request = StateQueryRequest.in_store("counts").with_query(RangeQuery("b", "e"))
        with driver.query(request).only_partition_result.result as rows:
            assert list(rows) == [("bob", 1)]
    """


@dataclass(frozen=True)
class TimestampedRangeQuery(_OfRange[K], Query[KeyValueIterator[K, ValueAndTimestamp[V]]], Generic[K, V]):
    """A query for a range of keys, as :class:`RangeQuery`, with values and timestamps (KIP-992).

    ::

        inputs.pipe_input("ann", "hi", timestamp=1_000)
        request = StateQueryRequest.in_store("counts").with_query(TimestampedRangeQuery())
        with driver.query(request).only_partition_result.result as rows:
            assert list(rows) == [("ann", ValueAndTimestamp(1, 1_000))]
    """


@dataclass(frozen=True)
class TimestampedRangeWithHeadersQuery(_OfRange[K], Query[Iterator[Record[K, V]]], Generic[K, V]):
    """A query for a range of keys, as :class:`RangeQuery`, with records, timestamps and headers (KIP-1356).

    ::

        request = StateQueryRequest.in_store("counts").with_query(TimestampedRangeWithHeadersQuery("a", "b"))
        assert (request.query.lower, request.query.upper) == ("a", "b")
    """


@dataclass(frozen=True)
class _OfWindowsOfKey(Generic[K]):
    key: K
    time_from: Timestamp
    time_to: Timestamp

    def __post_init__(self) -> None:
        _needs(self.key, self)
        for time in (self.time_from, self.time_to):
            if time is None:
                raise ValueError(f"a {type(self).__name__} needs starts of windows in whole ms, got None")
        _set_times(self, "time_from", "time_to")


@dataclass(frozen=True)
class WindowKeyQuery(_OfWindowsOfKey[K], Query[WindowStoreIterator[V]], Generic[K, V]):
    """A query for the windows of a key that start from ``time_from`` to ``time_to`` (ms): their starts and values.

    ::

        request = StateQueryRequest.in_store("per-minute").with_query(WindowKeyQuery("ann", 0, 3_600_000))
        assert request.store_name == "per-minute"
    """


@dataclass(frozen=True)
class TimestampedWindowKeyWithHeadersQuery(_OfWindowsOfKey[K], Query[Iterator[Record[Windowed[K], V]]], Generic[K, V]):
    """A query for the windows of a key, as :class:`WindowKeyQuery`, as records with headers (KIP-1356).

    ::

        query = TimestampedWindowKeyWithHeadersQuery("ann", 0, 3_600_000)
        request = StateQueryRequest.in_store("per-minute").with_query(query)
    """


@dataclass(frozen=True)
class _OfWindows(Generic[K]):
    key: K | None = None
    time_from: Timestamp | None = None
    time_to: Timestamp | None = None

    def __post_init__(self) -> None:
        by_time = self.time_from is not None and self.time_to is not None
        if (self.key is None) != by_time or (self.key is not None and not self.time_from is self.time_to is None):
            raise ValueError(
                f"a {type(self).__name__} needs the key of sessions (with_key), or a range of window starts"
                f" (with_window_start_range), got key {repr_of(self.key)}, times {repr_of(self.time_from)} and"
                f" {repr_of(self.time_to)}"
            )
        _set_times(self, "time_from", "time_to")


@dataclass(frozen=True)
class WindowRangeQuery(_OfWindows[K], Query[KeyValueIterator[Windowed[K], V]], Generic[K, V]):
    """A query for the sessions of a key, or for the windows of all keys that start in a span of time.

    ::

        of_all = WindowRangeQuery.with_window_start_range(0, 3_600_000)  # of a window store
        of_ann = WindowRangeQuery.with_key("ann")  # of a session store
    """

    @classmethod
    def with_key(cls, key: K) -> WindowRangeQuery[K, Any]:
        """Returns a query of a session store for all sessions of a key.

        ::

            query = WindowRangeQuery.with_key("ann")
            request = StateQueryRequest.in_store("visits").with_query(query)
        """
        return cls(key=key)

    @classmethod
    def with_window_start_range(cls, time_from: Timestamp, time_to: Timestamp) -> WindowRangeQuery[Any, Any]:
        """Returns a query of a window store for all windows that start from ``time_from`` to ``time_to`` (ms).

        ::

            query = WindowRangeQuery.with_window_start_range(0, 3_600_000)
            request = StateQueryRequest.in_store("per-minute").with_query(query)
        """
        return cls(time_from=time_from, time_to=time_to)


@dataclass(frozen=True)
class TimestampedWindowRangeWithHeadersQuery(_OfWindows[K], Query[Iterator[Record[Windowed[K], V]]], Generic[K, V]):
    """A query for sessions or windows, as :class:`WindowRangeQuery`, as records with headers (KIP-1356).

    The timestamp of a session is its end.

    ::

        query = TimestampedWindowRangeWithHeadersQuery.with_window_start_range(0, 3_600_000)
        request = StateQueryRequest.in_store("per-minute").with_query(query)
    """

    @classmethod
    def with_key(cls, key: K) -> TimestampedWindowRangeWithHeadersQuery[K, Any]:
        """Returns a query of a session store for all sessions of a key.

        ::

            query = TimestampedWindowRangeWithHeadersQuery.with_key("ann")
            request = StateQueryRequest.in_store("visits").with_query(query)
        """
        return cls(key=key)

    @classmethod
    def with_window_start_range(
        cls, time_from: Timestamp, time_to: Timestamp
    ) -> TimestampedWindowRangeWithHeadersQuery[Any, Any]:
        """Returns a query of a window store for all windows that start from ``time_from`` to ``time_to`` (ms).

        ::

            query = TimestampedWindowRangeWithHeadersQuery.with_window_start_range(0, 3_600_000)
            request = StateQueryRequest.in_store("per-minute").with_query(query)
        """
        return cls(time_from=time_from, time_to=time_to)


@dataclass(frozen=True)
class VersionedKeyQuery(Query[VersionedRecord[V] | None], Generic[K, V]):
    """A query for the latest version of a key, or the one that was valid at ``as_of`` (ms, KIP-960).

    ::

        request = StateQueryRequest.in_store("limits").with_query(VersionedKeyQuery("ann", as_of=1_500))
        assert request.query.as_of == 1_500
    """

    key: K
    as_of: Timestamp | None = None

    def __post_init__(self) -> None:
        _needs(self.key, self)
        _set_times(self, "as_of")


@dataclass(frozen=True)
class MultiVersionedKeyQuery(Query[VersionedRecordIterator[VersionedRecord[V]]], Generic[K, V]):
    """A query for the versions of a key that were valid at some time in a span (KIP-968).

    The span is from ``from_time`` to ``to_time`` (ms). The newest come first unless the order is ascending.

    ::

        query = MultiVersionedKeyQuery("ann", from_time=0, to_time=3_600_000, order=ResultOrder.ASCENDING)
        request = StateQueryRequest.in_store("limits").with_query(query)
    """

    key: K
    from_time: Timestamp | None = None
    to_time: Timestamp | None = None
    order: ResultOrder = ResultOrder.ANY

    def __post_init__(self) -> None:
        _needs(self.key, self)
        _check_order(self.order, self)
        _set_times(self, "from_time", "to_time")
        first, last = whole_ms(self.from_time), whole_ms(self.to_time)
        if first is not None and last is not None and first > last:
            raise ValueError(f"from_time {first} of a MultiVersionedKeyQuery is after to_time {last}")


class IsolationLevel(Enum):
    """The level of isolation of interactive queries.

    The setting of consumers with the same values, ``isolation.level``, is another thing.
    """

    READ_UNCOMMITTED = "read_uncommitted"
    """Reads everything that was put, also what is not committed and may be taken back by an abort."""
    READ_COMMITTED = "read_committed"
    """Reads what the last commit of the task wrote."""
