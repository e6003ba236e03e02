"""Distinguishes the topics of a task from deleted topics of the same names.

An offset means a record of one topic. When a topic is deleted and made again, an offset of the former topic may fit the
new one by chance, and means another record there. So the topic's id (KIP-516) is kept with the offset: in the metadata
of a committed offset, in the engine for the offset of a changelog. An offset without an id was written before ids were
kept, or by another tool, and is accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Mapping
from operator import itemgetter
from typing import NamedTuple

from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import Admin, CommitAgain, OffsetAndMetadata, TopicState, TransactionAborted
from streams.runtime.start import refusals
from streams.runtime.tasks.output_topics import OutputTopics
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")


def topics_of(tasks: Collection[Task]) -> set[str]:
    """Returns the topics that tasks read, and the changelogs of their stores."""
    return {topic for task in tasks for topic in (*task.plan.topics, *task.plan.changelogs.values())}


def check_same(known: Mapping[str, str], now: Mapping[str, str], inputs: Container[str]) -> None:
    """Compares the ids of topics in use with those that they have now.

    :param inputs: the topics that are read; the others are changelogs.
    :raises StateError: if an input was deleted and made again meanwhile.
    :raises TransactionAborted: if a changelog was: what follows is decided when its tasks start from their last commit.
    """
    changed = [topic for topic, before in known.items() if now.get(topic, before) != before]
    for topic in changed:
        if topic in inputs:
            raise refusals.input_was_replaced(topic, known[topic], now[topic])
    if changed:
        topic = changed[0]
        raise TransactionAborted(
            f"changelog {topic!r} was deleted and made again while this worker used it: its id was {known[topic]} and"
            f" is {now[topic]}",
            topic=topic,
        )


def note_states(task: Task, states: Mapping[str, TopicState]) -> None:
    """Notes the ids of a task's topics, and the leaders of its changelogs, as they are when it starts."""
    task.topic_ids = {topic: states[topic].id for topic in topics_of([task]) if topic in states}
    task.stores.changelogs.leaders = _leaders(task, states)


def _leaders(task: Task, states: Mapping[str, TopicState]) -> dict[str, int]:
    epochs = {topic: states[topic].leader_epochs for topic in task.plan.changelogs.values() if topic in states}
    number = task.id.partition
    return {topic: of_topic[number] for topic, of_topic in epochs.items() if number in of_topic}


class _MovedChangelog(NamedTuple):
    """A changelog that has got another leader."""

    task: Task
    store: str
    end: int
    expected: int
    """Where it ended after the last commit."""


class TopicIdentity:
    """Checks with each commit that the topics of its tasks are those with which these were opened, and that their
    changelogs have what the tasks have written.

    A topic that was deleted, made again and filled past the position of a reader is read on as if nothing had happened.
    Ids never return, so an answer that was requested after the last record was read says that all of them were of the
    topic that is known.

    A log loses records only when it gets another leader, which the same answer shows. A task is the only writer of its
    changelogs, so a changelog that ends before the last record of a commit has lost records.
    """

    def __init__(self, admin: Admin, outputs: OutputTopics) -> None:
        self._admin = admin
        self._outputs = outputs

    def check(self, tasks: Collection[Task]) -> None:
        """Checks the topics of tasks that are to be committed, with one request.

        :raises CommitAgain: if no broker answers; nothing is lost.
        :raises StateError: as :func:`check_same`.
        :raises TransactionAborted: as :func:`check_same`, and if a changelog has lost records.
        """
        known = {topic: id_ for task in tasks for topic, id_ in task.topic_ids.items()}
        if not known:
            return
        outputs = self._outputs.due(tasks)
        try:
            states = self._admin.topic_states(known.keys() | outputs)
            self._outputs.seen(outputs, states)
            now = {topic: states[topic].id for topic in known if topic in states}
            leaders = {task: _leaders(task, states) for task in tasks}
            ends = self._ends_of_moved(leaders) if now == known else {}
        except RetryableError as error:
            raise CommitAgain(error.message, **error.place()) from error
        if now != known:
            check_same(known, now, frozenset().union(*(task.plan.topics for task in tasks)))
        lost = {name: one for name, one in ends.items() if one.end < one.expected}
        for one in lost.values():
            one.task.stores.progress.truncated[one.store] = one.end
        for name, one in sorted(lost.items(), key=itemgetter(0)):
            raise TransactionAborted(
                f"changelog {str(name)!r} has lost records that this worker wrote: a leader was elected without them."
                f" It ends at offset {one.end}, but ended at {one.expected} after the last commit",
                **name._asdict(),
            )
        if now == known:
            for task, found in leaders.items():
                task.stores.changelogs.leaders = found

    def note_leaders(self, tasks: Collection[Task]) -> None:
        """Notes with the stores of tasks, which are to be closed, what their changelogs have: each commit notes that of
        the one before. Nothing is noted if no broker answers."""
        logging_tasks = [task for task in tasks if task.stores.changelogs.by_store]
        topics = {topic for task in logging_tasks for topic in task.plan.changelogs.values()}
        try:
            states = self._admin.topic_states(topics) if topics else {}
            leaders = {task: _leaders(task, states) for task in logging_tasks}
            ends = self._ends_of_moved(leaders)
        except RetryableError as error:
            log.debug("the leaders of changelogs are not noted", extra={"error": error.message})
            return
        lost = {name.topic: one for name, one in ends.items() if one.end < one.expected}
        for task, found in leaders.items():
            # The former leader had what is lost, so that the next start finds it.
            had = task.stores.changelogs.leaders
            task.stores.changelogs.leaders = {
                topic: had.get(topic, epoch) if topic in lost and lost[topic].task is task else epoch
                for topic, epoch in found.items()
            }
            task.stores.note_leaders()

    def _ends_of_moved(self, now: Mapping[Task, Mapping[str, int]]) -> dict[TopicPartition, _MovedChangelog]:
        """Returns the changelogs that have another leader."""
        moved = {
            TopicPartition(one.topic, one.partition): _MovedChangelog(task, store, one.log_end, one.log_end)
            for task, leaders in now.items()
            if leaders != task.stores.changelogs.leaders
            for store, one in task.stores.changelogs.by_store.items()
            if leaders.get(one.topic) != task.stores.changelogs.leaders.get(one.topic)
        }
        ends = self._admin.log_ends(moved) if moved else {}
        return {name: one._replace(end=ends[name]) for name, one in moved.items()}


def with_ids(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, str]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns offsets to commit for the first time, with the ids of their topics where these are known."""
    return {
        name: OffsetAndMetadata(one.offset, TopicPartitionMetadata(topic_id=ids[name.topic]).encode())
        if name.topic in ids
        else one
        for name, one in offsets.items()
    }


def keep_changelog_ids(task: Task) -> None:
    """Keeps the ids of changelogs with the stores; a store of a former changelog is emptied and logged."""
    for store, topic in task.plan.changelogs.items():
        now = task.topic_ids.get(topic)
        former = None if now is None else task.stores.progress.bind_topic(store, now)
        if former is not None:
            log.error(
                "store is rebuilt from its changelog: the topic was deleted and made again",
                extra={"store": store, "task": str(task.id), "topic": topic, "former_id": former, "id": now},
            )
