"""The admin client of the embedded broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka import ports
from streams.kafka.offset_metadata import LogPoint
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.partition_log import PartitionLog


class EmbeddedAdmin:
    """Implements `streams.kafka.ports.Admin`. Replication factors mean nothing here."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker

    def topics(self, names: Collection[str] | None = None) -> dict[str, ports.TopicInfo]:
        with self._broker.lock:
            return {
                name: ports.TopicInfo(name, len(topic.partitions))
                for name, topic in self._broker.topics.items()
                if names is None or name in names
            }

    def topic_ids(self, names: Collection[str]) -> dict[str, str]:
        return {name: state.id for name, state in self.topic_states(names).items()}

    def topic_states(self, names: Collection[str]) -> dict[str, ports.TopicState]:
        with self._broker.lock:
            if not self._broker.gives_ids:
                return {}
            found = ((name, self._broker.topics.get(name)) for name in names)
            return {
                name: ports.TopicState(topic.id, {log.partition: log.leader_epoch for log in topic.partitions})
                for name, topic in found
                if topic is not None and topic.id is not None
            }

    def divergences(
        self, points: Collection[tuple[TopicPartition, LogPoint]]
    ) -> dict[tuple[TopicPartition, LogPoint], int]:
        found = {}
        with self._broker.lock:
            for partition, point in points:
                log = self._log(partition)
                epoch, end = log.epoch_end(point.leader_epoch)
                if epoch < 0:  # the leader is of an earlier epoch than the point: all logs are older copies
                    found[partition, point] = 0
                elif end <= point.offset:
                    found[partition, point] = end
        return found

    def _log(self, partition: TopicPartition) -> PartitionLog:
        try:
            return self._broker.log(partition)
        except StreamsError as error:
            raise ports.UnknownPartitionError(error.message, **error.place()) from error

    def topic_settings(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        with self._broker.lock:
            found = ((name, self._broker.topics.get(name)) for name in names)
            return {name: topic.settings() for name, topic in found if topic is not None}

    def create_topics(self, topics: Collection[ports.NewTopic]) -> None:
        for topic in topics:
            partitions = None if topic.partitions == -1 else topic.partitions
            self._broker.create_topic(topic.name, partitions, topic.configs)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._broker.add_partitions(topic, partitions)

    def delete_topics(self, names: Collection[str]) -> None:
        for name in names:
            self._broker.delete_topic(name)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Deletes the records before each offset; -1 stands for the end of the partition.

        :raises StreamsError: if a partition does not exist, its topic is only compacted, or the offset is beyond its
            end; then nothing is deleted.
        """
        with self._broker.lock:
            logs = {self._broker.log(partition): (partition, offset) for partition, offset in before.items()}
            for log, (partition, offset) in logs.items():
                if not self._broker.topic(log.topic).cleanup.deletes:
                    raise StreamsError(
                        f"records of {partition} cannot be deleted: cleanup.policy is without 'delete'",
                        topic=log.topic,
                    )
                if not -1 <= offset <= log.end_offset:
                    raise StreamsError(
                        f"records of {partition} before {offset} cannot be deleted: the partition ends at"
                        f" {log.end_offset}",
                        topic=log.topic,
                        partition=log.partition,
                    )
            for log, (_, offset) in logs.items():
                log.delete_before(log.end_offset if offset == -1 else offset)

    def group_members(self, group: str) -> list[ports.GroupMember]:
        with self._broker.lock:
            self._broker.expire()
            found = self._broker.groups.group(group)
            if found.streams is not None:
                return [
                    ports.GroupMember(
                        one.client_id,
                        one.member_id,
                        None,
                        frozenset(),
                        tasks=one.assigned,
                        standby=one.lists.standby,
                        protocol="streams",
                        process_id=one.process_id,
                    )
                    for one in found.streams.members.values()
                ]
            return [
                ports.GroupMember(one.client_id, one.member_id, one.instance, one.owned)
                for one in found.members.values()
            ]

    def groups(self) -> list[str]:
        with self._broker.lock:
            return sorted(self._broker.groups.names())

    def describe_group(self, group: str) -> ports.GroupInfo:
        with self._broker.lock:
            members = tuple(self.group_members(group))
            if not members:
                known = group in self._broker.groups.names()
                protocol = "classic" if self._broker.groups.group(group).streams is None else "streams"
                return ports.GroupInfo(group, "empty" if known else "dead", "", (), protocol)
            found = self._broker.groups.group(group)
            if found.streams is not None:
                return ports.GroupInfo(
                    group, "stable" if found.streams.at_rest else "reconciling", "", members, "streams"
                )
            return ports.GroupInfo(
                group, "stable" if found.at_rest else "preparing_rebalance", "cooperative-sticky", members
            )

    def delete_group(self, group: str) -> None:
        with self._broker.lock:
            if self._broker.groups.group(group).has_members:
                raise ports.GroupHasMembers(f"group {group!r} has members: stop its workers first")
            self._broker.groups.delete(group)

    def remove_members(self, group: str, members: Collection[ports.GroupMember]) -> None:
        with self._broker.lock:
            found = self._broker.groups.group(group)
            for one in members:
                if found.streams is not None:
                    found.streams.remove(one.member_id)
                member = found.members.get(one.member_id)
                if member is not None:
                    found.leave(member)
            self._broker.changes.notify()

    def release_instance(self, group: str, member: ports.GroupMember) -> None:
        """Does nothing: groups of the streams protocol have no static members here."""

    def open_transactions(self) -> list[str]:
        with self._broker.lock:
            self._broker.expire()
            return self._broker.transactions.open_ids()

    def fence_producer(self, transactional_id: str) -> None:
        with self._broker.lock:
            self._broker.transactions.time_out(transactional_id)
            self._broker.changes.notify()

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        with self._broker.lock:
            return {partition: self._log(partition).end_offset for partition in partitions}

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        with self._broker.lock:
            logs = {partition: self._log(partition) for partition in times}
            found = {name: log.offset_for_time(times[name], False) for name, log in logs.items()}
            return {name: offset for name, offset in found.items() if offset < logs[name].end_offset}

    def group_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        with self._broker.lock:
            offsets = self._broker.groups.group(group).offsets
            return {partition: offsets[partition] for partition in partitions if partition in offsets}

    def close(self) -> None:
        """Does nothing: there is no connection."""
