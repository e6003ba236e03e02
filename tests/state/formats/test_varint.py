"""Variable-length numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.formats.values import read_varint, write_varint


@pytest.mark.parametrize(
    ("number", "hex_bytes"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (300, "d804"),
     ((1 << 31) - 1, "feffffff0f"), (-(1 << 31), "ffffffff0f")],
)  # fmt: skip
def test_numbers_are_written_as_kafka_writes_them(number: int, hex_bytes: str) -> None:
    """Zig-zag, seven bits a byte, lowest first."""
    assert write_varint(number).hex() == hex_bytes


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_back_from_the_middle(number: int, before: bytes, after: bytes) -> None:
    """The offset behind the number is returned with it."""
    written = write_varint(number)
    assert read_varint(before + written + after, len(before)) == (number, len(before) + len(written))


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1])
def test_a_number_has_32_bits(number: int) -> None:
    """Larger ones are refused."""
    with pytest.raises(ValueError, match="32-bit"):
        write_varint(number)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x01"])
def test_cut_and_endless_numbers_are_refused(data: bytes) -> None:
    """The data has to end the number within five bytes."""
    with pytest.raises(ValueError, match="number at byte 0"):
        read_varint(data)
