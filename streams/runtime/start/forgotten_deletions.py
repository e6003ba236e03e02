"""State that is older than the deletions which its changelog still has.

A compacted topic forgets a deletion ``delete.retention.ms`` after it has removed the records before it. A worker that
was away for longer, while others wrote the changelog, would read on behind a deletion that is gone: the key would be
there again, until somebody writes it (KAFKA-19943). Such a store is restored from the beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from processor_api.clock import Clock
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Admin
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")

ASKED_FROM_MS = 60_000
"""Stores that were complete a minute ago are taken as they are: most starts ask the cluster nothing."""
MARGIN = 0.9
"""The part of ``delete.retention.ms`` that state may be old: the restore takes time, and clocks differ."""


class ForgottenDeletions:
    """Finds the stores of tasks which may hold keys that were deleted.

    :param admin: is asked for the settings of the changelogs of old state.
    """

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock

    def stores(
        self, task: Task, changelogs: Mapping[TopicPartition, str], ends: Mapping[TopicPartition, int]
    ) -> frozenset[str]:
        """Returns the stores of a task that must be restored from the beginning, and logs them.

        :param ends: of the changelogs; what has nothing behind its offset misses no deletion.
        :raises RetryableError: if no broker answers.
        """
        now = self._clock.time_ms()
        ages: dict[TopicPartition, int] = {}
        for partition, store in changelogs.items():
            complete_at, stored = task.stores.complete_at(store), task.stores.stored_offset(store)
            if complete_at is None or stored is None or stored + 1 >= ends[partition]:
                continue
            if now - complete_at >= ASKED_FROM_MS:
                ages[partition] = now - complete_at
        kept = self._kept_ms({partition.topic for partition in ages})
        found = {one: age for one, age in ages.items() if one.topic in kept and age > MARGIN * kept[one.topic]}
        for partition, age in found.items():
            log.warning(
                "store is rebuilt from its changelog: it is older than the deletions that the changelog still has",
                extra={
                    "task": str(task.id),
                    "store": changelogs[partition],
                    "changelog": str(partition),
                    "age_ms": age,
                    "delete.retention.ms": kept[partition.topic],
                },
            )
        return frozenset(changelogs[partition] for partition in found)

    def _kept_ms(self, topics: Collection[str]) -> dict[str, int]:
        """Returns how long topics keep deletions, of those that are compacted and whose settings can be read."""
        if not topics:
            return {}
        try:
            settings = self._admin.topic_settings(topics)
        except RetryableError:
            raise
        except Exception as error:
            log.warning(
                "old state is used as it is: the settings of its changelogs cannot be read",
                extra={"topics": ", ".join(sorted(topics)), "error": str(error)},
            )
            return {}
        found: dict[str, int] = {}
        for topic, values in settings.items():
            kept = values.get("delete.retention.ms", "")
            if "compact" in values.get("cleanup.policy", "") and kept.isdecimal():
                found[topic] = int(kept)
        return found
