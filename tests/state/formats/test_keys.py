"""Keys of windows and sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.formats import keys

TIME = st.integers(0, keys.MAX_TIME)
SEQUENCE = st.integers(0, (1 << 31) - 1)
KEY = st.binary(max_size=6)


@given(KEY, TIME, SEQUENCE)
def test_window_keys_are_read_back(key: bytes, start: int, sequence: int) -> None:
    """From a topic, from a store, and from a row by time."""
    assert keys.read_window_topic_key(keys.window_topic_key(key, start)) == (key, start)
    assert keys.read_window_key(keys.window_key(key, start, sequence)) == (key, start, sequence)
    assert keys.read_window_key_by_time(keys.window_key_by_time(key, start, sequence)) == (key, start, sequence)
    assert keys.window_key_by_key(key, start, sequence) == b"\x01" + keys.window_key(key, start, sequence)


@given(KEY, TIME, TIME)
def test_session_keys_are_read_back(key: bytes, start: int, end: int) -> None:
    """From topics and stores, and from a row by time."""
    assert keys.read_session_key(keys.session_key(key, start, end)) == (key, start, end)
    assert keys.read_session_key_by_time(keys.session_key_by_time(key, start, end)) == (key, start, end)
    assert keys.session_key_by_key(key, start, end) == b"\x01" + keys.session_key(key, start, end)


@given(st.lists(st.tuples(TIME, KEY, SEQUENCE), max_size=6), st.lists(st.tuples(TIME, TIME, KEY), max_size=6))
def test_rows_by_time_are_in_order_of_time(
    windows: list[tuple[int, bytes, int]], sessions: list[tuple[int, int, bytes]]
) -> None:
    """Windows by start, sessions by end and then start."""
    rows = sorted(keys.window_key_by_time(key, start, sequence) for start, key, sequence in windows)
    starts = [keys.read_window_key_by_time(row)[1] for row in rows]
    assert starts == sorted(starts)
    rows = sorted(keys.session_key_by_time(key, start, end) for end, start, key in sessions)
    times = [keys.read_session_key_by_time(row)[:0:-1] for row in rows]
    assert times == sorted(times)


def test_the_end_of_a_window_is_cut_at_the_largest_time() -> None:
    """Where start and size would overflow 63 bits."""
    assert keys.window_end(10, 5) == 15
    assert keys.window_end(keys.MAX_TIME - 2, 5) == keys.MAX_TIME


@pytest.mark.parametrize(
    ("read", "length"),
    [
        (keys.read_window_topic_key, 7),
        (keys.read_window_key, 11),
        (keys.read_window_key_by_time, 12),
        (keys.read_session_key, 15),
        (keys.read_session_key_by_time, 16),
    ],
)
def test_short_keys_are_refused(read: Callable[[bytes], Any], length: int) -> None:
    """A key without its times is none."""
    with pytest.raises(ValueError, match=f"at least {length + 1} bytes"):
        read(bytes(length))
    read(bytes(length + 1))
