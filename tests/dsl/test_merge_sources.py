"""Streams of the same topics share a source node."""

import re

import pytest

from dsl import Consumed, StreamsBuilder
from dsl_support.fake_task import FakeTask
from processor_api.errors import TopologyError
from processor_api.topology.nodes import SourceNode
from processor_api.topology.topology import Topology
from processor_api.user_code.offset_reset import AutoOffsetReset


def sources(topology: Topology) -> list[SourceNode]:
    return [node for node in topology.nodes.values() if isinstance(node, SourceNode)]


def test_the_first_of_them_stays_and_all_read_from_it() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("o1")
    builder.stream(["in"]).to("o2")
    builder.stream("other").merge(builder.stream("in")).to("o3")
    topology = builder.build()
    assert [node.topics for node in sources(topology)] == [("in",), ("other",)]
    task = FakeTask(topology)
    task.pipe("in", "a", "x")
    assert [task.values(topic) for topic in ("o1", "o2", "o3")] == [[("a", "x")]] * 3


def test_the_order_of_topics_does_not_matter_nor_does_naming_one_twice() -> None:
    builder = StreamsBuilder()
    builder.stream(["a", "b"]).to("o1")
    builder.stream(["b", "a", "b"]).to("o2")
    assert [node.topics for node in sources(builder.build())] == [("a", "b")]


def test_a_stream_merged_with_itself_read_again_is_one_parent() -> None:
    builder = StreamsBuilder()
    builder.stream("in").merge(builder.stream("in")).to("out")
    task = FakeTask(builder.build())
    task.pipe("in", "a", "x")
    assert task.values("out") == [("a", "x")]


def test_patterns_are_the_same_if_their_text_and_flags_are() -> None:
    builder = StreamsBuilder()
    for pattern in (re.compile("a.*"), re.compile("a.*"), re.compile("a.*", re.IGNORECASE), re.compile("b.*")):
        builder.stream(pattern).to("out")
    assert len(sources(builder.build())) == 3


@pytest.mark.parametrize(("one", "other"), [(["a", "b"], ["b", "c"]), (["a", "b"], ["a"]), (["a"], ["a", "b"])])
def test_topics_that_overlap_must_be_the_same(one: list[str], other: list[str]) -> None:
    builder = StreamsBuilder()
    builder.stream(one).to("o1")
    builder.stream(other).to("o2")
    with pytest.raises(TopologyError, match="both read"):
        builder.build()


def test_offset_resets_must_agree() -> None:
    builder = StreamsBuilder()
    builder.stream("a", Consumed(offset_reset=AutoOffsetReset.earliest())).to("o1")
    builder.stream("a", Consumed(offset_reset=AutoOffsetReset.earliest())).to("o2")
    assert len(sources(builder.build())) == 1
    builder.stream("a").to("o3")
    with pytest.raises(TopologyError, match="offset reset"):
        builder.build()


def test_a_table_and_a_stream_of_one_topic_do_not_build() -> None:
    builder = StreamsBuilder()
    builder.table("a").to_stream().to("o1")
    builder.stream("a").to("o2")
    with pytest.raises(TopologyError, match="already read"):
        builder.build()
