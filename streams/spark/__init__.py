"""The bridge to PySpark: tables and topics as DataFrames, backfills of a topology over history, handover to live.

Needs the extra ``streams-for-kafka[spark]``; nothing else in the package imports this room. A name is loaded when it is
first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.spark.backfill.history import History
    from streams.spark.backfill.result import BackfillResult, StageReport
    from streams.spark.backfill.run import Backfill
    from streams.spark.backfill.stages import BackfillPlan
    from streams.spark.corrections.publish import CorrectionsReport
    from streams.spark.handover.bootstrap import bootstrap
    from streams.spark.handover.check import check_handover
    from streams.spark.handover.cut import Cut
    from streams.spark.handover.report import HandoverReport, StoreHandover
    from streams.spark.position import Position
    from streams.spark.session import local_session
    from streams.spark.sources.offsets import pin_offsets
    from streams.spark.sources.ranges import OffsetRange, OffsetRanges
    from streams.spark.tables.diff import diff_tables
    from streams.spark.tables.read import offsets_of, position_of, read_table, read_topic
    from streams.spark.tables.registration import register
    from streams.spark.tables.state import read_state
    from streams.spark.tables.write import WriteReport, write_topic

__all__ = [
    "ApplicationRunningError",
    "Backfill",
    "BackfillCancelled",
    "BackfillMismatchError",
    "BackfillPlan",
    "BackfillResult",
    "BootstrapVerificationError",
    "ChangelogNotEmptyError",
    "CopartitionError",
    "CorrectionsReport",
    "Cut",
    "CutError",
    "CyclicTopologyError",
    "HandoverReport",
    "History",
    "HistoryBeyondCutError",
    "HistoryFileError",
    "HistorySchemaError",
    "HistoryShortOfCutError",
    "InternalTopicMismatch",
    "MissingHistoryError",
    "NaiveTimestampError",
    "NullTimestampError",
    "OffsetGapError",
    "OffsetRange",
    "OffsetRangeLost",
    "OffsetRanges",
    "PartitionMismatchError",
    "Position",
    "PositionError",
    "RunDirConflict",
    "SerdeNotPicklable",
    "SparkBridgeError",
    "SparkVersionError",
    "StageFailed",
    "StageReport",
    "StoreHandover",
    "TimestampRangeError",
    "TopologyNotPicklable",
    "UnknownPartitionCount",
    "UnsupportedContextError",
    "UnsupportedForBackfill",
    "UnsupportedStore",
    "WorkerEnvironmentError",
    "WriteReport",
    "bootstrap",
    "check_handover",
    "diff_tables",
    "local_session",
    "offsets_of",
    "pin_offsets",
    "position_of",
    "read_state",
    "read_table",
    "read_topic",
    "register",
    "write_topic",
]

from streams.runtime.runner.columns import UnsupportedContextError
from streams.spark.errors import (
    ApplicationRunningError,
    BackfillCancelled,
    BackfillMismatchError,
    BootstrapVerificationError,
    ChangelogNotEmptyError,
    CopartitionError,
    CutError,
    CyclicTopologyError,
    HistoryBeyondCutError,
    HistoryFileError,
    HistorySchemaError,
    HistoryShortOfCutError,
    InternalTopicMismatch,
    MissingHistoryError,
    NaiveTimestampError,
    NullTimestampError,
    OffsetGapError,
    OffsetRangeLost,
    PartitionMismatchError,
    PositionError,
    RunDirConflict,
    SerdeNotPicklable,
    SparkBridgeError,
    SparkVersionError,
    StageFailed,
    TimestampRangeError,
    TopologyNotPicklable,
    UnknownPartitionCount,
    UnsupportedForBackfill,
    UnsupportedStore,
    WorkerEnvironmentError,
)

_HOMES = {
    "backfill.history": "History",
    "backfill.result": "BackfillResult StageReport",
    "backfill.run": "Backfill",
    "backfill.stages": "BackfillPlan",
    "corrections.publish": "CorrectionsReport",
    "handover.bootstrap": "bootstrap",
    "handover.check": "check_handover",
    "handover.cut": "Cut",
    "handover.report": "HandoverReport StoreHandover",
    "position": "Position",
    "session": "local_session",
    "sources.offsets": "pin_offsets",
    "sources.ranges": "OffsetRange OffsetRanges",
    "tables.diff": "diff_tables",
    "tables.read": "offsets_of position_of read_table read_topic",
    "tables.registration": "register",
    "tables.state": "read_state",
    "tables.write": "WriteReport write_topic",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_NEED_SPARK = frozenset(
    {"session", "tables.diff", "tables.read", "tables.registration", "tables.state", "tables.write"}
)
_OF_THE_EXTRA = frozenset({"pandas", "pyarrow", "pyspark"})

if not TYPE_CHECKING:  # a type checker would take every name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            if home in _NEED_SPARK:
                import pyspark.sql  # noqa: F401

            found = getattr(import_module(f"{__name__}.{home}"), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in _OF_THE_EXTRA:
                raise
            raise ImportError(
                f"streams.spark.{name} needs {error.name}: pip install 'streams-for-kafka[spark]'", name=error.name
            ) from error
        globals()[name] = found
        return found
