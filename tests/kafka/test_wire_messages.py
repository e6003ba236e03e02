"""The bytes of each message, written by hand from Kafka's definition of the protocol."""

from __future__ import annotations

from typing import Any

import pytest

from streams.kafka.wire.api import Api, correlation_id_of
from streams.kafka.wire.codec import MalformedMessage
from streams.kafka.wire.messages import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LATEST,
    LEAVE_GROUP,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    AbortedTransaction,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    FinalizedFeature,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FoundCoordinator,
    InitProducerIdRequest,
    InitProducerIdResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListedOffset,
    ListedTopic,
    ListedTransaction,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
    MetadataResponse,
    NamedTopic,
    PartitionMetadata,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    SupportedApi,
    SupportedFeature,
    TopicMetadata,
    fetch_request,
)
from streams.kafka.wire.offset_commits import (
    OFFSET_COMMIT,
    AnsweredPartition,
    AnsweredTopic,
    CommittedPartition,
    CommittedTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
)

LISTED = ListOffsetsRequest(-1, 0, (ListOffsetsTopic("t", (ListOffsetsPartition(3, -1, LATEST),)),))
ENDS = ListOffsetsResponse(0, (ListedTopic("t", (ListedOffset(3, 0, -1, 42, 7),)),))

# Each request: size, api key, version, correlation id 7, client id "app" (two bytes of length in every version), in
# flexible versions no tagged fields of the header, then the body.
REQUESTS = {
    "ApiVersions 3": (
        API_VERSIONS,
        3,
        ApiVersionsRequest("n1", "2"),
        "00000014 0012 0003 00000007 0003617070 00 036e31 0232 00",
    ),
    "SaslHandshake 1": (
        SASL_HANDSHAKE,
        1,
        SaslHandshakeRequest("PLAIN"),
        "00000014 0011 0001 00000007 0003617070 0005504c41494e",
    ),
    "SaslAuthenticate 1": (
        SASL_AUTHENTICATE,
        1,
        SaslAuthenticateRequest(b"\0u\0p"),
        "00000015 0024 0001 00000007 0003617070 0000000400750070",
    ),
    "SaslAuthenticate 2": (
        SASL_AUTHENTICATE,
        2,
        SaslAuthenticateRequest(b"\0u\0p"),
        "00000014 0024 0002 00000007 0003617070 00 0500750070 00",
    ),
    "FindCoordinator 4": (
        FIND_COORDINATOR,
        4,
        FindCoordinatorRequest(0, ("g1",)),
        "00000014 000a 0004 00000007 0003617070 00 00 02 036731 00",
    ),
    "LeaveGroup 4": (
        LEAVE_GROUP,
        4,
        LeaveGroupRequest("g1", (LeavingMember("", "i", "told from version 5 on"),)),
        "00000017 000d 0004 00000007 0003617070 00 036731 02 01 0269 00 00",
    ),
    "LeaveGroup 5": (
        LEAVE_GROUP,
        5,
        LeaveGroupRequest("g1", (LeavingMember("m", None, "done"), LeavingMember("", "i"))),
        "00000021 000d 0005 00000007 0003617070 00 036731 03 026d 00 05646f6e65 00 01 0269 00 00 00",
    ),
    "DescribeGroups 5": (
        DESCRIBE_GROUPS,
        5,
        DescribeGroupsRequest(("g1", "g2"), True),
        "00000017 000f 0005 00000007 0003617070 00 03 036731 036732 01 00",
    ),
    "DescribeCluster 0": (
        DESCRIBE_CLUSTER,
        0,
        DescribeClusterRequest(False),
        "00000010 003c 0000 00000007 0003617070 00 00 00",
    ),
    "ListTransactions 0": (
        LIST_TRANSACTIONS,
        0,
        ListTransactionsRequest(("Ongoing",), ()),
        "00000019 0042 0000 00000007 0003617070 00 02 084f6e676f696e67 01 00",
    ),
    "Fetch 12": (
        FETCH,
        12,
        fetch_request("t", 3, 42, 100),
        f"00000050 0001 000c 00000007 0003617070 00 ffffffff 000001f4 00000001 00000064 00 00000000 ffffffff"
        f"02 0274 02 00000003 ffffffff 000000000000002a ffffffff {'ff' * 8} 00000064 00 00 01 01 00",
    ),
    **{
        f"InitProducerId {version}": (
            INIT_PRODUCER_ID,
            version,
            InitProducerIdRequest("x", 10_000, -1, -1),
            f"0000001f 0016 {version:04x} 00000007 0003617070 00 0278 00002710 {'ff' * 8} ffff 00",
        )
        for version in (3, 4)
    },
    "OffsetCommit 8": (
        OFFSET_COMMIT,
        8,
        OffsetCommitRequest("g", 5, "m", "i", (CommittedTopic("t", (CommittedPartition(3, 42, -1, "x"),)),)),
        "00000031 0008 0008 00000007 0003617070 00 0267 00000005 026d 0269 02 0274 02 00000003 000000000000002a"
        " ffffffff 0278 00 00 00",
    ),
    "Metadata 12": (
        METADATA,
        12,
        MetadataRequest((NamedTopic(bytes(16), "t"),), False, False),
        f"00000025 0003 000c 00000007 0003617070 00 02 {'00' * 16} 0274 00 00 00 00",
    ),
    **{
        f"ListOffsets {version}": (
            LIST_OFFSETS,
            version,
            LISTED,
            f"0000002d 0002 {version:04x} 00000007 0003617070 ffffffff 00 00000001 000174 00000001 00000003 ffffffff"
            f"{'ff' * 8}",
        )
        for version in (4, 5)
    },
    **{
        f"ListOffsets {version}": (
            LIST_OFFSETS,
            version,
            LISTED,
            f"0000002a 0002 {version:04x} 00000007 0003617070 00 ffffffff 00 02 0274 02 00000003 ffffffff {'ff' * 8}"
            " 00 00 00",
        )
        for version in (6, 7)
    },
}

# Each answer: correlation id 7, in flexible versions no tagged fields of the header (ApiVersions has none there ever),
# then the body.
ANSWERS: dict[str, tuple[Api[Any, Any], int, str, Any]] = {
    "ApiVersions 3": (
        API_VERSIONS,
        3,
        "00000007 0000 03 000d 0000 0005 00 0012 0000 0004 00 00000064 00",
        ApiVersionsResponse(0, (SupportedApi(13, 0, 5), SupportedApi(18, 0, 4)), 100),
    ),
    "ApiVersions 3 with features and a tagged field that is unknown": (
        API_VERSIONS,
        3,
        "00000007 0000 01 00000000 04"
        "00 09 02 0366 78 0000 0001 00"  # 0: supported features: "fx" from 0 to 1
        "01 08 000000000000002a"  # 1: epoch 42
        "02 09 02 0366 78 0001 0001 00"  # 2: finalized features: "fx" at level 1
        "09 02 cafe",
        ApiVersionsResponse(0, (), 0, (SupportedFeature("fx", 0, 1),), 42, (FinalizedFeature("fx", 1, 1),)),
    ),
    "SaslHandshake 1": (
        SASL_HANDSHAKE,
        1,
        "00000007 0021 00000002 0005504c41494e 000d534352414d2d5348412d323536",
        SaslHandshakeResponse(33, ("PLAIN", "SCRAM-SHA-256")),
    ),
    "SaslAuthenticate 1": (
        SASL_AUTHENTICATE,
        1,
        "00000007 003a 00026e6f 00000000 0000000000000000",
        SaslAuthenticateResponse(58, "no", b"", 0),
    ),
    "SaslAuthenticate 2": (
        SASL_AUTHENTICATE,
        2,
        "00000007 00 0000 00 03763d 00000000000003e8 00",
        SaslAuthenticateResponse(0, None, b"v=", 1000),
    ),
    "FindCoordinator 4": (
        FIND_COORDINATOR,
        4,
        "00000007 00 00000000 02 036731 00000003 05686f7374 00002384 0000 00 00 00",
        FindCoordinatorResponse(0, (FoundCoordinator("g1", 3, "host", 9092, 0, None),)),
    ),
    "FindCoordinator 4, there is none": (
        FIND_COORDINATOR,
        4,
        "00000007 00 00000000 02 036731 ffffffff 01 ffffffff 000f 036e6f 00 00",
        FindCoordinatorResponse(0, (FoundCoordinator("g1", -1, "", -1, 15, "no"),)),
    ),
    "LeaveGroup 4": (
        LEAVE_GROUP,
        4,
        "00000007 00 00000000 0000 02 01 0269 0019 00 00",
        LeaveGroupResponse(0, 0, (LeftMember("", "i", 25),)),
    ),
    "LeaveGroup 5 with tagged fields that are unknown, in the header and in both structures": (
        LEAVE_GROUP,
        5,
        "00000007 02 00 03 cafe64 05 00 00000000 0000 02 01 0269 0019 01 07 01 ff 01 8001 00",
        LeaveGroupResponse(0, 0, (LeftMember("", "i", 25),)),
    ),
    "LeaveGroup 5": (
        LEAVE_GROUP,
        5,
        "00000007 00 00000000 001e 01 00",
        LeaveGroupResponse(0, 30, ()),
    ),
    "DescribeGroups 5": (
        DESCRIBE_GROUPS,
        5,
        "00000007 00 00000000 02 0000 036731 07537461626c65 09636f6e73756d6572 067261 6e6765"
        "02 026d 0269 0263 032f68 03cafe 01 00"  # one member
        "00000108 00 00",
        DescribeGroupsResponse(
            0,
            (
                DescribedGroup(
                    0,
                    "g1",
                    "Stable",
                    "consumer",
                    "range",
                    (DescribedGroupMember("m", "i", "c", "/h", b"\xca\xfe", b""),),
                    0x108,
                ),
            ),
        ),
    ),
    "DescribeCluster 0": (
        DESCRIBE_CLUSTER,
        0,
        "00000007 00 00000000 0000 00 0263 00000001"
        "03 00000001 0268 00002384 00 00 00000002 0269 00002385 0272 00 80000000 00",
        DescribeClusterResponse(
            0, 0, None, "c", 1, (ClusterBroker(1, "h", 9092, None), ClusterBroker(2, "i", 9093, "r")), -(1 << 31)
        ),
    ),
    "ListTransactions 0": (
        LIST_TRANSACTIONS,
        0,
        "00000007 00 00000000 0000 01 02 0278 0000000000000009 084f6e676f696e67 00 00",
        ListTransactionsResponse(0, 0, (), (ListedTransaction("x", 9, "Ongoing"),)),
    ),
    "Fetch 12": (
        FETCH,
        12,
        "00000007 00 00000000 0000 00000000 02 0274 02 00000003 0000 000000000000002a 0000000000000028"
        "0000000000000000 02 0000000000000009 0000000000000005 00 ffffffff 03 6162 00 00 00",
        FetchResponse(
            0,
            0,
            0,
            (FetchedTopic("t", (FetchedPartition(3, 0, 42, 40, 0, (AbortedTransaction(9, 5),), -1, b"ab"),)),),
        ),
    ),
    **{
        f"InitProducerId {version}": (
            INIT_PRODUCER_ID,
            version,
            "00000007 00 00000000 0033 ffffffffffffffff ffff 00",
            InitProducerIdResponse(0, 51, -1, -1),
        )
        for version in (3, 4)
    },
    "OffsetCommit 8": (
        OFFSET_COMMIT,
        8,
        "00000007 00 00000000 02 0274 02 00000003 001b 00 00 00",
        OffsetCommitResponse(0, (AnsweredTopic("t", (AnsweredPartition(3, 27),)),)),
    ),
    "Metadata 12": (
        METADATA,
        12,
        "00000007 00 00000000 02 00000001 0268 00002384 00 00 0263 00000001"
        f"02 0000 0274 {'ab' * 16} 00 02 0000 00000003 00000001 00000005 02 00000001 02 00000001 01 00"
        "80000000 00 00",
        MetadataResponse(
            0,
            (ClusterBroker(1, "h", 9092, None),),
            "c",
            1,
            (TopicMetadata(0, "t", b"\xab" * 16, False, (PartitionMetadata(0, 3, 1, 5, (1,), (1,), ()),), -(1 << 31)),),
        ),
    ),
    **{
        f"ListOffsets {version}": (
            LIST_OFFSETS,
            version,
            f"00000007 00000000 00000001 000174 00000001 00000003 0000 {'ff' * 8} 000000000000002a 00000007",
            ENDS,
        )
        for version in (4, 5)
    },
    **{
        f"ListOffsets {version}": (
            LIST_OFFSETS,
            version,
            f"00000007 00 00000000 02 0274 02 00000003 0000 {'ff' * 8} 000000000000002a 00000007 00 00 00",
            ENDS,
        )
        for version in (6, 7)
    },
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_has_the_bytes_of_the_definition(name: str) -> None:
    """Header and body, with the size in front."""
    api, version, request, written = REQUESTS[name]
    assert api.encode(request, version, 7, "app").hex() == written.replace(" ", "")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_as_defined(name: str) -> None:
    """Header and body, without the size."""
    api, version, written, response = ANSWERS[name]
    data = bytes.fromhex(written)
    assert correlation_id_of(data) == 7
    assert api.decode(data, version) == response


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_any_other_length_is_refused(name: str) -> None:
    """Neither one that ends early, wherever it does, nor one that goes on is taken for an answer."""
    api, version, written, _ = ANSWERS[name]
    data = bytes.fromhex(written)
    for length in range(4, len(data)):
        with pytest.raises(MalformedMessage, match=r"it needs .* more bytes|it announces .* elements, but"):
            api.decode(data[:length], version)
    with pytest.raises(MalformedMessage, match="has 1 more bytes"):
        api.decode(data + b"\0", version)


def test_an_answer_without_correlation_id_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="it needs 4 more bytes, but has 3"):
        correlation_id_of(b"\0\0\0")


def test_every_version_of_every_message_is_here() -> None:
    """Otherwise the bytes of one would be unproved."""
    apis = (
        API_VERSIONS,
        DESCRIBE_CLUSTER,
        DESCRIBE_GROUPS,
        FETCH,
        FIND_COORDINATOR,
        INIT_PRODUCER_ID,
        LEAVE_GROUP,
        LIST_OFFSETS,
        LIST_TRANSACTIONS,
        METADATA,
        OFFSET_COMMIT,
        SASL_AUTHENTICATE,
        SASL_HANDSHAKE,
    )
    declared = {(api.name, version) for api in apis for version in range(api.lowest, api.highest + 1)}
    assert {(api.name, version) for api, version, *_ in REQUESTS.values()} == declared
    assert {(api.name, version) for api, version, *_ in ANSWERS.values()} == declared


def test_a_described_group_tells_its_error() -> None:
    """The first group that has one."""
    good = DescribedGroup(0, "a", "", "", "", ())
    bad = DescribedGroup(30, "b", "", "", "", ())
    assert DescribeGroupsResponse(0, (good, bad)).error_code == 30
    assert DescribeGroupsResponse(0, (good,)).error_code == 0
