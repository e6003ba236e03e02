"""Writes stores that are complete on disk back into changelogs that have lost their records.

A changelog that was deleted and made again, or truncated, has less than the store that it belongs to. A rebuild from it
would shrink the store, and the committed offsets say that nothing is processed again. So the store stays as it is, and
all of it is written into the changelog (docs/decisions/changelogs-and-restore.md, "A complete store is never rebuilt
from a smaller changelog").
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import NamedTuple

from processor_api.clock import Clock
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from state.registry.kinds import changelog_records_of
from streams.kafka.offset_metadata import ChangelogId, TopicPartitionMetadata, changelog_mark
from streams.kafka.ports import Admin, Consumer, OffsetAndMetadata, Producer
from streams.kafka.producing.record_collector import RecordCollector
from streams.kafka.record_ranges import read_ranges
from streams.runtime.start import refusals
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")

Committed = Mapping[TopicPartition, OffsetAndMetadata]

REPLACED = "store is written back into its changelog: the topic was deleted and made again"
TRUNCATED = "store is written back into its changelog: it has lost records"
MOST_OTHER_KEYS = 1_000_000
"""The most keys that the new changelog may have of its own: they are held in memory while the store is written."""
POLL_RECORDS = 10_000


class WriteBackClients(NamedTuple):
    """Makes the clients of one write, which nothing else uses meanwhile."""

    producer: Callable[[], Producer]
    """An idempotent producer without transactions: a write that is killed is made again from its beginning."""
    consumer: Callable[[], Consumer]
    """A reader of committed records."""


def replaced_changelogs(task: Task, committed: Committed) -> list[str]:
    """Returns the stores of a task whose changelogs are other topics than those that the last commit has noted."""
    noted = {
        one.mark: one.id
        for found in committed.values()
        for one in TopicPartitionMetadata.decode(found.metadata).changelog_ids
    }
    found = []
    for store, topic in task.plan.changelogs.items():
        known, now = noted.get(changelog_mark(topic)), task.topic_ids.get(topic)
        is_own = store not in task.plan.source_changelogs
        if is_own and known is not None and now is not None and known != ChangelogId.of(topic, now).id:
            found.append(store)
    return found


class WriteBack:
    """Writes the stores of a stream thread's tasks back into their changelogs.

    :param enabled: whether it may; otherwise each such task is refused (``state.on.changelog.loss``).
    :param commit: commits offsets, so that they name the new changelogs.
    """

    def __init__(
        self,
        clients: WriteBackClients,
        admin: Admin,
        clock: Clock,
        commit: Callable[[Committed], None],
        *,
        enabled: bool,
    ) -> None:
        self._admin = admin
        self._clients = clients
        self._clock = clock
        self._commit = commit
        self._enabled = enabled

    def _why_not(self, task: Task, store: str, committed: Committed) -> str | None:
        """Returns why a store cannot be written back, as the end of a sentence; ``None`` if it can."""
        progress = task.stores.progress
        if not progress.is_complete_at(store, committed):
            return (
                "this worker does not have the whole store: it has another disk, or the last commit did not write it"
                if progress.engine_of(store).persistent
                else "the store is in memory"
            )
        if not self._enabled:
            return "it is not written back because state.on.changelog.loss is 'fail'"
        if changelog_records_of(task.plan.topology.stores[store], progress.engine_of(store)) is None:
            return "stores of its kind cannot be written back"
        return None

    def restore_changelogs(self, task: Task, committed: Committed) -> Committed:
        """Writes back each store whose changelog is not the one of the last commit; returns the committed offsets,
        which name the new changelogs then.

        :raises StateError: if a store is not complete here, or cannot be written back.
        :raises StreamsError: if a record could not be written; the next try begins again.
        """
        stores = replaced_changelogs(task, committed)
        if not stores:
            return committed
        for store in stores:
            self._check(task, store, committed, "was deleted and made again")
        for store in stores:
            # A write that was done, and killed before its commit, is not made again.
            if task.stores.progress.topic_id(store) != task.topic_ids[task.plan.changelogs[store]]:
                self.write(task, store, REPLACED)
        renewed = {name: _renewed(task, stores, one) for name, one in committed.items()}
        self._commit(renewed)
        return renewed

    def _check(self, task: Task, store: str, committed: Committed, lost: str) -> None:
        """Raises the error of a store that cannot be written back into its changelog."""
        why = self._why_not(task, store, committed)
        if why is not None:
            raise refusals.changelog_was_replaced(
                task.id,
                task.environment.settings.application_id,
                store,
                TopicPartition(task.plan.changelogs[store], task.id.partition),
                why,
                dict.fromkeys(one.topic for one in committed),
                lost,
            )

    def keep(self, task: Task, store: str, committed: Committed) -> int | None:
        """Writes a store into a changelog that has lost records which the store has, if the store is complete.

        :returns: the end of the changelog; ``None`` if the store is not complete here.
        :raises StateError: if the store is complete and cannot be written back.
        :raises StreamsError: if a record could not be written; the next try begins again.
        """
        if not task.stores.progress.is_complete_at(store, committed):
            return None
        self._check(task, store, committed, "has lost records")
        return self.write(task, store, TRUNCATED)

    def write(self, task: Task, store: str, why: str) -> int:
        """Writes a store that is complete into its changelog, so that this holds the store's rows and nothing else.

        :param why: the line for the log.
        :returns: the end of the changelog.
        :raises RetryableError: if the changelog has lost what was written.
        :raises StreamsError: if a record could not be written; the next try begins again.
        """
        builder, engine = task.plan.topology.stores[store], task.stores.progress.engine_of(store)
        changelog = TopicPartition(task.plan.changelogs[store], task.id.partition)
        place = {"store": store, "task": str(task.id), "topic": changelog.topic, "partition": changelog.partition}
        log.warning(why, extra=place)
        began = self._clock.monotonic()
        with ExitStack() as clients:
            consumer = clients.enter_context(closing(self._clients.consumer()))
            producer = clients.enter_context(closing(self._clients.producer()))
            others = self._keys_of(consumer, task, store, changelog)
            collector = RecordCollector(producer, self._clock)
            logged = collector.changelog(*changelog, self._admin.log_ends([changelog])[changelog])
            records = changelog_records_of(builder, engine)
            assert records is not None
            count, now = 0, self._clock.time_ms()
            for count, (key, value, timestamp, headers) in enumerate(records, 1):
                logged.log(key, value, now if timestamp < 0 else timestamp, headers)
                others.discard(key)
                if count % POLL_RECORDS == 0:
                    collector.poll()
            for key in others:
                logged.log(key, None, now, None)
            collector.flush()
            # In this order: that leader has what is written, also where another one is elected at once.
            states = self._admin.topic_states([changelog.topic])
            if self._admin.log_ends([changelog])[changelog] < logged.end:
                text = f"changelog {str(changelog)!r} has lost records while a store was written to it"
                raise RetryableError(text, **place)
            end = logged.end  # and not that of the log, which may lose records at any moment
        epochs = states[changelog.topic].leader_epochs if changelog.topic in states else {}
        id_ = task.topic_ids.get(changelog.topic)
        task.stores.progress.bind_written(store, id_, end - 1, epochs.get(changelog.partition))
        seconds = round(self._clock.monotonic() - began, 3)
        log.info("store is written back", extra={**place, "records": count, "deleted": len(others), "seconds": seconds})
        return end

    def _keys_of(self, consumer: Consumer, task: Task, store: str, changelog: TopicPartition) -> set[bytes]:
        """Returns the keys that a changelog has already: what the store lacks of them has to go."""
        begin, end = consumer.beginning_offsets([changelog])[changelog], consumer.end_offsets([changelog])[changelog]
        found: set[bytes] = set()
        for message in read_ranges(consumer, {changelog: (begin, end)}, self._clock):
            if (key := message.key()) is not None:
                found.add(key)
            if len(found) > MOST_OTHER_KEYS:
                raise refusals.changelog_was_replaced(
                    task.id,
                    task.environment.settings.application_id,
                    store,
                    changelog,
                    f"the new topic has more than {MOST_OTHER_KEYS} keys of its own",
                    dict.fromkeys(one.topic for one in task.plan.partitions(task.id.partition)),
                )
        return found


def _renewed(task: Task, stores: Collection[str], found: OffsetAndMetadata) -> OffsetAndMetadata:
    """Returns a committed offset that names the changelogs of stores by their ids of now."""
    metadata = TopicPartitionMetadata.decode(found.metadata)
    topics = [task.plan.changelogs[store] for store in stores]
    marks = set(map(changelog_mark, topics))
    others = {one for one in metadata.changelog_ids if one.mark not in marks}
    ids = {ChangelogId.of(topic, task.topic_ids[topic]) for topic in topics}
    return OffsetAndMetadata(found.offset, replace(metadata, changelog_ids=frozenset(others | ids)).encode())
