"""The contracts of stores: the calls that a processor may make, without implementation.

Iterators are context managers and must be closed; they show the store as it was when they were opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from processor_api.record import HeaderList
from processor_api.stores.windowed import Windowed
from processor_api.user_code.durations import Timestamp
from processor_api.user_code.given_serdes import SerdeLike

K = TypeVar("K")
V = TypeVar("V")


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value and the timestamp in ms of the record that set it (KIP-258)."""

    value: V
    timestamp: int


class ValueTimestampHeaders(NamedTuple, Generic[V]):
    """A value with the timestamp in ms and the headers of the record that set it (KIP-1271)."""

    value: V
    timestamp: int
    headers: HeaderList


class AggregationWithHeaders(NamedTuple, Generic[V]):
    """The aggregate of a session with the headers of the record that set it (KIP-1271)."""

    aggregation: V
    headers: HeaderList


PUT_RETURN_CODE_VALID_TO_UNDEFINED = -1
"""The result of a versioned put if the version is the latest of its key (KIP-889)."""

PUT_RETURN_CODE_NOT_PUT = -(1 << 63)
"""The result of a versioned put that is older than the history that is kept, and was dropped (KIP-889)."""


class VersionedRecord(NamedTuple, Generic[V]):
    """A version of a key: its value, and from when until when it was valid (KIP-889).

    It is valid from ``timestamp`` (ms) until ``valid_to`` (ms, exclusive), which is ``None`` for the latest version.
    """

    value: V
    timestamp: int
    valid_to: int | None = None


@runtime_checkable
class StateStore(Protocol):
    """A store of one task, with what all kinds of store have in common.

    A processor gets it by ``context.get_state_store(name)`` and uses it on the thread of its task only. Every call of
    every kind raises :class:`~processor_api.errors.StoreError` if the store is closed, if a key is ``None``, or if a
    serde cannot write what it was given; the store is then as it was before the call.
    """

    @property
    def name(self) -> str:
        """The name of the store, which is unique in its topology."""
        ...

    @property
    def persistent(self) -> bool:
        """Whether rows are on disk, so that they are still there after a restart."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the store can be used: from the start of its task to its end."""
        ...


class KeyValueIterator(Iterator[tuple[K, V]], Protocol[K, V]):
    """An iterator over rows as ``(key, value)``, which shows the store as it was when the iterator was opened.

    It is a context manager and must be closed: an open one keeps resources of its store. Rows come in the order of the
    keys' bytes unless the call that opened it says otherwise.

    ::

        inputs.pipe_key_values([("ann", "hi"), ("bob", "hi")])
        with driver.get_key_value_store("counts").all() as rows:
            assert rows.peek_next_key() == "ann"
            assert next(rows) == ("ann", 1)
    """

    def __enter__(self) -> KeyValueIterator[K, V]: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def peek_next_key(self) -> K:
        """Returns the key of the next row, without moving.

        :raises StopIteration: at the end.
        """
        ...

    def close(self) -> None:
        """Ends the iteration and frees its resources. It may be called again."""
        ...


class ReadOnlyKeyValueStore(StateStore, Protocol[K, V]):
    """A key-value store for reading.

    Both ends of a range are included, ``None`` is an open end, and a range whose start is above its end is empty
    (KIP-617). Keys come in the order of their bytes.
    """

    def get(self, key: K) -> V | None:
        """Returns the value of the key, or ``None`` if there is none.

        ::

            inputs.pipe_key_values([("ann", "hi"), ("ann", "hello")])
            counts = driver.get_key_value_store("counts")
            assert (counts.get("ann"), counts.get("bob")) == (2, None)

        :raises StoreError: if the key is ``None`` or cannot be written by its serde.
        """
        ...

    def range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]:
        """Returns the rows from one key to another, in the order of the keys' bytes.

        ::

            inputs.pipe_key_values([("ann", "hi"), ("bob", "hi"), ("eve", "hi")])
            with driver.get_key_value_store("counts").range("b", "e") as rows:
                assert list(rows) == [("bob", 1)]

        :param from_key: the first key, included; ``None`` starts at the first row.
        :param to_key: the last key, included; ``None`` ends at the last row.
        """
        ...

    def reverse_range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]:
        """Returns the rows of :meth:`range` in the opposite order; ``from_key`` is still the lower end.

        ::

            inputs.pipe_key_values([("ann", "hi"), ("bob", "hi"), ("eve", "hi")])
            with driver.get_key_value_store("counts").reverse_range("ann", "bob") as rows:
                assert list(rows) == [("bob", 1), ("ann", 1)]
        """
        ...

    def all(self) -> KeyValueIterator[K, V]:
        """Returns all rows, in the order of the keys' bytes.

        ::

            inputs.pipe_key_values([("ann", "hi"), ("bob", "hi")])
            with driver.get_key_value_store("counts").all() as rows:
                assert list(rows) == [("ann", 1), ("bob", 1)]
        """
        ...

    def reverse_all(self) -> KeyValueIterator[K, V]:
        """Returns all rows, in the opposite order of the keys' bytes.

        ::

            inputs.pipe_key_values([("ann", "hi"), ("bob", "hi")])
            with driver.get_key_value_store("counts").reverse_all() as rows:
                assert list(rows) == [("bob", 1), ("ann", 1)]
        """
        ...

    def prefix_scan(self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None) -> KeyValueIterator[K, V]:
        """Returns the rows whose key's bytes start with the bytes of the prefix (KIP-614).

        ::

            inputs.pipe_key_values([("shop-1", "hi"), ("shop-2", "hi"), ("ann", "hi")])
            with driver.get_key_value_store("counts").prefix_scan("shop-") as rows:
                assert [key for key, count in rows] == ["shop-1", "shop-2"]

        :param prefix_serde: writes the prefix, a serde or the name of one; the key serde if left out.
        """
        ...

    def approximate_num_entries(self) -> int:
        """Returns about how many keys there are: an estimate on RocksDB, exact in memory after a commit.

        ::

            inputs.pipe_key_values([("ann", "hi"), ("bob", "hi")])
            counts = driver.get_key_value_store("counts")
            assert counts.approximate_num_entries() == 2
        """
        ...


class KeyValueStore(ReadOnlyKeyValueStore[K, V], Protocol[K, V]):
    """A key-value store for reading and writing. A value of ``None`` deletes the key.

    What is put can be read at once, and is written to the engine by the next commit. A change that is put has the
    timestamp and headers of the current record::

        from streams import Processor, Serdes, Stores, Topology, TopologyTestDriver

        class Counter(Processor):
            def init(self, context):
                super().init(context)
                self.counts = context.get_state_store("counts")

            def process(self, record):
                self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)
                with self.counts.range("a", "b") as rows:
                    self.seen = list(rows)

        topology = (
            Topology()
            .add_source("source", "words")
            .add_processor("counter", Counter, "source")
            .add_state_store(Stores.key_value_store("counts", Serdes.STRING, Serdes.LONG), "counter")
        )
        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(topology, settings) as driver:
            driver.create_input_topic("words").pipe_key_values([("a", ""), ("c", ""), ("a", "")])
            counts = driver.get_key_value_store("counts")
            assert (counts.get("a"), counts.get("b")) == (2, None)
            with counts.all() as rows:
                assert list(rows) == [("a", 2), ("c", 1)]
            assert counts.delete("c") == 1
    """

    def put(self, key: K, value: V | None) -> None:
        """Sets the value of the key; ``None`` deletes the key.

        ::

            counts = driver.get_key_value_store("counts")
            counts.put("ann", 7)
            assert counts.get("ann") == 7

        :raises StoreError: if the key is ``None``, or the key or value cannot be written by its serde.
        """
        ...

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Sets the value of the key if it has none; returns the value that was there before, or ``None``.

        ::

            counts = driver.get_key_value_store("counts")
            assert counts.put_if_absent("ann", 7) is None
            assert counts.put_if_absent("ann", 8) == 7
        """
        ...

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Puts all ``(key, value)`` in order, or none of them if one cannot be put.

        ::

            counts = driver.get_key_value_store("counts")
            counts.put_all([("ann", 7), ("bob", 1)])
            assert counts.get("bob") == 1

        :raises StoreError: if an entry is not a pair, or cannot be put.
        """
        ...

    def delete(self, key: K) -> V | None:
        """Removes the key; returns the value it had, or ``None``.

        ::

            counts = driver.get_key_value_store("counts")
            counts.put("ann", 7)
            assert counts.delete("ann") == 7
        """
        ...


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A key-value store whose values carry the timestamp of the record that set them (KIP-258)."""


class TimestampedKeyValueStoreWithHeaders(KeyValueStore[K, ValueTimestampHeaders[V]], Protocol[K, V]):
    """A key-value store whose values carry the timestamp and the headers of the record that set them (KIP-1271)."""


class ListStore(StateStore, Protocol[K, V]):
    """A store with a list of values for each key.

    ::

        class Waiting(Processor):
            def process(self, record):
                waiting = self.context.get_state_store("waiting")
                waiting.put(record.key, record.value)
                self.context.forward(record.with_value(waiting.get(record.key)))

        waiting = Stores.list_store_builder(Stores.in_memory_list_store("waiting"), "string", "string")
        builder.add_state_store(waiting)
        lists = orders.process(Waiting, "waiting")
        # ("ann", "tea"), ("ann", "milk") -> ("ann", ["tea"]), ("ann", ["tea", "milk"])
    """

    def put(self, key: K, value: V | None) -> None:
        """Adds a value to the end of the key's list; ``None`` deletes the list."""
        ...

    def delete(self, key: K) -> None:
        """Removes the key with its whole list."""
        ...

    def get(self, key: K) -> list[V]:
        """Returns the key's values in the order in which they were put; an empty list if there are none."""
        ...

    def range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]:
        """Returns every value with its key: keys in the order of their bytes, values as they were put.

        :param from_key: the first key, included; ``None`` starts at the first row.
        :param to_key: the last key, included; ``None`` ends at the last row.
        """
        ...

    def all(self) -> KeyValueIterator[K, V]:
        """Returns every value of every key, in the order of :meth:`range`."""
        ...

    def reverse_range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]:
        """Returns what :meth:`range` does, keys and values in the opposite order."""
        ...

    def reverse_all(self) -> KeyValueIterator[K, V]:
        """Returns what :meth:`all` does, keys and values in the opposite order."""
        ...

    def prefix_scan(self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None) -> KeyValueIterator[K, V]:
        """Returns every value with its key, for the keys whose bytes start with the bytes of the prefix.

        :param prefix_serde: writes the prefix, a serde or the name of one; the key serde if left out.
        """
        ...

    def approximate_num_entries(self) -> int:
        """Returns about how many keys there are; values are not counted."""
        ...


T_co = TypeVar("T_co", covariant=True)


class VersionedRecordIterator(Iterator[T_co], Protocol[T_co]):
    """An iterator over versions, which shows the store as it was when the iterator was opened.

    It is a context manager and must be closed. It fails once it or its store is closed.
    """

    def __enter__(self) -> VersionedRecordIterator[T_co]: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Ends the iteration and frees its resources. It may be called again."""
        ...


class VersionedKeyValueStore(StateStore, Protocol[K, V]):
    """A key-value store that keeps older versions of its values for a time, the history retention (KIP-889).

    A version is valid from its timestamp until that of the next version or deletion of its key; times are in ms and not
    negative. The store's time is the highest timestamp put. Puts older than that by more than the history retention are
    dropped, and so are versions that ended before, by whole segments; the latest version of a key never expires.

    ::

        class Limits(Processor):
            def process(self, record):
                limits = self.context.get_state_store("limits")
                limits.put(record.key, record.value, record.timestamp)
                before = limits.get(record.key, as_of=record.timestamp - 1)
                self.context.forward(record.with_value([before and before.value, record.value]))

        supplier = Stores.persistent_versioned_key_value_store("limits", timedelta(days=1))
        builder.add_state_store(Stores.versioned_key_value_store_builder(supplier, "string", "long"))
        changes = payments.process(Limits, "limits")
        # ("ann", 500) @ 1_000, ("ann", 100) @ 2_000 -> ("ann", [None, 500]), ("ann", [500, 100])
    """

    def put(self, key: K, value: V | None, timestamp: Timestamp) -> int:
        """Puts a version, which may be older than others; ``None`` deletes. One of the same timestamp is replaced.

        :param timestamp: the start of its validity, in ms.
        :returns: the end of its validity in ms; `PUT_RETURN_CODE_VALID_TO_UNDEFINED` if it is the latest,
            `PUT_RETURN_CODE_NOT_PUT` if it was dropped.
        """
        ...

    def delete(self, key: K, timestamp: Timestamp) -> VersionedRecord[V] | None:
        """Deletes the key as of a time in ms; returns the version that was valid then."""
        ...

    def get(self, key: K, as_of: Timestamp | None = None) -> VersionedRecord[V] | None:
        """Returns the latest version, or the one that was valid at ``as_of`` (ms); ``None`` if there is none.

        For a time before the history only the latest version is an answer, if it is that old; this is logged.
        """
        ...

    def versions(
        self, key: K, from_time: Timestamp | None = None, to_time: Timestamp | None = None
    ) -> VersionedRecordIterator[VersionedRecord[V]]:
        """Returns the versions that were valid at some time in a span, oldest first (KIP-968).

        :param from_time: the start of the span in ms, included; ``None`` is open.
        :param to_time: the end of the span in ms, included; ``None`` is open.
        """
        ...

    def backward_versions(
        self, key: K, from_time: Timestamp | None = None, to_time: Timestamp | None = None
    ) -> VersionedRecordIterator[VersionedRecord[V]]:
        """Returns what :meth:`versions` does, newest first: reading the newest n costs O(n)."""
        ...

    def range(
        self, from_key: K | None = None, to_key: K | None = None, as_of: Timestamp | None = None
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """Returns the keys of a range with their latest versions, or those that were valid at ``as_of`` (ms).

        Both ends are included, ``None`` is open, and keys come in the order of their bytes. As of a time it reads
        through all versions of these keys.
        """
        ...

    def reverse_range(
        self, from_key: K | None = None, to_key: K | None = None, as_of: Timestamp | None = None
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """Returns what :meth:`range` does, in the opposite order of the keys' bytes."""
        ...

    def prefix_scan(
        self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None, as_of: Timestamp | None = None
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """Returns what :meth:`range` does, for the keys whose bytes start with the bytes of the prefix.

        :param prefix_serde: writes the prefix, a serde or the name of one; the key serde if left out.
        """
        ...

    def range_versions(
        self,
        from_key: K | None = None,
        to_key: K | None = None,
        from_time: Timestamp | None = None,
        to_time: Timestamp | None = None,
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """Returns what :meth:`versions` does for each key of a range: by key, then by time (asked for as KIP-969)."""
        ...

    def reverse_range_versions(
        self,
        from_key: K | None = None,
        to_key: K | None = None,
        from_time: Timestamp | None = None,
        to_time: Timestamp | None = None,
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """Returns what :meth:`range_versions` does, in the opposite order."""
        ...

    def approximate_num_entries(self) -> int:
        """Returns about how many keys have a latest version."""
        ...


WindowStoreIterator = KeyValueIterator[int, V]
"""An iterator over the windows of a key, as ``(start in ms, value)``."""


class ReadOnlyWindowStore(StateStore, Protocol[K, V]):
    """A window store for reading.

    Times are starts of windows in ms; both ends of a range are included, and a range whose start is above its end is
    empty (KIP-617). What is older than the retention, seen from the largest window start put, is not shown. The rows of
    one key come in order of time. Those of several keys come segment by segment, in each by key and then time; those of
    a store in memory, and those of all keys of a time-ordered store, by time and then key.
    """

    def fetch(self, key: K, time: Timestamp) -> V | None:
        """Returns the value of the key in the window that starts at ``time`` (ms), or ``None``."""
        ...

    def fetch_range(self, key: K, time_from: Timestamp, time_to: Timestamp) -> WindowStoreIterator[V]:
        """Returns the windows of a key that start from ``time_from`` to ``time_to`` (ms), oldest first.

        Kafka Streams has it as ``fetch(key, timeFrom, timeTo)``.
        """
        ...

    def backward_fetch_range(self, key: K, time_from: Timestamp, time_to: Timestamp) -> WindowStoreIterator[V]:
        """Returns what :meth:`fetch_range` does, newest first."""
        ...

    def fetch_keys(
        self, key_from: K | None, key_to: K | None, time_from: Timestamp, time_to: Timestamp
    ) -> KeyValueIterator[Windowed[K], V]:
        """Returns the windows of a range of keys that start from ``time_from`` to ``time_to`` (ms).

        Kafka Streams has it as ``fetch(keyFrom, keyTo, timeFrom, timeTo)``.

        :param key_from: the first key, included; ``None`` is open.
        :param key_to: the last key, included; ``None`` is open.
        """
        ...

    def backward_fetch_keys(
        self, key_from: K | None, key_to: K | None, time_from: Timestamp, time_to: Timestamp
    ) -> KeyValueIterator[Windowed[K], V]:
        """Returns what :meth:`fetch_keys` does, in the opposite order."""
        ...

    def fetch_all(self, time_from: Timestamp, time_to: Timestamp) -> KeyValueIterator[Windowed[K], V]:
        """Returns the windows of all keys that start from ``time_from`` to ``time_to`` (ms)."""
        ...

    def backward_fetch_all(self, time_from: Timestamp, time_to: Timestamp) -> KeyValueIterator[Windowed[K], V]:
        """Returns what :meth:`fetch_all` does, in the opposite order."""
        ...

    def all(self) -> KeyValueIterator[Windowed[K], V]:
        """Returns all windows of all keys."""
        ...

    def backward_all(self) -> KeyValueIterator[Windowed[K], V]:
        """Returns all windows of all keys, in the opposite order of :meth:`all`."""
        ...


class WindowStore(ReadOnlyWindowStore[K, V], Protocol[K, V]):
    """A window store for reading and writing.

    ::

        class Minutes(Processor):
            def process(self, record):
                counts = self.context.get_state_store("counts")
                start = record.timestamp // 60_000 * 60_000
                counts.put(record.key, (counts.fetch(record.key, start) or 0) + 1, start)
                with counts.fetch_range(record.key, start - 3_600_000, start) as windows:
                    self.context.forward(record.with_value(list(windows)))

        builder.add_state_store(Stores.window_store("counts", 7_200_000, 60_000, "string", "long"))
        counts = clicks.process(Minutes, "counts")
        # ("ann", "home") @ 0, ("ann", "cart") @ 61_000 -> ("ann", [(0, 1)]), ("ann", [(0, 1), (60_000, 1)])
    """

    def put(self, key: K, value: V | None, window_start: Timestamp) -> None:
        """Sets the value of the key in the window that starts at ``window_start`` (ms).

        ``None`` deletes the row; where duplicates are kept it does nothing, and every other put adds a row. A put whose
        window has expired is dropped and counted.
        """
        ...


class TimestampedWindowStore(WindowStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A window store whose values carry the timestamp of the record that set them (KIP-258)."""


class TimestampedWindowStoreWithHeaders(WindowStore[K, ValueTimestampHeaders[V]], Protocol[K, V]):
    """A window store whose values carry the timestamp and the headers of the record that set them (KIP-1271)."""


class ReadOnlySessionStore(StateStore, Protocol[K, V]):
    """A session store for reading.

    Times are in ms. What ended longer ago than the retention, seen from the largest session end put, is not shown. The
    sessions of one key come by end, then start. Those of several keys come segment by segment, in each by key; those of
    a store in memory by end, then key.
    """

    def fetch_session(self, key: K, session_start: Timestamp, session_end: Timestamp) -> V | None:
        """Returns the aggregate of the key's session with exactly this start and end (ms), or ``None``."""
        ...

    def fetch(self, key: K) -> KeyValueIterator[Windowed[K], V]:
        """Returns all sessions of a key, by their ends."""
        ...

    def backward_fetch(self, key: K) -> KeyValueIterator[Windowed[K], V]:
        """Returns all sessions of a key, in the opposite order of :meth:`fetch`."""
        ...

    def fetch_keys(self, key_from: K | None, key_to: K | None) -> KeyValueIterator[Windowed[K], V]:
        """Returns all sessions of a range of keys.

        Kafka Streams has it as ``fetch(keyFrom, keyTo)``.

        :param key_from: the first key, included; ``None`` is open.
        :param key_to: the last key, included; ``None`` is open.
        """
        ...

    def backward_fetch_keys(self, key_from: K | None, key_to: K | None) -> KeyValueIterator[Windowed[K], V]:
        """Returns what :meth:`fetch_keys` does, in the opposite order."""
        ...

    def find_sessions(
        self, key: K, earliest_end: Timestamp, latest_start: Timestamp
    ) -> KeyValueIterator[Windowed[K], V]:
        """Returns the sessions of a key that touch a span of time.

        :param earliest_end: sessions that end before it (ms) are left out.
        :param latest_start: sessions that start after it (ms) are left out.
        """
        ...

    def backward_find_sessions(
        self, key: K, earliest_end: Timestamp, latest_start: Timestamp
    ) -> KeyValueIterator[Windowed[K], V]:
        """Returns what :meth:`find_sessions` does, in the opposite order."""
        ...

    def find_sessions_of_keys(
        self, key_from: K | None, key_to: K | None, earliest_end: Timestamp, latest_start: Timestamp
    ) -> KeyValueIterator[Windowed[K], V]:
        """Returns the sessions of a range of keys that touch a span of time, as :meth:`find_sessions` does of one key.

        Kafka Streams has it as ``findSessions(keyFrom, keyTo, earliestSessionEndTime, latestSessionStartTime)``.

        :param key_from: the first key, included; ``None`` is open.
        :param key_to: the last key, included; ``None`` is open.
        """
        ...

    def backward_find_sessions_of_keys(
        self, key_from: K | None, key_to: K | None, earliest_end: Timestamp, latest_start: Timestamp
    ) -> KeyValueIterator[Windowed[K], V]:
        """Returns what :meth:`find_sessions_of_keys` does, in the opposite order."""
        ...

    def find_sessions_by_end(self, earliest_end: Timestamp, latest_end: Timestamp) -> KeyValueIterator[Windowed[K], V]:
        """Returns the sessions of all keys that end from ``earliest_end`` to ``latest_end`` (ms, both included).

        Kafka Streams has it as ``findSessions(earliestSessionEndTime, latestSessionEndTime)``.
        """
        ...


class SessionStore(ReadOnlySessionStore[K, V], Protocol[K, V]):
    """A session store for reading and writing.

    ::

        class Visits(Processor):
            def process(self, record):
                visits = self.context.get_state_store("visits")
                visits.put(Windowed(record.key, Window(record.timestamp, record.timestamp)), 1)
                with visits.fetch(record.key) as found:
                    self.context.forward(record.with_value([windowed.window.start for windowed, count in found]))

        builder.add_state_store(Stores.session_store("visits", timedelta(hours=1), "string", "long"))
        starts = clicks.process(Visits, "visits")
        # ("ann", "home") @ 0, ("ann", "cart") @ 61_000 -> ("ann", [0]), ("ann", [0, 61_000])
    """

    def put(self, session_key: Windowed[K], aggregate: V | None) -> None:
        """Sets the aggregate of a session; ``None`` removes it. A session that has expired is dropped and counted.

        :param session_key: the key with the session's start and end in ms: ``Windowed(key, Window(start, end))``.
        """
        ...

    def remove(self, session_key: Windowed[K]) -> None:
        """Removes a session, given as to :meth:`put`."""
        ...


class TimestampedSessionStore(SessionStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A session store whose aggregates carry the timestamp of the record that set them (KIP-258)."""


class SessionStoreWithHeaders(SessionStore[K, AggregationWithHeaders[V]], Protocol[K, V]):
    """A session store whose aggregates carry the headers of the record that set them (KIP-1271)."""
