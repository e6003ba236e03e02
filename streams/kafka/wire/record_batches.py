"""The batches of a log as their headers describe them: which offsets each has, and how many records.

A client for records, such as librdkafka, shows neither the markers at the ends of transactions nor how many records a
batch once had, so to its readers an offset without a record is a hole of any kind. The headers tell them apart: a
marker is a batch of its own, and of a batch that a compaction has thinned out, the offsets stay and the count goes
down.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from streams.kafka.wire.api import Api
from streams.kafka.wire.codec import AtMost, Int8, Int16, Int32, Int64, MalformedMessage

FETCH_BYTES = 8 * 1024 * 1024
"""Bytes of a log that one answer has; more if its first batch is larger."""
WAIT_MS = 500
_FRONT = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibihiqqqhii")
_MAGIC = 2
_CONTROL, _TRANSACTIONAL = 0x20, 0x10


@dataclass(frozen=True)
class FetchPartition:
    partition: Int32
    current_leader_epoch: Int32
    """-1 asks the leader of now, whatever its epoch."""
    fetch_offset: Int64
    last_fetched_epoch: Int32
    log_start_offset: Int64
    """-1 for a client."""
    partition_max_bytes: Int32


@dataclass(frozen=True)
class FetchTopic:
    topic: str
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True)
class ForgottenTopic:
    topic: str
    partitions: tuple[Int32, ...]


@dataclass(frozen=True)
class FetchRequest:
    replica_id: Int32
    """-1 for a client."""
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32
    isolation_level: Int8
    session_id: Int32
    session_epoch: Int32
    """-1 with the session 0: the answer is to this request alone."""
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]
    rack_id: str


@dataclass(frozen=True)
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@dataclass(frozen=True)
class FetchedPartition:
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64
    log_start_offset: Int64
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, AtMost(1_000_000)]
    preferred_read_replica: Int32
    records: bytes | None


@dataclass(frozen=True)
class FetchedTopic:
    topic: str
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True)
class FetchResponse:
    throttle_time_ms: Int32
    error_code: Int16
    session_id: Int32
    responses: tuple[FetchedTopic, ...]


FETCH = Api(
    name="Fetch",
    key=1,
    lowest=12,
    highest=12,
    flexible_from=12,
    request=FetchRequest,
    response=FetchResponse,
    needs="2.7",
    most_answer_bytes=1024 * 1024 * 1024,  # its first batch, whatever the largest size of a batch is
)


class BatchHeader(NamedTuple):
    """What the header of a batch says."""

    first: int
    """Its first offset; of a batch that was compacted, that of a record which may be gone."""
    last: int
    records: int
    """The number of records that it has now."""
    is_control: bool
    """Whether it is a marker, such as the end of a transaction."""
    is_transactional: bool


def batch_headers(records: bytes) -> Iterator[BatchHeader]:
    """Yields the headers of batches; the last one may be cut off behind its header.

    :raises MalformedMessage: if there is a batch of the formats before Kafka 0.11, which have no such header.
    """
    at = 0
    while len(records) - at >= _HEADER.size:
        first, size, _, magic, _, attributes, delta, _, _, _, _, _, count = _HEADER.unpack_from(records, at)
        if magic != _MAGIC or size < _HEADER.size - _FRONT.size:
            raise MalformedMessage(f"the batch at offset {first} is of format {magic}, and only 2 is known")
        yield BatchHeader(first, first + delta, count, bool(attributes & _CONTROL), bool(attributes & _TRANSACTIONAL))
        at += _FRONT.size + size


def fetch_request(topic: str, partition: int, offset: int, max_bytes: int = FETCH_BYTES) -> FetchRequest:
    """Returns the request for batches from an offset on."""
    asked = FetchPartition(partition, -1, offset, -1, -1, max_bytes)
    return FetchRequest(-1, WAIT_MS, 1, max_bytes, 0, 0, -1, (FetchTopic(topic, (asked,)),), (), "")
