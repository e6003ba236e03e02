"""Errors of the bridge to PySpark: of reading and writing topics, of backfills, and of handovers."""

from __future__ import annotations

from processor_api.errors import StreamsError


class SparkBridgeError(StreamsError):
    """A request to the bridge that cannot be carried out; raised on the driver, before data moves where possible."""


class SparkVersionError(SparkBridgeError):
    """The version of Spark is too old, or Spark cannot start."""


class WorkerEnvironmentError(SparkBridgeError):
    """The executors lack a package, or run another version of it or of Python than the driver."""


class OffsetRangeLost(SparkBridgeError):
    """Required records are no longer in the topic: it was compacted, truncated, or deleted and made again.
    The message says what to do, such as to pin offsets again."""


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
    """The store has no changelog, or rows that are not columns; the message says what can be read instead of it."""


class SerdeNotPicklable(SparkBridgeError):
    """A serde cannot be sent to the executors. Name the topology as ``module:function``, so that they make it."""


class TopologyNotPicklable(SparkBridgeError):
    """The function that makes the topology cannot be sent to Spark's executors. The message names the part."""


class MissingHistoryError(SparkBridgeError):
    """A topic that the topology reads has no history, or a history is given for a topic that it does not read."""


class HistorySchemaError(SparkBridgeError):
    """A column of a history is missing, or has another type than is needed."""


class HistoryFileError(SparkBridgeError):
    """A file of a history is damaged, still being written, or has other columns than the others."""


class CopartitionError(SparkBridgeError):
    """Topics that are read together have different numbers of partitions."""


class OffsetGapError(SparkBridgeError):
    """Offsets of a history occur twice, or are missing where the history has others."""


class CyclicTopologyError(SparkBridgeError):
    """Subtopologies feed each other, and it was asked to refuse that."""


class UnsupportedForBackfill(SparkBridgeError):
    """A part of the topology cannot run over history in the same order as live."""


class RunDirConflict(SparkBridgeError):
    """The run directory belongs to another run: another topology, other inputs or other options."""


class BackfillCancelled(SparkBridgeError):
    """The backfill was cancelled, by its user or by ``cancel``. The tasks that were done are kept."""

    @classmethod
    def of(cls, what: str) -> BackfillCancelled:
        """Returns the error of a part of a backfill."""
        return cls(f"{what} of the backfill was cancelled: run it again to continue")


class StageFailed(SparkBridgeError):
    """A task of a stage failed with an error that is not one of ours; the cause is chained."""


class ApplicationRunningError(SparkBridgeError):
    """Workers of the application run; a bootstrap needs them all to be stopped."""


class BackfillMismatchError(SparkBridgeError):
    """The result of a backfill does not fit the topology, the application or the topics of the cluster."""


class BootstrapVerificationError(SparkBridgeError):
    """A changelog does not hold what the backfill wrote: rows are missing, differ, or are there twice."""


class ChangelogNotEmptyError(SparkBridgeError):
    """The application has state or committed offsets already, which a bootstrap would replace."""


class CutError(SparkBridgeError):
    """A cut lacks partitions, or is outside of the log."""


class PositionError(SparkBridgeError):
    """Two parts do not meet: where one ends the other does not begin, so that records would be processed twice or left
    out, or they are of two topics with one name."""


class HistoryBeyondCutError(SparkBridgeError):
    """The backfill has processed records behind the cut, which live workers would process again."""


class HistoryShortOfCutError(SparkBridgeError):
    """Records before the cut are neither in the history of the backfill nor processed by live workers."""


class InternalTopicMismatch(SparkBridgeError):
    """An internal topic exists with another number of partitions than the topology needs, or with settings by which it
    loses rows."""
