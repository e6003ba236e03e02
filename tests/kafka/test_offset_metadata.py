"""The text that goes with committed offsets."""

from __future__ import annotations

import base64
import logging
import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.offset_metadata import (
    MOST_TIMES,
    SchemaMark,
    SkipRule,
    TopicPartitionMetadata,
    changelog_mark,
    time_mark,
)

LONG = st.integers(-(1 << 63), (1 << 63) - 1)


IDS = st.binary(min_size=16, max_size=16).map(lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("="))
MARK = st.integers(0, (1 << 32) - 1)
NAMES = st.text(max_size=5).filter(lambda name: name[:1] != "#") | st.integers(0, (1 << 32) - 1).map("#{:08x}".format)
METADATA = st.builds(
    TopicPartitionMetadata,
    LONG,
    st.dictionaries(NAMES, LONG, max_size=3),
    st.none() | IDS,
    st.frozensets(st.integers(0, (1 << 32) - 1), max_size=5),
    st.none() | st.text(max_size=20),
    st.none() | st.builds(SkipRule, LONG, LONG),
    st.none() | st.text(max_size=20),
    st.frozensets(st.builds(SchemaMark, MARK, MARK, MARK), max_size=3),
    st.none() | st.text(max_size=20),
)


@given(METADATA)
def test_metadata_is_read_back(metadata: TopicPartitionMetadata) -> None:
    """Partition time, the processors' numbers, the topic's id and the notes."""
    assert TopicPartitionMetadata.decode(metadata.encode()) == metadata


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 900), st.integers(1, 60))
def test_a_text_has_no_more_bytes_than_a_broker_takes(named: int, marked: int, changelogs: int, length: int) -> None:
    """With sixty windows in a subtopology the text was longer, and no commit succeeded any more."""
    names = {f"{number:0{length}}": number for number in range(named)}
    marks = {f"#{number:08x}": -number for number in range(marked)}
    schemas = frozenset(SchemaMark(number, 1, 2) for number in range(changelogs))
    given = TopicPartitionMetadata(
        7, names | marks, "A" * 22, frozenset(range(changelogs)), handover="h" * 36, schemas=schemas, form="f" * 100
    )
    text = given.encode()
    assert len(text) <= 4096
    found = TopicPartitionMetadata.decode(text)
    assert (found.partition_time, found.topic_id, found.handover) == (7, given.topic_id, given.handover)
    assert found.form == given.form
    assert found.changelogs <= given.changelogs
    assert len(found.changelogs) == min(changelogs, 400)
    known = {time_mark(name): time for name, time in given.processors.items()}
    assert {time_mark(name): time for name, time in found.processors.items()}.items() <= known.items()
    if max(named + marked, changelogs) <= MOST_TIMES:
        assert len(found.processors) == len(known)
    assert found.schemas in (schemas, frozenset())  # all of them, or none where there is no room
    if named + marked + changelogs <= 80:
        assert found.schemas == schemas


def test_names_that_kafka_streams_reads_stay_while_there_is_room() -> None:
    few = TopicPartitionMetadata(7, {"counts": 5, time_mark("counts/stream-time"): 9})
    assert TopicPartitionMetadata.decode(few.encode()) == few
    many = TopicPartitionMetadata(7, {f"counts-of-each-minute-and-place-{number}": number for number in range(100)})
    assert TopicPartitionMetadata.decode(many.encode()).processors == {
        time_mark(name): time for name, time in many.processors.items()
    }


@given(METADATA)
def test_a_text_with_an_id_is_known_to_be_whole(metadata: TopicPartitionMetadata) -> None:
    """So that the broker need not be asked for what the client may have shown with more behind it."""
    whole = TopicPartitionMetadata.is_whole(metadata.encode())
    assert whole == (metadata.topic_id is not None)


@given(METADATA)
def test_a_note_of_a_later_version_is_passed_over(metadata: TopicPartitionMetadata) -> None:
    """Also between notes that are known: it says how long it is."""
    data = base64.b64decode(replace(metadata, topic_id="A" * 22, changelogs=frozenset({1})).encode())
    begin = data.index(b"\x02\x00\x04\x00\x00\x00\x01")
    longer = data[:begin] + b"\x09\x00\x03abc" + data[begin:]
    found = TopicPartitionMetadata.decode(base64.b64encode(longer).decode())
    assert found == replace(metadata, topic_id="A" * 22, changelogs=frozenset({1}))


@pytest.mark.parametrize("rest", ["02", "0200", "020004000001", "0200050000000101", "04000100", "00" * 8])
def test_notes_that_are_damaged_are_passed_over(rest: str) -> None:
    data = base64.b64decode(TopicPartitionMetadata(5, {"s": 9}, "A" * 22).encode()) + bytes.fromhex(rest)
    assert TopicPartitionMetadata.decode(base64.b64encode(data).decode()) == TopicPartitionMetadata(
        5, {"s": 9}, "A" * 22
    )


def test_the_mark_of_a_changelog_is_the_checksum_of_its_name() -> None:
    assert changelog_mark("app-counts-changelog") == zlib.crc32(b"app-counts-changelog")


def test_the_bytes_are_those_of_kafka_streams() -> None:
    """Magic byte 2, the time, and nothing more without processors."""
    assert base64.b64decode(TopicPartitionMetadata(5).encode()).hex() == "020000000000000005"
    assert TopicPartitionMetadata(250, {"s": 9}).encode() == "AgAAAAAAAAD6AAAAAQAAAAFzAAAAAAAAAAk="


def as_java_reads(text: str) -> tuple[int, dict[str, int]]:
    """What Kafka Streams 4.3 makes of it: so many entries as the count says, whatever follows."""
    data = base64.b64decode(text)
    (magic, time), offset, found = struct.unpack_from(">bq", data), 9, {}
    assert magic == 2
    count = 0
    if len(data) > offset:
        (count,), offset = struct.unpack_from(">i", data, offset), offset + 4
    for _ in range(count):
        (size,), offset = struct.unpack_from(">i", data, offset), offset + 4
        name, offset = data[offset : offset + size].decode(), offset + size
        (found[name],), offset = struct.unpack_from(">q", data, offset), offset + 8
    return time, found


@given(METADATA)
def test_kafka_streams_reads_past_the_id_and_the_notes(metadata: TopicPartitionMetadata) -> None:
    named = {name: time for name, time in metadata.processors.items() if not name.startswith("#")}
    assert as_java_reads(metadata.encode()) == (metadata.partition_time, named)


@pytest.mark.parametrize("rest", ["01", "01" + "00" * 15, "02" + "00" * 16])
def test_what_follows_and_is_no_id_is_passed_over(rest: str) -> None:
    data = bytes.fromhex("020000000000000005" + "00000000" + rest)
    assert TopicPartitionMetadata.decode(base64.b64encode(data).decode()) == TopicPartitionMetadata(5)


def test_the_version_before_had_no_processors() -> None:
    """Magic byte 1; what follows the time is not read."""
    text = base64.b64encode(b"\x01" + (5).to_bytes(8, "big") + b"rest").decode()
    assert TopicPartitionMetadata.decode(text) == TopicPartitionMetadata(5)


def test_offsets_committed_without_metadata_have_none() -> None:
    """Another tool commits so; it is nothing to warn of."""
    assert TopicPartitionMetadata.decode("") == TopicPartitionMetadata(-1)


@pytest.mark.parametrize("text", ["AwAAAAAAAAAF", "AQ==", "not base64 !", "ä"])
def test_what_cannot_be_read_counts_as_not_known(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """And is logged, with the text."""
    with caplog.at_level(logging.WARNING):
        assert TopicPartitionMetadata.decode(text) == TopicPartitionMetadata(-1)
    (record,) = caplog.records
    assert record.__dict__["metadata"] == text


@pytest.mark.parametrize(
    "rest",
    ["00", "00000001", "00000001 ffffffff", "00000001 00000001 73 00", "00000001 00000001 ff 0000000000000001"],
)
def test_damaged_processors_leave_the_time(rest: str, caplog: pytest.LogCaptureFixture) -> None:
    """The partition time stands before them."""
    data = bytes.fromhex("020000000000000005" + rest)
    assert TopicPartitionMetadata.decode(base64.b64encode(data).decode()) == TopicPartitionMetadata(5)
    (record,) = caplog.records
    assert record.getMessage() == "metadata of a committed offset cannot be read"
