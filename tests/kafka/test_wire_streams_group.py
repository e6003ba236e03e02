"""Messages of groups of the streams protocol have the bytes that Apache Kafka gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import AuthorizationError, RetryableError, StreamsError
from processor_api.task_id import TaskId
from streams.kafka.ports import InstanceFenced
from streams.kafka.streams_group import (
    GroupMemberIdentity,
    GroupOfOtherProtocol,
    GroupStatus,
    GroupSubtopology,
    GroupTopic,
    Heartbeat,
    InstanceHeld,
    JoiningMember,
    MemberFenced,
    StaticMembersRefused,
    TaskLists,
    TopologyRefused,
)
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.codec import Reader, codec_of
from streams.kafka.wire.messages import (
    API_VERSIONS,
    DELETE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    DeleteGroupsRequest,
    ListedGroup,
    ListGroupsResponse,
)
from streams.kafka.wire.offset_commits import (
    EPOCH_OFFSET_COMMIT,
    CommittedPartition,
    CommittedTopic,
    OffsetCommitRequest,
)
from streams.kafka.wire.streams_groups.heartbeats import StreamsGroupHeartbeats, heartbeat_request, task_lists
from streams.kafka.wire.streams_groups.messages import (
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    StreamsGroupHeartbeatResponse,
)
from wire_support.fake_broker import CLOSE, STREAMS_VERSIONS, VERSIONS, FakeBroker, here

RECORDED = dict(
    line.split(" ", 1)
    for line in (Path(__file__).parents[1] / "golden" / "messages" / "recorded.txt").read_text().splitlines()
)
JOINING = JoiningMember(
    topology=(
        GroupSubtopology(0, ("in", "other"), repartition_sinks=("app-r-repartition",), copartitions=(("in", "other"),)),
        GroupSubtopology(
            1,
            (),
            changelogs=(GroupTopic("app-s-changelog"),),
            repartition_sources=(GroupTopic("app-r-repartition", 6, 3, (("cleanup.policy", "delete"),)),),
        ),
    ),
    rebalance_timeout_ms=300_000,
    process_id="p-1",
    endpoint=("host", 40_000),
    rack_id="r-1",
    client_tags=(("zone", "a"),),
)
JOIN = Heartbeat(member=GroupMemberIdentity("m-1", 0, "i-1"), joining=JOINING, owned=TaskLists())
BEAT = Heartbeat(
    member=GroupMemberIdentity("m-1", 7),
    owned=TaskLists(frozenset({TaskId(1, 5), TaskId(0, 2), TaskId(0, 0)})),
    asks_for_shutdown=True,
    endpoint_epoch=3,
)
LEAVE = Heartbeat(member=GroupMemberIdentity("m-1", -1))


def written(api: Api[Any, Any], request: Any) -> str:
    out = bytearray()
    codec_of(api.request, api.highest, flexible=True).write(out, request)
    return out.hex()


def read(api: Api[Any, Any], name: str) -> Any:
    reader = Reader(bytes.fromhex(RECORDED[name]))
    found = codec_of(api.response, api.highest, flexible=True).read(reader)
    assert reader.left == 0
    return found


@pytest.mark.parametrize(("name", "beat"), [("join", JOIN), ("beat", BEAT), ("leave", LEAVE)])
def test_a_heartbeat_is_written_as_kafka_does(name: str, beat: Heartbeat) -> None:
    assert written(STREAMS_GROUP_HEARTBEAT, heartbeat_request("app", beat)) == RECORDED[name]


def test_an_answer_is_read() -> None:
    answer = read(STREAMS_GROUP_HEARTBEAT, "answer")
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.endpoint_information_epoch) == (8, 5000, 4)
    assert answer.status[0].status_detail == "Source topics x are missing."
    assert [(one.subtopology_id, one.partitions) for one in answer.active_tasks] == [("0", (0, 2))]
    assert answer.partitions_by_user_endpoint[0].user_endpoint.port == 40_000


def test_a_refusal_is_read() -> None:
    answer = read(STREAMS_GROUP_HEARTBEAT, "refusal")
    assert (answer.error_code, answer.error_message, answer.active_tasks) == (110, "fenced", None)


def test_a_description_is_read() -> None:
    (group,) = read(STREAMS_GROUP_DESCRIBE, "described").groups
    assert (group.group_state, group.members[0].user_endpoint.host) == ("NotReady", "host")
    assert task_lists(group.members[0].assignment).active == {TaskId(1, 0), TaskId(1, 3)}


def test_the_topology_of_a_group_is_that_which_was_sent() -> None:
    answers = {
        API_VERSIONS: STREAMS_VERSIONS,
        FIND_COORDINATOR: here,
        STREAMS_GROUP_DESCRIBE: read(STREAMS_GROUP_DESCRIBE, "described"),
    }
    with FakeBroker(answers) as broker:
        settings = ClientSettings.of({"bootstrap.servers": str(broker.address)})
        with closing(StreamsGroupHeartbeats(settings, "app")) as heartbeats:
            assert heartbeats.topology(5.0) == (GroupSubtopology(1, ("in",)),)


def test_commits_and_groups_have_kafkas_bytes() -> None:
    topics = (CommittedTopic("in", (CommittedPartition(2, 42, -1, "t"),)),)
    assert written(EPOCH_OFFSET_COMMIT, OffsetCommitRequest("app", 8, "m-1", None, topics)) == RECORDED["commit"]
    assert written(DELETE_GROUPS, DeleteGroupsRequest(("app",))) == RECORDED["delete"]
    found: ListGroupsResponse = read(LIST_GROUPS, "groups")
    assert found.groups == (ListedGroup("app", "streams", "Stable", "Streams"),)


# ---------------------------------------------------------------------- answers that refuse


def refused(code: int, message: str | None = None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(0, code, message, "", 0, 0, 0, 0, None, None, None, None, 0, None)


@pytest.mark.parametrize(
    ("code", "message", "error", "says"),
    [
        (25, None, MemberFenced, "no longer in group 'app'"),
        (110, None, MemberFenced, "FENCED_MEMBER_EPOCH"),
        (69, "Group app is not a streams group.", GroupOfOtherProtocol, "Stop the workers that run with another"),
        (23, None, GroupOfOtherProtocol, "INCONSISTENT_GROUP_PROTOCOL"),
        (42, "Topology updates are not supported yet.", TopologyRefused, "streams groups upgrade-topology"),
        (130, "bad", TopologyRefused, "STREAMS_INVALID_TOPOLOGY"),
        (42, "Static membership is not yet supported.", StaticMembersRefused, "Static membership"),
        (42, "MemberEpoch is invalid.", StreamsError, "rejects this member"),
        (82, None, InstanceFenced, "a state.dir of its own"),
        (111, None, InstanceHeld, "a member of group 'app' still has group.instance.id 'i-1'"),
        (81, None, RetryableError, "group.streams.max.size"),
        (30, None, AuthorizationError, "allow READ on the group"),
        (29, None, AuthorizationError, "allow DESCRIBE on its topics, and CREATE"),
        (35, None, StreamsError, "streams.version"),
        (15, None, RetryableError, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_each_refusal_is_an_error_that_says_what_to_do(
    code: int, message: str | None, error: type[StreamsError], says: str
) -> None:
    with pytest.raises(error) as raised, member_of(refused(code, message)) as heartbeats:
        heartbeats.send(JOIN, 5.0)
    assert says in str(raised.value)


def test_an_older_broker_says_which_one_is_needed() -> None:
    with pytest.raises(StreamsError, match=r"must be Kafka 4\.2"), member_of(versions=VERSIONS) as heartbeats:
        heartbeats.send(JOIN, 5.0)


def test_a_lost_answer_is_not_asked_for_again() -> None:
    """The group may have moved on with it, and would not say so a second time."""
    answers = [CLOSE, refused(0)]
    with pytest.raises(RetryableError), member_of(*answers) as heartbeats:
        heartbeats.send(BEAT, 5.0)


@contextmanager
def member_of(*answers: Any, versions: Any = STREAMS_VERSIONS) -> Iterator[StreamsGroupHeartbeats]:
    given = {FIND_COORDINATOR: here, STREAMS_GROUP_HEARTBEAT: list(answers), API_VERSIONS: versions}
    with FakeBroker(given) as broker:
        settings = ClientSettings.of({"bootstrap.servers": str(broker.address)})
        with closing(StreamsGroupHeartbeats(settings, "app")) as heartbeats:
            yield heartbeats


def test_an_unknown_status_is_kept_with_its_text() -> None:
    assert GroupStatus(99) is GroupStatus.UNKNOWN
