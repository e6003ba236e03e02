"""The bridge to PySpark: tables and topics as DataFrames, backfills of a topology over history, handover to live.

Needs the extra ``streams-for-kafka[spark]``; nothing else in the package imports this room. A name is loaded when it is
first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.spark.backfill import Backfill, BackfillPlan
    from streams.spark.cut import Cut
    from streams.spark.diff import diff_tables
    from streams.spark.handover import bootstrap
    from streams.spark.handover_check import check_handover
    from streams.spark.handover_report import HandoverReport, StoreHandover
    from streams.spark.history import History
    from streams.spark.offsets import pin_offsets
    from streams.spark.ranges import OffsetRange, OffsetRanges
    from streams.spark.read import offsets_of, read_table, read_topic
    from streams.spark.registration import register
    from streams.spark.result import BackfillResult, StageReport
    from streams.spark.session import local_session
    from streams.spark.state import read_state
    from streams.spark.write import WriteReport, write_topic

__all__ = [
    "ApplicationRunningError",
    "Backfill",
    "BackfillMismatchError",
    "BackfillPlan",
    "BackfillResult",
    "BootstrapVerificationError",
    "ChangelogNotEmptyError",
    "CopartitionError",
    "Cut",
    "CutError",
    "CyclicTopologyError",
    "HandoverReport",
    "History",
    "HistoryBeyondCutError",
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
    "RunDirConflict",
    "SerdeNotPicklable",
    "SparkBridgeError",
    "SparkVersionError",
    "StageFailed",
    "StageReport",
    "StoreHandover",
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
    "read_state",
    "read_table",
    "read_topic",
    "register",
    "write_topic",
]

from streams.spark.backfill_errors import (
    CopartitionError,
    CyclicTopologyError,
    HistorySchemaError,
    MissingHistoryError,
    OffsetGapError,
    RunDirConflict,
    StageFailed,
    TopologyNotPicklable,
    UnsupportedContextError,
    UnsupportedForBackfill,
)
from streams.spark.errors import (
    NaiveTimestampError,
    NullTimestampError,
    OffsetRangeLost,
    PartitionMismatchError,
    SerdeNotPicklable,
    SparkBridgeError,
    SparkVersionError,
    UnknownPartitionCount,
    UnsupportedStore,
    WorkerEnvironmentError,
)
from streams.spark.handover_errors import (
    ApplicationRunningError,
    BackfillMismatchError,
    BootstrapVerificationError,
    ChangelogNotEmptyError,
    CutError,
    HistoryBeyondCutError,
    HistoryShortOfCutError,
    InternalTopicMismatch,
)

_HOMES = {
    "backfill": "Backfill BackfillPlan",
    "cut": "Cut",
    "diff": "diff_tables",
    "handover": "bootstrap",
    "handover_check": "check_handover",
    "handover_report": "HandoverReport StoreHandover",
    "history": "History",
    "offsets": "pin_offsets",
    "ranges": "OffsetRange OffsetRanges",
    "read": "offsets_of read_table read_topic",
    "registration": "register",
    "result": "BackfillResult StageReport",
    "session": "local_session",
    "state": "read_state",
    "write": "WriteReport write_topic",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_WITHOUT_SPARK = frozenset({"cut", "handover", "handover_check", "handover_report"})
_OF_THE_EXTRA = frozenset({"pandas", "pyarrow", "pyspark"})

if not TYPE_CHECKING:  # a type checker would take every name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            if home not in _WITHOUT_SPARK:
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
