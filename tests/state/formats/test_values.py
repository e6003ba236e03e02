"""Rows with timestamps and headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.formats import outer_join, values

TIMESTAMPS = st.integers(-1, (1 << 63) - 1)
HEADERS = st.lists(st.tuples(st.text(max_size=70), st.none() | st.binary(max_size=70)), max_size=4)


@given(st.binary(), TIMESTAMPS)
def test_a_timestamped_row_is_read_back(value: bytes, timestamp: int) -> None:
    """Eight bytes of timestamp, then the value (KIP-258)."""
    row = values.write_value_and_timestamp(value, timestamp)
    assert row == timestamp.to_bytes(8, "big", signed=True) + value
    assert values.read_value_and_timestamp(row) == (value, timestamp)


@given(st.binary(), TIMESTAMPS, HEADERS)
def test_a_row_with_headers_is_read_back(value: bytes, timestamp: int, headers: list[tuple[str, bytes | None]]) -> None:
    """KIP-1271: names may repeat, values may be null."""
    row = values.write_value_with_headers(value, timestamp, headers)
    assert row is not None
    assert values.read_value_with_headers(row) == (value, timestamp, headers)
    session = values.write_session_with_headers(value, headers)
    assert session is not None
    assert values.read_session_with_headers(session) == (value, headers)
    assert values.read_headers(values.write_headers(headers)) == headers


def test_no_headers_cost_one_byte() -> None:
    """``None`` and an empty list are the same."""
    assert values.write_value_with_headers(b"v", 1, None) == bytes.fromhex("00 0000000000000001 76")
    assert values.write_value_with_headers(b"v", 1, []) == bytes.fromhex("00 0000000000000001 76")
    assert values.write_session_with_headers(b"v", None) == b"\x00v"


def test_rows_of_older_stores_are_converted() -> None:
    """A plain value gets the timestamp -1, a timestamped one no headers."""
    assert values.timestamped_from_plain(b"v") == b"\xff" * 8 + b"v"
    plain = values.from_plain(b"v")
    assert plain is not None
    assert values.read_value_with_headers(plain) == (b"v", -1, [])
    timestamped = values.from_timestamped(values.write_value_and_timestamp(b"v", 7))
    assert timestamped is not None
    assert values.read_value_with_headers(timestamped) == (b"v", 7, [])


def test_no_value_gives_no_row() -> None:
    """A deletion stays one, in every form."""
    assert values.write_value_and_timestamp(None, 5) is None
    assert values.timestamped_from_plain(None) is None
    assert values.write_value_with_headers(None, 5, [("h", b"")]) is None
    assert values.write_session_with_headers(None, [("h", b"")]) is None
    assert values.from_plain(None) is None
    assert values.from_timestamped(None) is None


@pytest.mark.parametrize(
    ("read", "row", "says"),
    [
        (values.read_value_and_timestamp, "00000000000000", "at least 8 bytes, got 7"),
        (values.read_value_with_headers, "", "ends inside the number at byte 0"),
        (values.read_value_with_headers, "00 00000000000000", "cannot hold a timestamp at byte 1"),
        (values.read_value_with_headers, "06 020268 0000000000000001", "ends inside the number at byte 3"),
        (values.read_session_with_headers, "08 020268", "cannot hold 4 bytes of headers"),
        (values.read_session_with_headers, "01", "cannot hold -1 bytes of headers"),
        (values.read_headers, "02 01 00", "a header has no name"),
        (values.read_headers, "02 0268 0a 00", "ends inside the 5 bytes at byte 4"),
        (values.read_headers, "02 0268 01 00", "1 bytes follow the headers"),
        (outer_join.read_outer_join_key, "00000000", "at least 9 bytes, got 4"),
        (outer_join.read_outer_join_value, "", "must start with a byte 0 or 1, got b''"),
        (outer_join.read_outer_join_value, "02", r"must start with a byte 0 or 1, got b'\\x02'"),
    ],
)
def test_damaged_rows_are_refused(read: Callable[[bytes], Any], row: str, says: str) -> None:
    """Rather than read as something else."""
    with pytest.raises(ValueError, match=says):
        read(bytes.fromhex(row))


@given(st.binary(max_size=5), st.integers(0, (1 << 63) - 1), st.booleans())
def test_rows_of_an_outer_join_are_read_back(data: bytes, timestamp: int, left: bool) -> None:
    """Time, side, key; and side, value."""
    assert outer_join.read_outer_join_key(outer_join.outer_join_key(data, timestamp, left)) == (data, timestamp, left)
    assert outer_join.read_outer_join_value(outer_join.outer_join_value(data, left)) == (data, left)


def test_rows_of_an_outer_join_are_in_order_of_time_then_side() -> None:
    """Semantics 58: right before left."""
    rows = [(1, False, b"z"), (1, True, b"a"), (1, True, b"b"), (256, False, b"")]
    keys = [outer_join.outer_join_key(key, timestamp, left) for timestamp, left, key in rows]
    assert keys == sorted(keys)
