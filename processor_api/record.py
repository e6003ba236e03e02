"""Records as processors see them.

Inside the engine a record is four positional arguments (key, value, timestamp, headers) and no object at all; `Record`
exists at the processor API's surface only. It is slotted but not frozen: a frozen one costs three times as much.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from processor_api.serde import Headers as Headers
from processor_api.texts import repr_of
from processor_api.user_code.durations import LAST_MS, Timestamp, whole_ms

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

HeaderList = list[tuple[str, bytes | None]]
"""Headers as the client gives and takes them: ``(name, value)`` pairs in order, names may repeat."""

Forward = Callable[[Any, Any, int, HeaderList | None], None]
"""``(key, value, timestamp_ms, headers)`` handed to what comes next; ``headers`` is ``None`` when there are none."""

NO_TIMESTAMP = -1
"""The timestamp of a record that has none (KIP-32)."""


class TimestampType(enum.IntEnum):
    """The side that set a record's timestamp (KIP-32)."""

    NOT_AVAILABLE = 0
    """Not known."""
    CREATE_TIME = 1
    """The producer, when it created the record."""
    LOG_APPEND_TIME = 2
    """The broker, when it appended the record to the log."""


class RecordMetadata(NamedTuple):
    """The topic, partition and offset of the current record.

    In a punctuation the topic is ``None``, partition and offset are -1 (semantics 20).

    ::

        class Located(Processor):
            def process(self, record):
                place = self.context.record_metadata
                self.context.forward(record.with_value(f"{place.topic}, offset {place.offset}"))

        located = orders.process(Located)
        # ("ann", "tea") -> ("ann", "orders, offset 0")
    """

    topic: str | None
    partition: int
    offset: int
    timestamp_type: TimestampType = TimestampType.NOT_AVAILABLE
    """The one of Kafka's two kinds of time that the source record carried (KIP-32)."""
    source_timestamp: int = NO_TIMESTAMP
    """The source record's own timestamp in ms, before any extractor; -1 when it had none."""


def record_time(given: Any) -> int:
    """Returns the timestamp that a record was given, as a plain int.

    :raises TypeError: if it is not a whole number.
    :raises ValueError: if it is negative, or has more than 64 bits.
    """
    found = whole_ms(given)
    if found is None:
        raise TypeError(
            "a record's timestamp must be a whole number of milliseconds since 1970, or a datetime with a zone, got"
            f" {repr_of(given)} of type {type(given).__name__}"
        )
    if found < 0:
        raise ValueError(f"a record's timestamp must not be negative, got {found}")
    if found > LAST_MS:
        raise ValueError(f"a record's timestamp must have at most 64 bits, got {found}")
    return found


class _Fields(Generic[K, V]):
    __slots__ = ("key", "raw_headers", "timestamp", "value")
    __match_args__ = ("key", "value", "timestamp")

    def __init__(
        self, key: K, value: V, timestamp: Timestamp, headers: Iterable[tuple[str, bytes | None]] | None = None
    ) -> None:
        if type(timestamp) is not int or not 0 <= timestamp <= LAST_MS:
            timestamp = record_time(timestamp)
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.raw_headers = headers

    @property
    def headers(self) -> Headers:
        """The record's headers; adding to them changes this record."""
        headers = self.raw_headers
        if type(headers) is not Headers:
            headers = self.raw_headers = Headers(headers or ())
        return headers

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return (self.key, self.value, self.timestamp, self.headers) == (
            other.key,
            other.value,
            other.timestamp,
            other.headers,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        headers = f", headers={list(self.headers)!r}" if self.raw_headers else ""
        return f"{type(self).__name__}(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp}{headers})"


class Record(_Fields[K, V]):
    """A key, a value, a timestamp in ms (not negative) and headers. The ``with_*`` methods return a changed copy.

    ::

        record = Record("ann", "tea", 1_700_000_000_000, [("source", b"web")])
        assert record.with_value("milk").headers.last("source") == b"web"

    :raises TypeError: if the timestamp is not a whole number; integers of numpy are accepted, floats are not.
    :raises ValueError: if it is negative, or has more than 64 bits.
    """

    __slots__ = ()

    def with_key(self, key: K2) -> Record[K2, V]:
        """Returns a copy with another key.

        ::

            record = Record("ann", "tea", 0).with_key("bob")
            assert record == Record("bob", "tea", 0)
        """
        return Record(key, self.value, self.timestamp, self._copied())

    def with_value(self, value: V2) -> Record[K, V2]:
        """Returns a copy with another value.

        ::

            record = Record("ann", "tea", 0).with_value("milk")
            assert record == Record("ann", "milk", 0)
        """
        return Record(self.key, value, self.timestamp, self._copied())

    def with_timestamp(self, timestamp: Timestamp) -> Record[K, V]:
        """Returns a copy with another timestamp in ms.

        ::

            record = Record("ann", "tea", 0).with_timestamp(1_000)
            assert record == Record("ann", "tea", 1_000)

        :raises ValueError: if it is negative.
        """
        return Record(self.key, self.value, timestamp, self._copied())

    def with_headers(self, headers: Iterable[tuple[str, bytes | None]]) -> Record[K, V]:
        """Returns a copy with other headers.

        ::

            record = Record("ann", "tea", 0).with_headers([("source", b"web")])
            assert record.headers.last("source") == b"web"
        """
        return Record(self.key, self.value, self.timestamp, Headers(headers))

    def _copied(self) -> Any:
        headers = self.raw_headers
        return Headers(headers) if type(headers) is Headers else headers


class FixedKeyRecord(_Fields[K, V]):
    """A record whose key cannot be changed, so that what follows needs no repartition.

    ::

        class Upper(FixedKeyProcessor):
            def process(self, record):
                self.context.forward(record.with_value(record.value.upper()))

        loud = orders.process_values(Upper)
        # ("ann", "tea") -> ("ann", "TEA")
    """

    __slots__ = ()

    def with_value(self, value: V2) -> FixedKeyRecord[K, V2]:
        """Returns a copy with another value.

        ::

            record = FixedKeyRecord("ann", "tea", 0).with_value("milk")
            assert record.value == "milk"
        """
        return FixedKeyRecord(self.key, value, self.timestamp, self._copied())

    def with_timestamp(self, timestamp: Timestamp) -> FixedKeyRecord[K, V]:
        """Returns a copy with another timestamp in ms.

        ::

            record = FixedKeyRecord("ann", "tea", 0).with_timestamp(1_000)
            assert record.timestamp == 1_000

        :raises ValueError: if it is negative.
        """
        return FixedKeyRecord(self.key, self.value, timestamp, self._copied())

    def with_headers(self, headers: Iterable[tuple[str, bytes | None]]) -> FixedKeyRecord[K, V]:
        """Returns a copy with other headers.

        ::

            record = FixedKeyRecord("ann", "tea", 0).with_headers([("source", b"web")])
            assert record.headers.last("source") == b"web"
        """
        return FixedKeyRecord(self.key, self.value, self.timestamp, Headers(headers))

    def _copied(self) -> Any:
        headers = self.raw_headers
        return Headers(headers) if type(headers) is Headers else headers


class DropReason(enum.Enum):
    """Says why a record gave no result at a node.

    Most reasons are of records that are dropped, which ``dropped-records-total`` counts. The others are counted apart,
    as in Kafka Streams.
    """

    WINDOW_CLOSED = (
        "its window has closed",
        "give the window a longer grace period, and see whether one record of the future has moved stream time",
    )
    LATE_COPY = (
        "late: an equal record may have been forgotten",
        "give deduplicate() a longer time for late records",
    )
    ROW_EXPIRED = ("its row has expired in the store", "give the store a longer retention")
    HISTORY_ENDED = (
        "it is older than the history of the versioned store",
        "give the store a longer history retention",
    )
    NOT_LATEST = (
        "an update of a versioned table that is not its latest",
        "nothing: results are made of the latest versions only",
    )
    NULL_KEY = ("null key", "give the records a key, by select_key() or in their producer")
    NULL_KEY_OR_VALUE = ("null key or value", "give the records a key and a value, or filter them out before")
    NULL_KEY_OR_ID = ("null key or id", "give the records a key and an id, or filter them out before")
    NULL_FOREIGN_KEY = ("null foreign key", "use left_join() for rows without a foreign key")
    NULL_SUBSCRIPTION = ("a subscription without a foreign key", "use left_join() for rows without a foreign key")
    CHANGED_MEANWHILE = ("an answer to an older value of the left row", "nothing: the newer value has its own answer")
    UNREADABLE = ("it cannot be read", "see whether the serde of the topic is the one that its producers use")
    NEGATIVE_TIME = (
        "its timestamp extractor gave a negative time",
        "see what the timestamp extractor takes for a time",
    )
    AHEAD_OF_CLOCK = (
        "its time is too far ahead of the clock (timestamp.after.max.ms)",
        "see whether the times of the producer are in milliseconds, and its clock",
    )
    FAILED = ("failed, and the handler resumes", "see the warnings of the log for the errors")
    UNWRITABLE = ("it cannot be written", "see the warnings of the log for the errors")
    REFUSED = ("the broker refused it", "see the warnings of the log for the errors")
    NO_PARTITION = ("the partitioner chose no partition", "nothing, if the partitioner leaves records out on purpose")
    NO_PARTNER = (
        "no partner",
        "use left_join() to see them; a table has to have its row before the record of the stream is processed",
        False,
    )
    AGGREGATE_DELETED_NOTHING = (
        "the aggregator returned None, but there was no aggregate to delete",
        "let the aggregator return the aggregate: list.append(), dict.update() and set.add() change it in place and"
        " return None",
        False,
    )
    COPY = ("an equal record was kept before", "nothing: this is what deduplicate() is for", False)
    UNKEYED_REPARTITION = (
        "null key before a repartition topic",
        "give the records a key: they have no partition of their own",
        False,
    )
    MISPLACED_KEY = (
        "its key lies in another partition than the topology looks for it",
        "set the partitioner of the producer to murmur2_random, or repartition() the stream",
        False,
    )
    DELETED_UNREAD = (
        "deleted from its topic before it was read",
        "give the topic a longer retention (retention.ms, retention.bytes), or the application more workers",
        False,
    )
    LOST_AFTER_READ = (
        "lost by its topic after it was read: a leader was elected without it",
        "look at the brokers: unclean.leader.election.enable=false and min.insync.replicas=2 prevent it",
        False,
    )

    def __init__(self, text: str, remedy: str, dropped: bool = True) -> None:
        self.text = text
        """The reason in words, as the end of "the record gave no result: ..."."""
        self.remedy = remedy
        """Says what to do about it."""
        self.dropped = dropped
        """Whether ``dropped-records-total`` counts such records."""
        self.tag = self.name.lower().replace("_", "-")
        """The reason in the tags of metrics, such as ``window-closed``."""

    __hash__ = object.__hash__
    """That of an enum is computed in Python: counting by reason would take three times as long."""

    @property
    def is_late(self) -> bool:
        """Whether the record came too late."""
        return self in _LATE

    @property
    def is_expected(self) -> bool:
        """Whether such records are a part of what the operator does, and no fault."""
        return self in _EXPECTED


_LATE = frozenset({DropReason.WINDOW_CLOSED, DropReason.LATE_COPY, DropReason.ROW_EXPIRED, DropReason.HISTORY_ENDED})
_EXPECTED = frozenset(
    {
        DropReason.NO_PARTNER,
        DropReason.COPY,
        DropReason.NO_PARTITION,
        DropReason.NOT_LATEST,
        DropReason.CHANGED_MEANWHILE,
    }
)
