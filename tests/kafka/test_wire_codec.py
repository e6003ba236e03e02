"""Wire types: what is written is read back, and nothing else than a message is taken for one."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.wire.codec import (
    AtMost,
    Int8,
    Int16,
    Int32,
    Int64,
    MalformedMessage,
    Reader,
    Since,
    Tag,
    codec_of,
    write_varint,
)


class Inner(NamedTuple):
    name: str
    numbers: tuple[Int16, ...]


class Everything(NamedTuple):
    flag: bool
    tiny: Int8
    small: Int16
    number: Int32
    large: Int64
    text: str
    text_or_none: str | None
    data: bytes
    data_or_none: bytes | None
    inner: Inner
    inners: tuple[Inner, ...]
    texts_or_none: tuple[str, ...] | None
    later: Annotated[str | None, Since(2)] = None
    tagged: Annotated[tuple[Inner, ...], Tag(0)] = ()
    tagged_number: Annotated[Int64, Tag(300)] = -1


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
INNER = st.builds(Inner, TEXT, st.lists(integers(16), max_size=3).map(tuple))
INNERS = st.lists(INNER, max_size=3).map(tuple)
EVERYTHING = st.builds(
    Everything,
    st.booleans(),
    integers(8),
    integers(16),
    integers(32),
    integers(64),
    TEXT,
    st.none() | TEXT,
    st.binary(max_size=300),
    st.none() | st.binary(),
    INNER,
    INNERS,
    st.none() | st.lists(TEXT, max_size=2).map(tuple),
    st.none() | TEXT,
    INNERS,
    integers(64),
)


@given(EVERYTHING, st.sampled_from([1, 2]))
def test_a_flexible_message_is_read_back(message: Everything, version: int) -> None:
    """All of it, but for a field that the version does not have yet: that one has its default."""
    codec = codec_of(Everything, version, flexible=True)
    out = bytearray()
    codec.write(out, message)
    reader = Reader(bytes(out))
    found = codec.read(reader)
    assert reader.left == 0
    assert found._asdict() == message._asdict() | ({} if version >= 2 else {"later": None})


@given(EVERYTHING, st.sampled_from([1, 2]))
def test_an_old_message_is_read_back_without_tagged_fields(message: Everything, version: int) -> None:
    """Tagged fields came with flexible versions (KIP-482)."""
    codec = codec_of(Everything, version, flexible=False)
    out = bytearray()
    codec.write(out, message)
    reader = Reader(bytes(out))
    found = codec.read(reader)
    assert reader.left == 0
    absent = {"tagged": (), "tagged_number": -1} | ({} if version >= 2 else {"later": None})
    assert found._asdict() == message._asdict() | absent


@given(EVERYTHING, st.booleans(), st.data())
def test_a_damaged_message_is_refused_or_read_but_nothing_else(
    message: Everything, flexible: bool, data: st.DataObject
) -> None:
    """No length, however it reads, leads outside the message or to another error."""
    codec = codec_of(Everything, 2, flexible=flexible)
    out = bytearray()
    codec.write(out, message)
    at = data.draw(st.integers(0, len(out) - 1))
    out[at] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(codec.read(Reader(bytes(out))), Everything)
    except MalformedMessage:
        pass


@given(st.integers(0, (1 << 32) - 1))
def test_a_varint_is_read_back(value: int) -> None:
    """Seven bits a byte."""
    out = bytearray()
    write_varint(out, value)
    assert len(out) == max(1, -(-value.bit_length() // 7))
    assert Reader(bytes(out)).varint() == value


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (1 << 31, "8080808008")]
)
def test_varints_have_the_lowest_bits_first(value: int, data: str) -> None:
    """300 is 0b10_0101100; 128 is the first of two bytes."""
    out = bytearray()
    write_varint(out, value)
    assert out.hex() == data


def test_a_varint_that_does_not_end_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="more than five bytes"):
        Reader(b"\xff" * 20).varint()


class OneText(NamedTuple):
    text: str


class OneArray(NamedTuple):
    numbers: tuple[Int8, ...]


@pytest.mark.parametrize(
    ("message", "flexible", "data", "reason"),
    [
        (OneText, True, "00 00", "null"),
        (OneText, False, "ffff", "null"),
        (OneText, False, "fffe", "null"),
        (OneText, True, "03 ff fe 00", "not UTF-8"),
        (OneText, True, "05 61", "it needs 4 more bytes, but has 1"),
        (OneArray, True, "ffffffff0f 00", "announces 4294967294 elements"),
        (OneArray, False, "7fffffff", "announces 2147483647 elements"),
        (OneArray, True, "02 05", "it needs 1 more bytes, but has 0"),
    ],
)
def test_what_no_broker_writes_is_refused(message: type, flexible: bool, data: str, reason: str) -> None:
    """Before memory is taken for it."""
    with pytest.raises(MalformedMessage, match=reason):
        codec_of(message, 0, flexible=flexible).read(Reader(bytes.fromhex(data)))


class Few(NamedTuple):
    numbers: Annotated[tuple[Int8, ...], AtMost(2)]


@pytest.mark.parametrize(
    ("message", "flexible", "data"),
    [
        (Few, False, "00000003 010203"),
        (Few, True, "04 010203 00"),
        (OneArray, False, "000003e9" + "00" * 1001),
        (OneArray, True, "01 ea07" + "0000" * 1002),
        (OneArray, True, "01 ffffffff0f"),
    ],
)
def test_more_than_there_may_be_is_refused(message: type, flexible: bool, data: str) -> None:
    """Also where the bytes are there: elements and tagged fields cost many times their bytes."""
    with pytest.raises(MalformedMessage, match=r"announces \d+ elements"):
        codec_of(message, 0, flexible=flexible).read(Reader(bytes.fromhex(data)))


def test_as_many_as_there_may_be_are_read() -> None:
    assert codec_of(Few, 0, flexible=True).read(Reader(b"\x03\x01\x02\x00")) == Few((1, 2))
    many = b"\0\0\x03\xe8" + bytes(1000)
    assert codec_of(OneArray, 0, flexible=False).read(Reader(many)) == OneArray((0,) * 1000)


def test_none_is_not_written_where_a_value_must_be() -> None:
    """A mistake of ours, which the broker would answer by closing the connection."""
    with pytest.raises(TypeError, match="a required value is None"):
        codec_of(OneText, 0, flexible=True).write(bytearray(), OneText(None))  # type: ignore[arg-type]


class NoWireType(NamedTuple):
    number: int


class TwoTypes(NamedTuple):
    text: str | bytes


class NoDefault(NamedTuple):
    later: Annotated[str, Since(2)]


@pytest.mark.parametrize(
    ("message", "reason"),
    [(NoWireType, "not a wire type"), (TwoTypes, "not a wire type"), (NoDefault, "needs a default")],
)
def test_a_wrong_declaration_is_told(message: type, reason: str) -> None:
    """When the message is first used."""
    with pytest.raises(TypeError, match=reason):
        codec_of(message, 0, flexible=True)
