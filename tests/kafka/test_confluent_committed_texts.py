"""Texts of committed offsets that the client shows with more behind them."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.errors import ConfigError, RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.group_offsets import exact_offsets
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata

OURS = TopicPartitionMetadata(5, {"counts": 3}, "AAAAAAAAAAAAAAAAAAAAAA").encode()
JAVAS = "AgAAAAAAAAAB"
NAME = TopicPartition("t", 0)


class Found:
    """A partition as the client returns it."""

    topic, partition, offset = "t", 0, 7

    def __init__(self, text: str | bytes | None) -> None:
        self._text = text

    @property
    def metadata(self) -> str | None:
        return self._text.decode() if isinstance(self._text, bytes) else self._text


def exact(text: Any, answer: Any = None) -> tuple[Any, list[Any]]:
    asked: list[Any] = []

    def ask(partitions: Any) -> Any:
        asked.append(set(partitions))
        if isinstance(answer, Exception):
            raise answer
        return {NAME: answer}

    return exact_offsets([Found(text)], ask), asked  # type: ignore[list-item]


@pytest.mark.parametrize("text", [OURS, "", None])
def test_texts_of_ours_and_none_are_shown_right(text: str | None) -> None:
    """The broker is not asked again."""
    assert exact(text) == ({NAME: OffsetAndMetadata(7, text or "")}, [])


@pytest.mark.parametrize("text", [JAVAS, JAVAS + "o\x7f", JAVAS.encode() + b"\x85", OURS + "A", OURS[:-4]])
def test_other_texts_are_taken_from_the_broker(text: Any) -> None:
    """Behind a text that Kafka Streams for Java has committed the client shows what is in memory there, which may be no
    text at all: a worker took its offsets for unreadable, or its thread died."""
    assert exact(text, JAVAS) == ({NAME: OffsetAndMetadata(7, JAVAS)}, [{NAME}])


def test_what_cannot_be_asked_for_is_as_the_client_shows_it() -> None:
    """With a login that the small client does not know; what is no text is none."""
    refused = ConfigError("GSSAPI")
    assert exact(JAVAS, refused)[0] == {NAME: OffsetAndMetadata(7, JAVAS)}
    assert exact(b"\x85", refused)[0] == {NAME: OffsetAndMetadata(7, "")}
    with pytest.raises(RetryableError):
        exact(JAVAS, RetryableError("no coordinator"))
