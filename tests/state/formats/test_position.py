"""Positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.formats.offsets import read_position, write_position

OFFSETS = st.dictionaries(st.integers(0, 99), st.integers(0, (1 << 63) - 1), max_size=3)


@given(st.dictionaries(st.text(max_size=5), OFFSETS, max_size=3), st.integers(0, 9))
def test_a_position_is_read_back(position: dict[str, dict[int, int]], zeros: int) -> None:
    """Also with the zero bytes that a Java buffer leaves behind it."""
    assert read_position(write_position(position) + bytes(zeros)) == position


def test_the_same_position_has_the_same_bytes() -> None:
    """In whatever order it was filled."""
    assert write_position({"b": {1: 2, 0: 1}, "a": {}}) == write_position({"a": {}, "b": {0: 1, 1: 2}})


@pytest.mark.parametrize(
    "hex_bytes",
    ["", "00", "0100000000", "0000000001", "00000000010000000a61", "0000000001ffffffff",
     "0000000001000000016100000002000000010000000000000001", "00000000010000000161ffffffff"],
)  # fmt: skip
def test_other_versions_and_cut_positions_are_refused(hex_bytes: str) -> None:
    """Only version 0 is known."""
    with pytest.raises(ValueError, match="position"):
        read_position(bytes.fromhex(hex_bytes))
