"""The bridge to PySpark: tables and topics as DataFrames, backfills of a topology over history, handover to live.

Needs the extra ``streams-for-kafka[spark]``; nothing else in the package imports this room. A name is loaded when it is
first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.spark.backfill import Backfill, BackfillPlan
    from streams.spark.history import History
    from streams.spark.offsets import OffsetRange, OffsetRanges, pin_offsets
    from streams.spark.read import offsets_of, read_table, read_topic
    from streams.spark.registration import register
    from streams.spark.result import BackfillResult, StageReport
    from streams.spark.session import local_session
    from streams.spark.state import read_state
    from streams.spark.write import WriteReport, write_topic

__all__ = [
    "Backfill",
    "BackfillPlan",
    "BackfillResult",
    "CopartitionError",
    "CyclicTopologyError",
    "History",
    "HistorySchemaError",
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
    "TopologyNotPicklable",
    "UnknownPartitionCount",
    "UnsupportedContextError",
    "UnsupportedForBackfill",
    "UnsupportedStore",
    "WorkerEnvironmentError",
    "WriteReport",
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

_HOMES = {
    "backfill": "Backfill BackfillPlan",
    "history": "History",
    "offsets": "OffsetRange OffsetRanges pin_offsets",
    "read": "offsets_of read_table read_topic",
    "registration": "register",
    "result": "BackfillResult StageReport",
    "session": "local_session",
    "state": "read_state",
    "write": "WriteReport write_topic",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_OF_THE_EXTRA = frozenset({"pandas", "pyarrow", "pyspark"})

if not TYPE_CHECKING:  # a type checker would take every name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
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
