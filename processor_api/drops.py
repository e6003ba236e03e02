"""The reasons for which a record gives no result at a node, with what to do about each."""

from __future__ import annotations

import enum


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
    FAILED = ("failed, and the handler goes on", "see the warnings of the log for the errors")
    UNWRITABLE = ("it cannot be written", "see the warnings of the log for the errors")
    REFUSED = ("the broker refused it", "see the warnings of the log for the errors")
    NO_PARTITION = ("the partitioner chose no partition", "nothing, if the partitioner leaves records out on purpose")
    NO_PARTNER = (
        "no partner",
        "use left_join() to see them; a table has to have its row before the record of the stream is processed",
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

    def __init__(self, text: str, advice: str, dropped: bool = True) -> None:
        self.text = text
        """Why, as the end of "the record gave no result: ..."."""
        self.advice = advice
        """What to do about it."""
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
