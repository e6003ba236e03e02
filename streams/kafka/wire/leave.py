"""Takes members out of their group.

librdkafka sends no LeaveGroup for a consumer with a ``group.instance.id``, so that a restart costs no rebalance
(KIP-345). A member that closes for good would keep its partitions, unread, until its session times out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from streams.kafka import streams_group
from streams.kafka.ports import GroupMember, InstanceFenced
from streams.kafka.wire import error_codes
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.coordinator import Coordinator
from streams.kafka.wire.messages import LEAVE_GROUP, LeaveGroupRequest, LeavingMember
from streams.kafka.wire.streams_groups.heartbeats import StreamsGroupHeartbeats

_GONE = frozenset(
    (
        error_codes.NONE,
        error_codes.UNKNOWN_MEMBER_ID,
        error_codes.GROUP_ID_NOT_FOUND,
        error_codes.FENCED_INSTANCE_ID,
    )
)
_REASON = "the application closed for good"
LEAVE_S = 10.0
"""How long a member tries to leave; those that are removed take as long."""
_REMOVED = "removed by an administrator"


def leave_group(
    settings: Mapping[str, Any],
    group: str,
    instance_id: str,
    *,
    member_id: str = "",
    timeout_s: float = LEAVE_S,
    clock: Clock | None = None,
) -> None:
    """Removes a static member, so that the others get its partitions at once. Call it after the consumer's close.

    A member that is not, or no longer, in the group is fine, so the call may be repeated.

    :param settings: of the consumer, under librdkafka's names: servers, TLS and login are taken from them.
    :param instance_id: the ``group.instance.id`` of the consumer.
    :param member_id: its member id. If it is given, a successor that has taken over the instance id stays.
    :param timeout_s: for all of it, but for finding the hosts' addresses.
    :raises RetryableError: if no coordinator was ready within the time.
    :raises StreamsError: if it cannot be done: a refused login or certificate, a missing right, a wrong setting.
    """
    try:
        _leave(settings, group, (LeavingMember(member_id, instance_id, _REASON),), timeout_s, clock)
    except StreamsError as error:
        raise type(error)(
            f"static member {instance_id!r} could not leave group {group!r}, so it keeps its partitions until its"
            f" session times out: {error.message}"
        ) from error


def remove_members(
    settings: Mapping[str, Any],
    group: str,
    members: Collection[GroupMember],
    *,
    timeout_s: float = LEAVE_S,
    clock: Clock | None = None,
) -> None:
    """Removes members that may still be there, by their ids. One whose process runs joins again.

    :param settings: of a client, under librdkafka's names.
    :param timeout_s: for all of it, but for finding the hosts' addresses.
    :raises RetryableError: if no coordinator was ready within the time.
    :raises StreamsError: if it cannot be done, as for :func:`leave_group`.
    """
    classic = tuple(
        LeavingMember(one.member_id, one.instance_id, _REMOVED) for one in members if one.protocol == "classic"
    )
    try:
        for one in members:
            if one.protocol != "classic":
                _end_member(settings, group, one, timeout_s, clock, returns=False)
        if classic:
            _leave(settings, group, classic, timeout_s, clock)
    except StreamsError as error:
        raise type(error)(f"members could not be removed from group {group!r}: {error.message}") from error


def _leave(
    settings: Mapping[str, Any], group: str, members: tuple[LeavingMember, ...], timeout_s: float, clock: Clock | None
) -> None:
    with Coordinator(ClientSettings.of(settings), group, clock) as coordinator:
        answer = coordinator.call(LEAVE_GROUP, LeaveGroupRequest(group, members), timeout_s)
    for code in (answer.error_code, *(one.error_code for one in answer.members)):
        if code not in _GONE:
            raise StreamsError(error_codes.described(code))


def release_instance(
    settings: Mapping[str, Any],
    group: str,
    member: GroupMember,
    *,
    timeout_s: float = LEAVE_S,
    clock: Clock | None = None,
) -> None:
    """Ends a static member of the streams protocol whose instance id is to join again, at once, as another member.

    The brokers keep an instance id for its member until that has said that it ends, or for its session: a process that
    was killed would wait for that when it comes back. In the classic protocol the newer member takes the place. The
    partitions of the member stay, for the next one; what the former one still sends is refused.

    :param settings: of a client, under librdkafka's names.
    :param member: as the group was described.
    :raises RetryableError: if no coordinator was ready within the time.
    :raises StreamsError: if it cannot be done, as for :func:`leave_group`.
    """
    try:
        _end_member(settings, group, member, timeout_s, clock, returns=True)
    except StreamsError as error:
        raise type(error)(
            f"the membership of static member {member.instance_id!r} in group {group!r} cannot be taken over before its"
            f" session ends: {error.message}"
        ) from error


def _end_member(
    settings: Mapping[str, Any],
    group: str,
    member: GroupMember,
    timeout_s: float,
    clock: Clock | None,
    *,
    returns: bool,
) -> None:
    """Sends the last heartbeat of a member of the streams protocol on its behalf."""
    if member.protocol != "streams":
        raise StreamsError(f"member {member.member_id!r} is of the {member.protocol} protocol: stop its process")
    epoch = streams_group.STATIC_LEAVE_EPOCH if returns else streams_group.LEAVE_EPOCH
    beat = streams_group.Heartbeat(
        member=streams_group.GroupMemberIdentity(member.member_id, epoch, member.instance_id)
    )
    gone = suppress(streams_group.MemberFenced, streams_group.GroupOfOtherProtocol, InstanceFenced)
    with gone, closing(StreamsGroupHeartbeats(ClientSettings.of(settings), group, clock)) as heartbeats:
        heartbeats.send(beat, timeout_s)
