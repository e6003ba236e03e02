"""The row of a change of a foreign-key join without all answers, and the keys of the subscriptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.formats.foreign_keys import (
    read_subscription,
    read_unanswered,
    subscription_key,
    subscription_prefix,
    subscriptions_end,
    unanswered,
    unanswered_key,
)

some_bytes = st.binary(max_size=5) | st.sampled_from([b"", b"\xff", b"a\xff\xff", b"\xff\xff\xff\xff"])
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3)


@given(foreign_key=some_bytes, headers=headers, value=st.none() | some_bytes)
def test_the_row_is_read_as_it_was_written(
    foreign_key: bytes, headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    row = unanswered(foreign_key, headers, value)
    assert read_unanswered(row) == (foreign_key, headers, value)
    for length in range(len(row)):
        with pytest.raises(ValueError, match="not a row of a change"):
            read_unanswered(row[:length])
    with pytest.raises(ValueError, match="version 64"):
        read_subscription(row)


@given(foreign_key=some_bytes, others=st.lists(st.tuples(some_bytes, some_bytes)))
def test_only_the_subscriptions_of_a_foreign_key_are_between_its_prefix_and_their_end(
    foreign_key: bytes, others: list[tuple[bytes, bytes]]
) -> None:
    prefix = subscription_prefix(foreign_key)
    end = subscriptions_end(prefix)
    for other, key in [*others, (foreign_key, b""), (foreign_key, b"\xff" * 9)]:
        assert (prefix <= subscription_key(other, key) < end) == (other == foreign_key)
    assert end < unanswered_key(0) < unanswered_key(1)
