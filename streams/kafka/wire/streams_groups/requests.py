"""The requests of a member of a group of the streams protocol: heartbeats and commits, each by its own connection."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import AuthorizationError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka import streams_group
from streams.kafka.client_errors import error_of
from streams.kafka.ports import ClientUnusable, CommitAgain, OffsetAndMetadata, PartlyCommitted
from streams.kafka.wire import error_codes
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.offset_commits import EPOCH_OFFSET_COMMIT, CommittingMember, OffsetCommits
from streams.kafka.wire.streams_groups.heartbeats import StreamsGroupHeartbeats

COMMIT_S = 30.0
"""How long a commit may take."""


class WireStreamsGroup:
    """Implements `streams.kafka.streams_group.StreamsGroupRequests`.

    :param config: of the consumer, under librdkafka's names.
    :param metadata: returns the group's metadata as the producer takes them, by group, epoch, member and instance id.
    :raises ConfigError: if it needs what only librdkafka has, such as a login by Kerberos.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        metadata: Callable[[str, int, str, str | None], Any],
        clock: Clock | None = None,
    ) -> None:
        self._group = str(config["group.id"])
        self._heartbeats = StreamsGroupHeartbeats(ClientSettings.of(config), self._group, clock)
        self._commits = OffsetCommits(config, self._group, clock, EPOCH_OFFSET_COMMIT)
        self._metadata = metadata

    def new_member_id(self) -> str:
        return str(uuid.uuid4())

    def topology(self, timeout_s: float) -> tuple[streams_group.GroupSubtopology, ...] | None:
        return self._heartbeats.topology(timeout_s)

    def heartbeat(self, beat: streams_group.Heartbeat, timeout_s: float) -> streams_group.HeartbeatAnswer:
        return self._heartbeats.send(beat, timeout_s)

    def assigned(self, member_id: str, timeout_s: float) -> streams_group.TaskLists | None:
        return self._heartbeats.assigned(member_id, timeout_s)

    def commit(
        self, member: streams_group.GroupMemberIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        by = CommittingMember(member.member_id, member.epoch, member.instance_id)
        try:
            code = self._commits.commit(by, offsets, COMMIT_S)
        except PartlyCommitted:
            raise
        except RetryableError as error:
            raise ClientUnusable(
                f"the coordinator of group {self._group!r} did not respond to a commit, which may still arrive: a new"
                f" member reads what is committed ({error.message})"
            ) from error
        if code != error_codes.NONE:
            raise self._refusal(code)

    def _refusal(self, code: int) -> StreamsError:
        name, text = error_codes.name_of(code), f"cannot commit offsets: {error_codes.described(code)}"
        if code in (error_codes.STALE_MEMBER_EPOCH, error_codes.ILLEGAL_GENERATION):
            return CommitAgain(text)
        if code in (error_codes.UNKNOWN_MEMBER_ID, error_codes.FENCED_MEMBER_EPOCH, error_codes.GROUP_ID_NOT_FOUND):
            return TaskMigratedError(f"{text}; another member owns the tasks of this thread now")
        if code == error_codes.GROUP_AUTHORIZATION_FAILED:
            return AuthorizationError(f"{text}; allow READ on group {self._group!r}")
        if code == error_codes.TOPIC_AUTHORIZATION_FAILED:
            return AuthorizationError(f"{text}; allow READ on its topics")
        return error_of(name, text)

    def identity(self, member: streams_group.GroupMemberIdentity) -> Any:
        return self._metadata(self._group, member.epoch, member.member_id, member.instance_id)

    def close_heartbeats(self) -> None:
        self._heartbeats.close()

    def close(self) -> None:
        self._heartbeats.close()
        self._commits.close()
