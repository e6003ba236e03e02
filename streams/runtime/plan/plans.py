"""The plans that the threads of a process work by.

They change while the threads run, when a pattern matches a new topic or a topic gets more partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from processor_api.errors import StreamsError
from streams.kafka.membership.port import GroupTopology
from streams.runtime.plan.task_plan import TaskPlan
from streams.threads import SYSTEM_THREADS, Threads


@dataclass(frozen=True)
class Plans:
    """Holds the plan of each subtopology, and what membership has to know of them."""

    tasks: Mapping[int, TaskPlan]
    group: GroupTopology


class PlanBook:
    """Holds the plans in force. Written by one thread, read by any."""

    def __init__(self, plans: Plans, threads: Threads = SYSTEM_THREADS) -> None:
        self.current = plans
        self.outdated = threads.event()
        """Set by a thread that was given a task which the plans do not have."""
        self.refusal: StreamsError | None = None
        """The error if the application cannot go on with the topics as they are now; threads raise it."""
