"""The plan of a backfill, as data: which subtopologies run in which stage, over which topics. Pure functions.

A stage runs a subtopology over its whole input before the next stage begins, so a topic that one subtopology writes and
another reads is complete when it is read. Subtopologies that feed each other, as the two of a foreign-key join do, are
one stage, whose records go round in one task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from processor_api.errors import MissingTopicError, TopologyError
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import SinkNode, SourceNode
from streams.kafka.topics.readers import reader_of
from streams.runtime.plan.task_plan import TaskPlan, plan_tasks
from streams.spark.errors import CopartitionError, CyclicTopologyError, MissingHistoryError, UnknownPartitionCount
from streams.spark.executor.loops import loop_of, topics_that_go_round
from streams.spark.notebook import html_table


@dataclass(frozen=True)
class StageInput:
    """A topic that a stage reads."""

    topic: str
    stage: int | None
    """The stage that writes it; ``None`` for a topic with a history."""
    partitions: int


@dataclass(frozen=True)
class Stage:
    """Subtopologies that run together: one, or several that feed each other."""

    number: int
    plans: tuple[TaskPlan, ...]
    inputs: tuple[StageInput, ...]
    """Topics in the order in which a task merges them, those that go round in the stage left out."""
    looped: frozenset[str]
    """Topics that the stage writes and reads itself."""
    partitions: int
    """Partitions of the widest input."""

    @property
    def subtopologies(self) -> tuple[int, ...]:
        """The ids of the subtopologies."""
        return tuple(plan.subtopology for plan in self.plans)

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores."""
        return tuple(store for plan in self.plans for store in plan.stores)

    @property
    def topics_written(self) -> frozenset[str]:
        """Topics of sinks with fixed names."""
        logs = {topic for plan in self.plans for topic in plan.changelogs.values()}
        return frozenset(topic for plan in self.plans for topic in plan.topics_written if topic not in logs)

    @property
    def spark_tasks(self) -> int:
        """The number of tasks in Spark: records that go round need one that has every partition."""
        return 1 if self.looped else self.partitions


@dataclass(frozen=True)
class BackfillPlan:
    """The stages of a backfill."""

    application_id: str
    stages: tuple[Stage, ...]
    global_topics: tuple[str, ...]
    """Topics that fill global stores; they are read before the first stage."""
    orders: Mapping[str, str]
    """The order in which the records of each history are processed, ``"offset"`` or ``"time"``."""
    notes: tuple[str, ...] = ()
    """Remarks on the histories, such as columns that are not read."""
    is_new: bool = True
    """Whether the histories have a record that the initial state does not have."""

    def explain(self) -> str:
        """Returns the plan as text: each stage with its inputs, stores and outputs."""
        lines = [f"backfill of {self.application_id!r}"]
        lines += [f"  global table of topic {topic}" for topic in self.global_topics]
        for stage in self.stages:
            numbers = ", ".join(map(str, stage.subtopologies))
            count = stage.spark_tasks
            lines.append(f"  stage {stage.number}: subtopology {numbers}, {count} task{'s' * (count != 1)}")
            lines += [f"    reads {self._input(one)}" for one in stage.inputs]
            if stage.looped:
                lines.append("    one task for all partitions, since its subtopologies feed each other:")
                lines += [f"      {line}" for line in loop_of(stage.plans, stage.looped)]
                lines += [f"      {line}" for line in self._alone(stage)]
            lines += [f"    keeps {store}" for store in stage.stores]
            lines += [f"    writes {topic}" for topic in sorted(stage.topics_written - stage.looped)]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (
                stage.number,
                ", ".join(map(str, stage.subtopologies)),
                stage.spark_tasks,
                ", ".join(map(self._input, stage.inputs)),
                ", ".join(stage.stores),
                ", ".join(sorted(stage.topics_written - stage.looped)),
            )
            for stage in self.stages
        ]
        columns = ("stage", "subtopologies", "tasks", "reads", "keeps", "writes")
        return html_table("; ".join([f"backfill of {self.application_id}", *self.notes]), columns, rows)

    def _alone(self, stage: Stage) -> list[str]:
        """Returns lines about the inputs of a stage in one task: those read record by record, and the others."""
        going_round = topics_that_go_round(stage.plans, stage.looped)
        names = [one.topic for one in stage.inputs]
        parts = {
            "record by record": [topic for topic in names if topic in going_round],
            "many records at a time": [topic for topic in names if topic not in going_round],
        }
        return [f"{how}: {', '.join(topics)}" for how, topics in parts.items() if topics]

    def _input(self, one: StageInput) -> str:
        source = f"history by {self.orders[one.topic]}" if one.stage is None else f"stage {one.stage}"
        return f"{one.topic} ({source}, {one.partitions} partition{'s' * (one.partitions != 1)})"


def plan_stages(
    topology: TopologyData,
    settings: Mapping[str, Any],
    histories: Collection[str],
    counts: Mapping[str, int],
    *,
    on_cycle: str = "single_task",
) -> tuple[Stage, ...]:
    """Returns the stages of a backfill in the order in which they run.

    :param settings: under Kafka's dotted names.
    :param histories: topics that have a history.
    :param counts: partition counts of topics that are not internal.
    :raises MissingHistoryError: if a topic that is read has no history, or one that is not read has.
    :raises UnknownPartitionCount: if the partition count of a topic that is read is not known.
    :raises CopartitionError: if topics that are read together have different numbers of partitions.
    :raises TopologyError: if the patterns of two sources match one topic.
    :raises CyclicTopologyError: if subtopologies feed each other, and ``on_cycle`` is ``"error"``.
    """
    plans = _plans(topology, settings, counts, histories)
    written = {topic: plan.subtopology for plan in plans for topic in _written(plan)}
    _check_histories(topology, plans, written, histories)
    groups = _groups(plans)
    stages: list[Stage] = []
    writers: dict[str, int] = {}
    for number, group in enumerate(groups):
        own = {topic for plan in group for topic in _written(plan)}
        read = {topic: count for plan in group for topic, count in plan.partition_counts.items()}
        looped = frozenset(own & read.keys())
        if looped and on_cycle == "error":
            names = ", ".join(str(plan.subtopology) for plan in group)
            raise CyclicTopologyError(
                f"subtopologies {names} feed each other through {', '.join(map(repr, sorted(looped)))}: such a stage"
                " runs in one task, without parallelism. Say on_cycle='single_task' if that is wanted"
            )
        inputs = tuple(StageInput(topic, writers.get(topic), n) for topic, n in read.items() if topic not in looped)
        stages.append(Stage(number, group, inputs, looped, max(read.values(), default=0)))
        writers.update(dict.fromkeys(own, number))
    return tuple(stages)


def _plans(
    topology: TopologyData, settings: Mapping[str, Any], counts: Mapping[str, int], histories: Collection[str]
) -> tuple[TaskPlan, ...]:
    for topic in counts:
        reader_of(topology, topic)  # which says if two sources read it
    try:
        return plan_tasks(topology, settings, counts)
    except MissingTopicError as error:
        missing = [topic for topic in _named_topics(topology) if topic not in counts]
        unknown = [topic for topic in missing if topic in histories or topic in _sink_topics(topology)]
        if unknown:
            raise UnknownPartitionCount(
                f"the number of partitions of {', '.join(map(repr, unknown))} is not known: say"
                f" partitions={{{unknown[0]!r}: n}} with the number that the topic has in Kafka (it decides which keys"
                " are together)",
                topic=unknown[0],
            ) from error
        raise _no_history(missing, histories, error.made_at) from error
    except TopologyError as error:
        raise CopartitionError(error.message, made_at=error.made_at) from error


def _named_topics(topology: TopologyData) -> list[str]:
    nodes = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
    return [topic for node in nodes for topic in node.topics if topic not in topology.repartition_topics]


def _sink_topics(topology: TopologyData) -> set[str]:
    return {node.topic for node in topology.nodes.values() if isinstance(node, SinkNode) and node.topic is not None}


def _no_history(missing: Sequence[str], histories: Collection[str], made_at: str | None = None) -> MissingHistoryError:
    return MissingHistoryError(
        f"the topology reads {', '.join(map(repr, missing))}, and there is no history: give one for each topic in"
        f" inputs{_nearest(missing, histories)}",
        topic=missing[0] if len(missing) == 1 else None,
        made_at=made_at,
    )


def _nearest(missing: Iterable[str], known: Collection[str]) -> str:
    found = {near for topic in missing for near in get_close_matches(topic, sorted(known), n=1)}
    return f" (there is one for {', '.join(map(repr, sorted(found)))})" if found else ""


def _written(plan: TaskPlan) -> set[str]:
    """Returns the topics that the sinks of a plan write."""
    own = {topic for store, topic in plan.changelogs.items() if store not in plan.source_changelogs}
    return set(plan.topics_written) - own


def _check_histories(
    topology: TopologyData, plans: Iterable[TaskPlan], written: Mapping[str, int], histories: Collection[str]
) -> None:
    read = {topic for plan in plans for topic in plan.topics}
    needed = (read - written.keys()) | {store.topic for store in topology.global_stores.values()}
    missing = sorted(needed - set(histories))
    if missing:
        raise _no_history(missing, histories)
    for topic in histories:
        if topic in read and topic in written:
            raise MissingHistoryError(
                f"topic {topic!r} is written by the topology itself, so its records come from the backfill: leave it"
                " out of inputs",
                topic=topic,
            )
        if topic not in needed:
            raise MissingHistoryError(
                f"there is a history for topic {topic!r}, which the topology does not read{_nearest([topic], needed)}",
                topic=topic,
            )


def _groups(plans: tuple[TaskPlan, ...]) -> list[tuple[TaskPlan, ...]]:
    """Returns the plans in groups that feed each other, each group after those that feed it."""
    feeds = {
        plan.subtopology: {other.subtopology for other in plans if _written(plan) & other.topics.keys()}
        for plan in plans
    }
    reached = {number: _reached(number, feeds) for number in feeds}
    by_number = {plan.subtopology: plan for plan in plans}
    groups: list[tuple[TaskPlan, ...]] = []
    placed: set[int] = set()
    while len(placed) < len(plans):
        for number in feeds:
            if number in placed:
                continue
            group = {
                other for other in feeds if other == number or (other in reached[number] and number in reached[other])
            }
            before = {other for other in feeds if other not in group and number in reached[other]}
            if before <= placed:
                groups.append(tuple(by_number[one] for one in feeds if one in group))
                placed |= group
                break
    return groups


def _reached(start: int, feeds: Mapping[int, set[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(feeds[start])
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting.extend(feeds[number])
    return found
