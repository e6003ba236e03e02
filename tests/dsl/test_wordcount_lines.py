"""The word count, from imports excluded to the topology, takes at most eight lines."""

import inspect

from dsl import StreamsBuilder
from dsl_support.fake_task import FakeTask
from processor_api.topology.topology import Topology


def word_count() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values(lambda line: line.lower().split())
    words.group_by(lambda _, word: word).count(materialized="counts").to_stream().to("counts-by-word")
    return builder.build()


def test_the_word_count_counts_words() -> None:
    task = FakeTask(word_count())
    task.pipe("lines", None, "The quick fox")
    task.pipe("lines", None, "the lazy dog and the fox")
    assert dict(task.values("counts-by-word")) == {"the": 3, "quick": 1, "fox": 2, "lazy": 1, "dog": 1, "and": 1}


def test_it_takes_at_most_eight_lines() -> None:
    assert len(inspect.getsource(word_count).strip().splitlines()) <= 8
