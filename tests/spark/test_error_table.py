"""Each error of the bridge has a test that shows it, and says what to do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import streams.spark
from processor_api.errors import StreamsError

ROOT = Path(__file__).resolve().parents[2]
RUNS, CUT, HANDOVER = "spark/test_backfill_runs.py", "spark/test_backfill_cut.py", "spark/test_handover.py"
DAYS, TOPICS = "spark/test_bad_days.py", "integration/test_spark_topics.py"

SHOWN = {
    "ApplicationRunningError": (HANDOVER, "test_an_application_that_runs_is_refused"),
    "BackfillCancelled": ("spark/test_cancelled.py", "test_a_run_that_is_cancelled_goes_on_later"),
    "BackfillMismatchError": (HANDOVER, "test_a_backfill_of_another_topology_is_refused"),
    "BootstrapVerificationError": (
        "spark/test_handover_snapshots.py",
        "test_a_changelog_that_was_changed_gets_no_snapshot",
    ),
    "ChangelogNotEmptyError": (HANDOVER, "test_state_is_replaced_only_if_that_is_said"),
    "CopartitionError": (RUNS, "test_a_plan_that_cannot_work_is_refused_before_data_is_read"),
    "CutError": (CUT, "test_a_cut_of_other_partitions_is_refused"),
    "CyclicTopologyError": (RUNS, "test_a_plan_that_cannot_work_is_refused_before_data_is_read"),
    "HistoryBeyondCutError": (CUT, "test_a_history_that_goes_beyond_the_cut_is_refused_by_the_plan"),
    "HistoryFileError": (DAYS, "test_a_file_of_a_day_that_is_not_like_the_others_is_named"),
    "HistorySchemaError": (RUNS, "test_columns_that_do_not_fit_are_refused_by_the_plan"),
    "HistoryShortOfCutError": (CUT, "test_pinned_offsets_are_compared_with_the_cut_without_reading"),
    "InternalTopicMismatch": ("spark/test_handover_settings.py", "test_a_changelog_that_deletes_rows_is_refused"),
    "MissingHistoryError": (RUNS, "test_a_plan_that_cannot_work_is_refused_before_data_is_read"),
    "NaiveTimestampError": (RUNS, "test_columns_that_do_not_fit_are_refused_by_the_plan"),
    "NullTimestampError": (RUNS, "test_rows_that_cannot_be_used_are_named"),
    "OffsetGapError": (RUNS, "test_rows_that_cannot_be_used_are_named"),
    "OffsetRangeLost": (TOPICS, "test_pinned_records_that_are_gone_are_missed_on_the_driver"),
    "PartitionMismatchError": (RUNS, "test_a_key_in_another_partition_is_named_if_that_is_asked_for"),
    "PositionError": ("spark/test_position.py", "test_what_does_not_meet_the_state_is_refused_by_how_much"),
    "RunDirConflict": (RUNS, "test_a_run_directory_serves_one_backfill"),
    "SerdeNotPicklable": ("spark/test_spark_columns.py", "test_a_serde_that_holds_a_lock_is_refused"),
    "SparkVersionError": ("spark/test_session.py", "test_an_older_spark_is_refused"),
    "StageFailed": (RUNS, "test_an_error_that_is_not_ours_says_which_part_failed"),
    "TimestampRangeError": (TOPICS, "test_a_time_that_ends_every_reader_is_not_written"),
    "TopologyNotPicklable": (RUNS, "test_a_plan_that_cannot_work_is_refused_before_data_is_read"),
    "UnknownPartitionCount": (RUNS, "test_a_plan_that_cannot_work_is_refused_before_data_is_read"),
    "UnsupportedContextError": (RUNS, "test_a_processor_that_asks_for_offsets_needs_a_history_with_them"),
    "UnsupportedForBackfill": (RUNS, "test_a_topic_named_by_a_function_is_an_output_unless_it_is_read_again"),
    "UnsupportedStore": ("spark/test_spark_state.py", "test_what_is_not_there_is_refused"),
    "WorkerEnvironmentError": ("spark/test_session.py", "test_workers_of_another_python_are_refused"),
    "BootstrapIncompleteError": (HANDOVER, "refuses"),
    "DeserializationError": (RUNS, "test_records_that_cannot_be_processed_are_dead_letters_if_asked_for"),
}
"""The test that shows each error, also of two errors that are not the bridge's alone. A snapshot that does not fit is
no error of a worker, but a line of its log (`spark/test_handover_snapshots.py`)."""


def test_every_error_of_the_bridge_is_in_the_table() -> None:
    exported = {name for name in streams.spark.__all__ if isinstance(getattr(streams.spark, name), type)}
    errors = {name for name in exported if issubclass(getattr(streams.spark, name), StreamsError)} - {
        "SparkBridgeError"
    }
    assert len(errors) > 20
    assert errors <= SHOWN.keys()


@pytest.mark.parametrize("error", SHOWN)
def test_the_test_of_an_error_is_there_and_knows_the_error(error: str) -> None:
    path, name = SHOWN[error]
    tree = ast.parse((ROOT / "tests" / path).read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert name in functions
    module = ast.unparse(tree)
    tables = [one for one in ("PLANS", "SCHEMAS", "BAD_ROWS") if one in ast.unparse(functions[name])]
    assert error in (module if tables else ast.unparse(functions[name]))
