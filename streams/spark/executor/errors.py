"""Errors of backfills; those that reading and writing topics have too are in :mod:`streams.spark.errors`."""

from __future__ import annotations

from streams.spark.errors import SparkBridgeError


class TopologyNotPicklable(SparkBridgeError):
    """The function that makes the topology cannot be sent to Spark's executors. The message names the part."""


class MissingHistoryError(SparkBridgeError):
    """A topic that the topology reads has no history, or a history is given for a topic that it does not read."""


class HistorySchemaError(SparkBridgeError):
    """A column of a history is missing, or has another type than is needed."""


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


class StageFailed(SparkBridgeError):
    """A task of a stage failed in Spark, with an error that is not one of ours; the cause is chained."""
