"""examples/01_word_count"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from processor_api.serde import Serdes

TEXT, NUMBER = Serdes.STRING, Serdes.LONG


@pytest.mark.parametrize("name", ["word_count", "word_count_dsl"])
def test_words_are_counted(name: str, script: Callable[[str], ModuleType], start: Callable[..., Any]) -> None:
    """A count for each word that changed, upper or lower case, with the timestamp of its line."""
    driver = start(script(f"01_word_count/{name}").topology())
    lines = driver.create_input_topic("lines", TEXT, TEXT)
    counts = driver.create_output_topic("counts", TEXT, NUMBER)
    lines.pipe_input(None, "All streams lead to Kafka", 10)
    assert counts.read_key_values_to_map() == {"all": 1, "streams": 1, "lead": 1, "to": 1, "kafka": 1}
    lines.pipe_input(None, "to Kafka", 20)
    assert [(record.key, record.value, record.timestamp) for record in counts.read_records()] == [
        ("to", 2, 20),
        ("kafka", 2, 20),
    ]
    assert driver.get_state_store("word-counts").get("kafka") == (2, 20)


def test_the_words_go_through_a_repartition_topic(script: Callable[[str], ModuleType]) -> None:
    """So that a word is counted in one place, however the lines are partitioned."""
    described = script("01_word_count/word_count").topology().describe()
    assert "Sub-topology: 1" in described
    assert "Source: from-words (topics: [words-repartition])" in described
