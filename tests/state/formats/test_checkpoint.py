"""Kafka Streams' checkpoint files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.errors import StateError
from processor_api.task_id import TopicPartition
from state.formats.offsets import OFFSET_UNKNOWN, read_checkpoint, write_checkpoint

PARTITIONS = st.builds(TopicPartition, st.text("ab-._Z9", min_size=1, max_size=5), st.integers(0, 99))
OFFSETS = st.just(OFFSET_UNKNOWN) | st.integers(0, (1 << 63) - 1)


@given(st.dictionaries(PARTITIONS, OFFSETS, min_size=1, max_size=4))
def test_offsets_are_read_back(offsets: dict[TopicPartition, int]) -> None:
    """Partitions without an offset included."""
    text = write_checkpoint(offsets)
    assert text is not None
    assert read_checkpoint(text) == offsets


def test_the_text_is_that_of_kafka_streams() -> None:
    """Version, count, and a line for each partition."""
    offsets = {TopicPartition("app-s-changelog", 3): 17, TopicPartition("t", 0): OFFSET_UNKNOWN}
    assert write_checkpoint(offsets) == "0\n2\napp-s-changelog 3 17\nt 0 -4\n"
    assert write_checkpoint({}) is None


def test_lines_with_other_negative_offsets_are_left_out() -> None:
    """They mean nothing to a reader; any blanks separate."""
    assert read_checkpoint("0\n2\na  1\t2\nb 0 -5\n") == {TopicPartition("a", 1): 2}


def test_a_negative_offset_is_not_written() -> None:
    """It would be left out when the file is read."""
    with pytest.raises(ValueError, match="the offset -1 of a-3 cannot be written"):
        write_checkpoint({TopicPartition("a", 3): -1})


@pytest.mark.parametrize(
    "text",
    ["", "0\n", "x\n0\n", "1\n0\n", "0\n2\na 1 2\n", "0\n1\na 1\n", "0\n1\na 1 x\n", "0\n1\na b 1 2\n"],
)
def test_damaged_files_are_refused(text: str) -> None:
    """With an error that says what to do."""
    with pytest.raises(StateError, match="checkpoint file"):
        read_checkpoint(text)
