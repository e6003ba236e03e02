"""Errors of the handover from a backfill to live workers."""

from __future__ import annotations

from streams.spark.errors import SparkBridgeError


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


class HistoryBeyondCutError(SparkBridgeError):
    """The backfill has processed records behind the cut, which live workers would process again."""


class HistoryShortOfCutError(SparkBridgeError):
    """Records before the cut are neither in the history of the backfill nor processed by live workers."""


class InternalTopicMismatch(SparkBridgeError):
    """An internal topic exists with another number of partitions than the topology needs, or with settings by which it
    loses rows."""
