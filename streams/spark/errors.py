"""Errors of the bridge to PySpark."""

from __future__ import annotations

from processor_api.errors import StreamsError


class SparkBridgeError(StreamsError):
    """A request to the bridge that cannot be carried out; raised on the driver, before data moves where possible."""


class SparkVersionError(SparkBridgeError):
    """The version of Spark is too old, or Spark cannot start."""


class WorkerEnvironmentError(SparkBridgeError):
    """The executors lack a package, or run another version of it or of Python than the driver."""


class OffsetRangeLost(SparkBridgeError):
    """Offsets that were pinned are not in the topic any more: it was truncated, or deleted and made again. Pin
    again."""


class UnknownPartitionCount(SparkBridgeError):
    """The number of partitions is needed and not known: the topic does not exist, or a partition is asked for that it
    does not have."""


class NaiveTimestampError(SparkBridgeError):
    """A time has no zone, so that it could mean different moments: give it one."""


class NullTimestampError(SparkBridgeError):
    """A record has no timestamp where one is needed."""


class TimestampRangeError(SparkBridgeError):
    """A time is before 1970, which no reader of a topic takes, or an integer in another unit than it is taken for."""


class PartitionMismatchError(SparkBridgeError):
    """The partition given for a record is none of the topic's, or not the one that its key belongs to."""


class UnsupportedStore(SparkBridgeError):
    """The store has no changelog, or rows that are no columns; the message says what can be read in place of it."""


class SerdeNotPicklable(SparkBridgeError):
    """A serde cannot be sent to the executors. Name the topology as ``module:function``, so that they make it."""
