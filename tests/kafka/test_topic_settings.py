"""Settings of an existing internal topic are refused if records or their times are lost by them, and only then."""

from __future__ import annotations

import pytest

from streams.kafka.topics.internal import harmful_settings

TABLE = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact"}
WINDOWS = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact,delete", "retention.ms": "1000"}
VERSIONS = {**TABLE, "min.compaction.lag.ms": "5000"}
REPARTITION = {"message.timestamp.type": "CreateTime", "cleanup.policy": "delete", "retention.ms": "-1"}


@pytest.mark.parametrize(
    ("wanted", "found", "needed"),
    [
        (TABLE, {"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}),
        (TABLE, {"cleanup.policy": "delete, compact"}, {"cleanup.policy": "compact"}),
        (TABLE, {"retention.ms": "1", "min.insync.replicas": "2", "segment.bytes": "1"}, {}),
        (TABLE, {"message.timestamp.type": "LogAppendTime"}, {"message.timestamp.type": "CreateTime"}),
        (WINDOWS, {}, {}),
        (WINDOWS, {"cleanup.policy": "compact", "retention.ms": "1"}, {}),
        (WINDOWS, {"cleanup.policy": "delete", "retention.ms": "-1"}, {}),
        (WINDOWS, {"retention.ms": "1001"}, {}),
        (WINDOWS, {"cleanup.policy": "delete,compact", "retention.ms": "999"}, {"retention.ms": "1000"}),
        (VERSIONS, {"min.compaction.lag.ms": "4999"}, {"min.compaction.lag.ms": "5000"}),
        (VERSIONS, {"min.compaction.lag.ms": "5001"}, {}),
        (REPARTITION, {"retention.ms": "604800000"}, {"retention.ms": "-1"}),
        (REPARTITION, {"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}),
        ({}, {"cleanup.policy": "delete"}, {}),
    ],
)
def test_settings_that_lose_records_are_found(
    wanted: dict[str, str], found: dict[str, str], needed: dict[str, str]
) -> None:
    assert harmful_settings(wanted, {**wanted, **found}) == needed


def test_settings_that_the_cluster_does_not_show_are_not_compared() -> None:
    assert harmful_settings(WINDOWS, {}) == {}
