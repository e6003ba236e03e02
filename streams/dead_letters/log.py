"""The topic of dead letters with what was replayed of it, for one read or one replay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from processor_api.errors import AuthorizationError, MissingTopicError, StreamsError
from processor_api.task_id import TopicPartition
from streams.dead_letters.letters import DeadLetter
from streams.dead_letters.memory import ReplayMemory
from streams.kafka.cluster_clients import ClusterClients, partitions_of
from streams.kafka.own_names import former_replay_group, replay_group
from streams.kafka.partition_reading import PartitionReading

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer, OffsetAndMetadata, TopicInfo

log = logging.getLogger("streams.dlq")


@dataclass(frozen=True, kw_only=True)
class LetterLog:
    """The topic of dead letters as it is now, and the group that has the progress of replays."""

    clients: ClusterClients
    application_id: str
    topic: str
    existing: Mapping[str, TopicInfo]
    """The topics of the cluster."""
    check: Callable[[], object]
    """Raises an error when the time is up in which letters may be read."""

    @classmethod
    def of(
        cls, clients: ClusterClients, application_id: str, topic: str, check: Callable[[], object] = lambda: None
    ) -> LetterLog:
        """Looks the topic up.

        :raises MissingTopicError: if it does not exist.
        """
        with clients.admin() as admin:
            existing = admin.topics()
        if topic not in existing:
            raise MissingTopicError("the topic of the dead letters does not exist: create it", topic=topic)
        return cls(clients=clients, application_id=application_id, topic=topic, existing=existing, check=check)

    @property
    def group(self) -> str:
        """The group that remembers what was sent again, which is also the transactional id of the replay."""
        return replay_group(self.application_id)

    @property
    def partitions(self) -> list[TopicPartition]:
        return partitions_of([self.topic], self.existing)

    def consumer(self) -> AbstractContextManager[Consumer]:
        """Makes a consumer of the group that has not joined it, and closes it."""
        return self.clients.consumer(group=self.group)

    def letters(
        self, consumer: Consumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Iterator[DeadLetter]:
        """Yields the letters between two offsets of each partition."""
        for messages in PartitionReading(consumer, starts, ends, self.check).batches():
            for message in messages:
                yield DeadLetter.of(message)

    def memories(self, consumer: Consumer, ends: Mapping[TopicPartition, int]) -> dict[int, ReplayMemory]:
        """Returns what was sent again of each partition.

        :raises StreamsError: if another program has committed offsets of the group.
        """
        partitions = self.partitions
        committed, beginnings = consumer.committed(partitions), consumer.beginning_offsets(partitions)
        committed = {**self._of_former_version(set(partitions) - committed.keys()), **committed}
        try:
            return {
                one.partition: ReplayMemory.of(committed.get(one), beginnings[one], ends[one]) for one in partitions
            }
        except ValueError as error:
            raise StreamsError(
                f"group {self.group!r} does not record what was replayed: {error} was not written by a replay."
                " Delete its offsets if nothing was replayed"
            ) from error

    @property
    def _former_group(self) -> str:
        return former_replay_group(self.application_id)

    def _of_former_version(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Returns what a former version remembered in a group of another name, which may be an application's: then it
        has members, or metadata of another form."""
        if not partitions:
            return {}
        try:
            with self.clients.consumer(group=self._former_group) as former:
                found = former.committed(sorted(partitions))
        except AuthorizationError:  # This user has not replayed by that version then.
            log.warning(
                "group %r may not be read, so the letters that a former version has replayed are unknown",
                self._former_group,
            )
            return {}
        if not found:
            return {}
        with self.clients.admin() as admin:
            is_application = bool(admin.group_members(self._former_group))
        try:
            for one in found.values():
                ReplayMemory.of(one, 0, one.offset)
        except ValueError:
            is_application = True
        return {} if is_application else found

    def end_former_replay(self, consumer: Consumer) -> None:
        """Ends a replay of a former version that still runs, so that no letter is sent by both, and says what is taken
        over from it.

        :param consumer: one of the group.
        """
        unknown = set(self.partitions) - consumer.committed(self.partitions).keys()
        if not unknown:
            return
        with self.clients.admin() as admin:
            if self._former_group in admin.open_transactions():
                admin.fence_producer(self._former_group)  # Its offsets cannot be read before.
            if not self._of_former_version(unknown):
                return
            admin.fence_producer(self._former_group)
        log.warning("what was replayed up to now is taken over from group %r of a former version", self._former_group)
