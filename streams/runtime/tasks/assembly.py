"""Assembles tasks from a plan: the environment, the stores with their engines, and the task that uses both.

Stream threads, the test driver, global stores and the runner of single tasks assemble theirs here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from processor_api.clock import Clock
from processor_api.task_id import TaskId
from processor_api.topology.data import TopologyData
from processor_api.topology.function import TopologyLike, topology_of
from processor_api.topology.missing_serdes import check_serdes
from processor_api.topology.topology import Topology
from processor_api.topology.warnings import warnings_of
from state.write_buffer.memory_budget import Budget
from streams.kafka.ports import Admin, Consumer, Producer
from streams.runtime.engines.opener import check_engines
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment, TaskSettings, TaskThread
from streams.runtime.processing.error_policy import ErrorPolicy
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_stores import EngineOpener, TaskStores

if TYPE_CHECKING:
    from streams.config import StreamsConfig


def topology_to_run(given: TopologyLike, config: StreamsConfig) -> Topology:
    """Returns the topology that runs under a configuration: built, and wrapped by ``processor.wrapper.class``.

    :param given: a topology, a builder, or a function that makes either.
    :raises TopologyError: if it is none of these, or there is no engine for one of its stores.
    :raises ConfigError: if a source, sink or store has no serde.
    """
    made, wrapper = topology_of(given, config), config.processor_wrapper_class
    warnings_of(made)
    if wrapper is not None:
        made = made.wrapped_by(wrapper, config.dotted())
    check_engines(made)
    check_serdes(made, config.default_key_serde, config.default_value_serde)
    return made


@dataclass(frozen=True, kw_only=True)
class TaskAssembly:
    """Assembles tasks of one owner, and holds what these share."""

    settings: TaskSettings
    error_policy: Callable[..., ErrorPolicy]
    """``(task, origin_of=..., followed_serdes=...)`` to the error policy of a task; both look a node up."""
    clock: Clock
    open_engine: EngineOpener
    budget: Budget = field(default_factory=lambda: Budget(0))
    """The memory for the write buffers of all tasks."""
    thread: TaskThread = field(default_factory=TaskThread)

    def environment(self, id_: TaskId, topology: TopologyData, state_dir: Path) -> Environment:
        """Makes the environment of a task, or of global stores.

        :param state_dir: where its stores are.
        """
        return Environment(
            id_,
            self.settings,
            self.error_policy(id_, origin_of=topology.origin_of, followed_serdes=topology.followed_serdes),
            clock=self.clock,
            state_dir=state_dir,
            thread=self.thread,
        )

    def task(self, plan: TaskPlan, id_: TaskId, state_dir: Path) -> Task:
        """Makes a task with open engines.

        :raises RetryableError: if another process has an engine open.
        :raises StateError: if an engine is damaged or cannot be opened.
        """
        environment = self.environment(id_, plan.topology, state_dir)
        return Task(plan, environment, TaskStores(plan, environment, self.budget, self.open_engine))


@dataclass(frozen=True)
class ThreadClients:
    """Holds the Kafka clients of one stream thread. Each thread has its own, but for the admin client."""

    consumer: Consumer
    """Reads the inputs of tasks, and is the member of the group."""
    restore_consumer: Consumer
    """Reads committed records of changelogs."""
    producer: Producer
    admin: Admin
