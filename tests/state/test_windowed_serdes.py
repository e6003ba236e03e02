"""Serdes of windowed keys wrap the serde of the key. Their bytes are in tests/golden."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.serde import Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde, WindowedSerdes


class ByTopic(Serde[str]):
    """Writes the topic in front, as a schema registry's serde writes a number."""

    def __init__(self, topic: str = "") -> None:
        super().__init__(lambda value: f"{topic}:{value}".encode(), lambda data: data.decode().partition(":")[2])

    def bind(self, topic: str, *, is_key: bool) -> Serde[str]:
        return ByTopic(f"{topic}-{is_key}")


@pytest.mark.parametrize(
    "serde",
    [
        TimeWindowedSerde(ByTopic(), 10),
        TimeWindowedSerde(ByTopic(), 10, changelog=True),
        SessionWindowedSerde(ByTopic()),
    ],
)
def test_the_inner_serde_is_bound_to_the_topic(serde: Serde[Any]) -> None:
    key = Windowed("k", Window(5, 15))
    data = serde.bind("t", is_key=True).serialize(key)
    assert data.startswith(b"t-True:k\0\0\0")
    assert serde.deserialize(data) == key


def test_a_serde_without_a_topic_stays_itself() -> None:
    serde = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 10)
    assert serde.bind("t", is_key=True) is serde
    assert serde.with_default(Serdes.LONG) is serde


def test_a_window_has_no_negative_length() -> None:
    with pytest.raises(ValueError, match="window_size must not be negative, got -1"):
        TimeWindowedSerde(Serdes.STRING, -1)


def test_data_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        SessionWindowedSerde(Serdes.STRING).deserialize(b"short")
