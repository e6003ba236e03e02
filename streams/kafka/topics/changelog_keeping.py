"""Compares the time for which a changelog keeps rows with that for which its store needs them. Pure functions.

A store of windows or versions forgets by stream time, and a broker by the wall clock. Where records are of long ago,
or none has come for a while, the broker is ahead: it deletes rows that the store still needs, and a restore gives back
less than was there. The only copy has to outlive its reader, so topics that the application makes are not cut by time
at all (the tasks delete what has expired, `streams.runtime.tasks.expired_windows`), and those that were made otherwise
are compared with what their stores need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.record import NO_TIMESTAMP
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import CustomStoreSupplier

DAY_MS = 86_400_000
RETENTION, LAG, POLICY = "retention.ms", "min.compaction.lag.ms", "cleanup.policy"
UNLIMITED = -1


def is_cut_by_tasks(builder: StoreBuilder[Any, Any]) -> bool:
    """Whether the changelog of a store is cut by its tasks, by stream time, and not by the broker.

    So it is for windows and sessions, unless the store's own topic settings say a retention, or the store is custom:
    nothing tells the time of such a store.
    """
    supplier = builder.supplier
    custom = isinstance(supplier, CustomStoreSupplier)
    return "retention_ms" in supplier.parameters and not custom and RETENTION not in builder.topic_config


@dataclass(frozen=True)
class Needed:
    """The rows that a store needs of its changelog: those that are at most so far behind its stream time."""

    store: str
    setting: str
    """The topic's setting that decides how long rows stay: ``retention.ms``; of versions ``min.compaction.lag.ms``."""
    behind_ms: int

    def at_risk_ms(self, settings: Mapping[str, str], stream_time: int, now_ms: int) -> int | None:
        """Returns the age from which on the broker removes rows, in ms, if the store still needs such rows.

        :param settings: those of the topic.
        :param stream_time: the largest time that the task has seen.
        """
        if stream_time == NO_TIMESTAMP:
            return None
        policy, given = settings.get(POLICY, ""), settings.get(self.setting)
        if given is None or ("delete" if self.setting == RETENTION else "compact") not in policy:
            return None
        kept_ms = int(given)
        if kept_ms == UNLIMITED or stream_time - self.behind_ms >= now_ms - kept_ms:
            return None
        return kept_ms

    def kept_ms(self, stream_time: int, now_ms: int) -> int:
        """Returns the value of the setting that keeps what is needed.

        Versions cannot be kept without an end: a topic that is never compacted has each change for ever. They get the
        time by which the store is behind, and a day.
        """
        return UNLIMITED if self.setting == RETENTION else now_ms - stream_time + self.behind_ms + DAY_MS

    def remedy(self, topic: str, stream_time: int, now_ms: int) -> str:
        """Returns the command by which a topic keeps what is needed."""
        given = f"{self.setting}={self.kept_ms(stream_time, now_ms)}"
        return f"kafka-configs.sh --entity-type topics --entity-name {topic} --alter --add-config {given}"


def needed_by(builder: StoreBuilder[Any, Any]) -> Needed | None:
    """Returns what a store needs of its changelog; ``None`` if no time decides what stays there."""
    parameters = builder.supplier.parameters
    if "history_retention_ms" in parameters:
        return Needed(builder.name, LAG, parameters["history_retention_ms"])
    return Needed(builder.name, RETENTION, parameters["retention_ms"]) if "retention_ms" in parameters else None
