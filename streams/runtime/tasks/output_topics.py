"""Notices that a topic was deleted to which tasks write their results.

Nothing fails by that at once. Where the brokers make missing topics, the next record makes an empty one, and what
readers had not read is gone. Where they do not, records wait for the topic, and a transaction for them until it is
aborted. So a commit, once a second, asks for the ids of output topics besides those of inputs; each does while one is
absent.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from processor_api.clock import Clock
from streams.config import StreamsConfig
from streams.kafka.ports import TopicState
from streams.runtime.tasks.task import Task
from streams.threads import Threads

log = logging.getLogger("streams.tasks")

_LOOK_S = 1.0


class OutputTopics:
    """Knows the output topics of a process by their ids, from the first time that they are seen. For all its stream
    threads."""

    def __init__(self, config: StreamsConfig, clock: Clock, threads: Threads) -> None:
        self.deleted = 0
        """How often one was deleted while the application ran."""
        self._writes_nothing = config.shadow_of is not None  # a shadow's results are in other topics
        self._dead_letters = config.errors_dead_letter_queue_topic_name
        self._clock = clock
        self._lock = threads.lock()
        self._ids: dict[str, str] = {}
        self._absent: set[str] = set()
        self._next_look = 0.0

    def due(self, tasks: Collection[Task]) -> frozenset[str]:
        """Returns the output topics of tasks, if it is time to look for them."""
        with self._lock:
            now = self._clock.monotonic()
            if self._writes_nothing or (now < self._next_look and not self._absent):
                return frozenset()
            self._next_look = now + _LOOK_S
        plans = {id(task.plan): task.plan for task in tasks}.values()
        named = [] if self._dead_letters is None else [self._dead_letters]
        return frozenset(named).union(
            *(plan.topics_written - plan.internal_topics - set(plan.changelogs.values()) for plan in plans)
        )

    def seen(self, looked_for: Collection[str], states: Mapping[str, TopicState]) -> None:
        """Takes which of the topics exist; says which were deleted."""
        with self._lock:
            for topic in sorted(looked_for):
                self._look(topic, None if topic not in states else states[topic].id)

    def _look(self, topic: str, now: str | None) -> None:
        before = self._ids.get(topic)
        if now is None:
            if before is not None and topic not in self._absent:
                self._absent.add(topic)
                self.deleted += 1
                log.error(
                    "an output topic was deleted while the application runs: records for it wait until it is created"
                    " again, and its tasks with them",
                    extra={"topic": topic, "former_id": before},
                )
            return
        self._ids[topic] = now
        if topic in self._absent:
            self._absent.remove(topic)
            log.warning("the output topic that was deleted is there again", extra={"topic": topic, "id": now})
        elif before not in (None, now):
            self.deleted += 1
            log.error(
                "an output topic was deleted and made again while the application runs: the results that it had are"
                " gone; reset the application to write them again",
                extra={"topic": topic, "former_id": before, "id": now},
            )
