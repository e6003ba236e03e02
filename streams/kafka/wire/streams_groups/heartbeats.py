"""Sends the heartbeats of a member of a group of the streams protocol (KIP-1071), and describes such a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

from processor_api.clock import Clock
from processor_api.errors import AuthorizationError, RetryableError, StreamsError
from processor_api.task_id import TaskId
from streams.kafka import streams_group
from streams.kafka.ports import InstanceFenced
from streams.kafka.wire import error_codes
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.coordinator import Coordinator
from streams.kafka.wire.streams_groups import messages

_SAME = -1
"""The time-out of a rebalance in a heartbeat that does not change it."""
_TOPOLOGY_EPOCH = 0
_FENCED = frozenset((error_codes.UNKNOWN_MEMBER_ID, error_codes.FENCED_MEMBER_EPOCH))
_OTHER_PROTOCOL = frozenset((error_codes.GROUP_ID_NOT_FOUND, error_codes.INCONSISTENT_GROUP_PROTOCOL))
_TOPOLOGY = frozenset(
    (
        error_codes.STREAMS_INVALID_TOPOLOGY,
        error_codes.STREAMS_INVALID_TOPOLOGY_EPOCH,
        error_codes.STREAMS_TOPOLOGY_FENCED,
    )
)
_RIGHTS = {
    error_codes.GROUP_AUTHORIZATION_FAILED: "READ on the group of the application.id",
    error_codes.TOPIC_AUTHORIZATION_FAILED: "DESCRIBE on its topics, and CREATE on its internal topics",
    error_codes.CLUSTER_AUTHORIZATION_FAILED: "CREATE on the cluster, or on the internal topics",
}


class StreamsGroupHeartbeats:
    """Sends the heartbeats of one member. For one thread.

    :raises ConfigError: if the settings need what only librdkafka has, such as a login by Kerberos.
    """

    def __init__(self, settings: ClientSettings, group: str, clock: Clock | None = None) -> None:
        self._group = group
        self._coordinator = Coordinator(settings, group, clock)

    def send(self, beat: streams_group.Heartbeat, timeout_s: float) -> streams_group.HeartbeatAnswer:
        """Sends a heartbeat, once; raises as `streams.kafka.streams_group.StreamsGroupRequests.heartbeat`."""
        answer = self._coordinator.call_once(
            messages.STREAMS_GROUP_HEARTBEAT, heartbeat_request(self._group, beat), timeout_s
        )
        if answer.error_code != error_codes.NONE:
            _raise(self._group, beat, answer)
        tasks = None
        if answer.active_tasks is not None:
            tasks = streams_group.TaskLists(
                _tasks(answer.active_tasks), _tasks(answer.standby_tasks or ()), _tasks(answer.warmup_tasks or ())
            )
        return streams_group.HeartbeatAnswer(
            epoch=answer.member_epoch,
            interval_s=answer.heartbeat_interval_ms / 1000,
            tasks=tasks,
            statuses=tuple(
                (streams_group.GroupStatus(one.status_code), one.status_detail) for one in answer.status or ()
            ),
            endpoint_epoch=answer.endpoint_information_epoch,
        )

    def topology(self, timeout_s: float) -> tuple[streams_group.GroupSubtopology, ...] | None:
        """Returns the topology that the group has, as `streams.kafka.streams_group.as_described`; ``None`` if it has
        none.

        :raises StreamsError: if the group cannot be described.
        """
        group = described(self._coordinator, self._group, timeout_s)
        if group is None or group.topology is None or group.topology.subtopologies is None:
            return None
        return tuple(sorted(map(_known_subtopology, group.topology.subtopologies), key=lambda part: part.id))

    def assigned(self, member_id: str, timeout_s: float) -> streams_group.TaskLists | None:
        """Returns the tasks that a member is to own now; ``None`` if the group does not have it.

        :raises StreamsError: if the group cannot be described.
        """
        group = described(self._coordinator, self._group, timeout_s)
        members = () if group is None else group.members
        return next((task_lists(one.assignment) for one in members if one.member_id == member_id), None)

    def close(self) -> None:
        """Closes the connection; the next heartbeat opens another one."""
        self._coordinator.close()


def described(coordinator: Coordinator, group: str, timeout_s: float) -> messages.DescribedStreamsGroup | None:
    """Describes a group of the streams protocol; ``None`` if there is none of that name.

    :raises RetryableError: if there was no answer within the time.
    :raises StreamsError: if the group may not be described, or the brokers do not know such groups.
    """
    answer = coordinator.call(
        messages.STREAMS_GROUP_DESCRIBE, messages.StreamsGroupDescribeRequest((group,), False), timeout_s
    )
    if answer.error_code == error_codes.GROUP_ID_NOT_FOUND:
        return None
    if answer.error_code != error_codes.NONE or len(answer.groups) != 1:
        text = f"group {group!r} is not described: {error_codes.described(answer.error_code)}"
        if answer.error_code == error_codes.GROUP_AUTHORIZATION_FAILED:
            raise AuthorizationError(f"{text}; allow DESCRIBE on group {group!r}")
        raise StreamsError(text)
    return answer.groups[0]


def task_lists(found: messages.AssignedTasks) -> streams_group.TaskLists:
    """Returns the tasks that a group has for a member."""
    return streams_group.TaskLists(_tasks(found.active_tasks), _tasks(found.standby_tasks), _tasks(found.warmup_tasks))


def _tasks(found: Iterable[messages.TaskIds]) -> frozenset[TaskId]:
    try:
        return frozenset(TaskId(int(one.subtopology_id), number) for one in found for number in one.partitions)
    except ValueError:
        raise StreamsError(
            "the ids of the group's subtopologies are not numbers: its members are neither of this library nor of"
            " Kafka Streams"
        ) from None


def _ids(tasks: Collection[TaskId]) -> tuple[messages.TaskIds, ...]:
    by_part: dict[int, list[int]] = {}
    for task in sorted(tasks):
        by_part.setdefault(task.subtopology, []).append(task.partition)
    return tuple(messages.TaskIds(str(part), tuple(numbers)) for part, numbers in by_part.items())


def heartbeat_request(group: str, beat: streams_group.Heartbeat) -> messages.StreamsGroupHeartbeatRequest:
    """Returns the message of a heartbeat."""
    joining, owned = beat.joining, beat.owned
    endpoint = None if joining is None else joining.endpoint
    return messages.StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=beat.member.member_id,
        member_epoch=beat.member.epoch,
        endpoint_information_epoch=beat.endpoint_epoch,
        instance_id=beat.member.instance_id,
        rack_id=None if joining is None else joining.rack_id,
        rebalance_timeout_ms=_SAME if joining is None else joining.rebalance_timeout_ms,
        topology=None
        if joining is None
        else messages.SentTopology(_TOPOLOGY_EPOCH, tuple(map(_subtopology, joining.topology))),
        active_tasks=None if owned is None else _ids(owned.active),
        standby_tasks=None if owned is None else _ids(owned.standby),
        warmup_tasks=None if owned is None else _ids(owned.warmup),
        process_id=None if joining is None else joining.process_id,
        user_endpoint=None if endpoint is None else messages.Endpoint(*endpoint),
        client_tags=None if joining is None else tuple(messages.KeyValue(*tag) for tag in joining.client_tags),
        task_offsets=None,
        task_end_offsets=None,
        shutdown_application=beat.asks_for_shutdown,
    )


def _subtopology(part: streams_group.GroupSubtopology) -> messages.SentSubtopology:
    repartition = [one.name for one in part.repartition_sources]
    return messages.SentSubtopology(
        subtopology_id=str(part.id),
        source_topics=part.sources,
        source_topic_regex=(),
        state_changelog_topics=tuple(map(_topic, part.changelogs)),
        repartition_sink_topics=part.repartition_sinks,
        repartition_source_topics=tuple(map(_topic, part.repartition_sources)),
        copartition_groups=tuple(
            messages.CopartitionGroup(
                tuple(number for number, name in enumerate(part.sources) if name in group),
                (),
                tuple(number for number, name in enumerate(repartition) if name in group),
            )
            for group in part.copartitions
        ),
    )


def _known_subtopology(part: messages.DescribedSubtopology) -> streams_group.GroupSubtopology:
    return streams_group.GroupSubtopology(
        int(part.subtopology_id) if part.subtopology_id.isdecimal() else -1,
        tuple(sorted(part.source_topics)),
        tuple(sorted(map(_known_topic, part.state_changelog_topics), key=lambda topic: topic.name)),
        tuple(sorted(part.repartition_sink_topics)),
        tuple(sorted(map(_known_topic, part.repartition_source_topics), key=lambda topic: topic.name)),
    )


def _known_topic(topic: messages.SentTopic) -> streams_group.GroupTopic:
    configs = tuple(sorted((one.key, one.value) for one in topic.topic_configs))
    return streams_group.GroupTopic(topic.name, configs=configs)


def _topic(topic: streams_group.GroupTopic) -> messages.SentTopic:
    configs = tuple(messages.KeyValue(*one) for one in topic.configs)
    return messages.SentTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def _raise(group: str, beat: streams_group.Heartbeat, answer: messages.StreamsGroupHeartbeatResponse) -> NoReturn:
    """Raises the error that an answer stands for."""
    code, text = answer.error_code, error_codes.described(answer.error_code, answer.error_message)
    instance_id = beat.member.instance_id
    message = (answer.error_message or "").lower()
    if code in _FENCED:
        raise streams_group.MemberFenced(f"this member is no longer in group {group!r}: {text}")
    if code in _OTHER_PROTOCOL:
        raise streams_group.GroupOfOtherProtocol(
            f"group {group!r} has members of another protocol: {text}. Stop the workers that run with another"
            " group.protocol; this worker joins when they have left"
        )
    if code in _TOPOLOGY or (code == error_codes.INVALID_REQUEST and "topology" in message):
        raise streams_group.TopologyRefused(
            f"group {group!r} has another topology, which the brokers do not replace: {text}. Stop every worker, run"
            " `streams groups upgrade-topology`, and start again"
        )
    if code == error_codes.INVALID_REQUEST and instance_id is not None and "static" in message:
        raise streams_group.StaticMembersRefused(text)
    if code == error_codes.FENCED_INSTANCE_ID:
        raise InstanceFenced(
            f"another process has joined the group with group.instance.id {instance_id!r}, so this thread ends: give"
            " each process a state.dir of its own (not a copy of another's), or its own group.instance.id"
        )
    if code == error_codes.UNRELEASED_INSTANCE_ID:
        raise streams_group.InstanceHeld(
            f"a member of group {group!r} still has group.instance.id {instance_id!r}: {text}"
        )
    if code in _RIGHTS:
        raise AuthorizationError(f"group {group!r} cannot be joined: {text}; allow {_RIGHTS[code]}")
    if code == error_codes.GROUP_MAX_SIZE_REACHED:
        raise RetryableError(
            f"group {group!r} is full: {text}; the brokers' setting group.streams.max.size limits the number of members"
        )
    if code == error_codes.UNSUPPORTED_VERSION:
        raise StreamsError(
            f"the brokers do not support the streams protocol: {text}. They must be Kafka 4.2 or later, with the"
            " feature streams.version at 1 (`kafka-features.sh upgrade --feature streams.version=1`); or set"
            " group.protocol to classic"
        )
    raise StreamsError(f"group {group!r} rejects this member: {text}")
