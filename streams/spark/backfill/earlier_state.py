"""The state at the end of one backfill, as the beginning of another."""

from __future__ import annotations

from streams.spark.backfill.result import BackfillResult
from streams.spark.backfill.stages import Stage
from streams.spark.errors import SparkBridgeError
from streams.spark.executor.errors import CopartitionError, UnsupportedForBackfill
from streams.spark.executor.stage_job import EarlierState


def earlier_state(result: BackfillResult, stage: Stage) -> EarlierState:
    """Returns the state with which the tasks of a stage begin.

    :raises CopartitionError: if the earlier backfill had another number of partitions.
    :raises UnsupportedForBackfill: if that sent on what waited at its end.
    :raises SparkBridgeError: if it lacks a store.
    """
    if result.options.get("flush_at_end"):
        raise UnsupportedForBackfill(
            "initial_state is a result of flush_at_end, whose windows were closed early: run that backfill without it"
        )
    changelogs: dict[str, str] = {}
    for plan in stage.plans:
        for store, topic in plan.changelogs.items():
            if store not in plan.source_changelogs:
                changelogs[topic] = result.changelog(store)
    times = {}
    for report in result.stages:
        for task in report.tasks:
            found = task["partition_times"], task["processor_times"]
            times[task["subtopology"], task["partition"]] = found
    for plan in stage.plans:
        partitions = {partition for number, partition in times if number == plan.subtopology}
        if not partitions:
            raise SparkBridgeError(
                f"initial_state has no subtopology {plan.subtopology}: give the result of a backfill of this topology"
            )
        if len(partitions) != plan.tasks:
            raise CopartitionError(
                f"initial_state has {len(partitions)} partitions of subtopology {plan.subtopology}, this backfill has"
                f" {plan.tasks}: keys would be in other partitions. Give the same partitions"
            )
    return EarlierState(changelogs, result.files("state"), times)
