"""Splitting a stream."""

from typing import Any

import pytest

from dsl import Branched, KStream, StreamsBuilder
from dsl_support.fake_task import FakeTask
from processor_api.errors import TopologyError


def piped(builder: StreamsBuilder, *values: Any) -> FakeTask:
    task = FakeTask(builder.build())
    for value in values:
        task.pipe("in", "k", value)
    return task


def test_a_record_takes_the_first_branch_whose_predicate_holds() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, int] = builder.stream("in")
    parts = stream.split(name="s-").branch(lambda k, v: v > 8).branch(lambda k, v: v > 4).default_branch()
    for name, part in parts.items():
        part.to(name)
    task = piped(builder, 9, 5, 1)
    assert {name: task.values(name) for name in parts} == {"s-1": [("k", 9)], "s-2": [("k", 5)], "s-0": [("k", 1)]}


def test_without_a_default_branch_other_records_are_dropped() -> None:
    builder = StreamsBuilder()
    parts = builder.stream("in").split(name="s-").branch(lambda k, v: v > 8).no_default_branch()
    assert list(parts) == ["s-1"]
    parts["s-1"].to("out")
    assert piped(builder, 1, 9, 2).values("out") == [("k", 9)]


def test_a_branch_may_be_named_mapped_or_given_away() -> None:
    """A consumer leaves nothing in the dict, nor does a function that returns None."""
    builder = StreamsBuilder()
    parts = (
        builder.stream("in")
        .split(name="s-")
        .branch(lambda k, v: v == 1, Branched(name="one", function=lambda s: s.map_values(lambda v: v + 100)))
        .branch(lambda k, v: v == 2, Branched(consumer=lambda s: s.to("two")))
        .branch(lambda k, v: v == 3, Branched(function=lambda s: s.to("three")))
        .default_branch(Branched.as_("rest"))
    )
    assert list(parts) == ["s-one", "s-rest"]
    parts["s-one"].to("one")
    parts["s-rest"].to("rest")
    task = piped(builder, 1, 2, 3, 4)
    assert [task.values(topic) for topic in ("one", "two", "three", "rest")] == [
        [("k", 101)],
        [("k", 2)],
        [("k", 3)],
        [("k", 4)],
    ]


def test_a_finished_split_takes_no_more_branches() -> None:
    split = StreamsBuilder().stream("in").split()
    split.default_branch()
    with pytest.raises(TopologyError, match="is complete: add branches before its default branch"):
        split.branch(lambda k, v: True)
    with pytest.raises(TopologyError, match="is complete: add branches before its default branch"):
        split.default_branch()


def test_two_branches_of_one_name_do_not_build() -> None:
    builder = StreamsBuilder()
    split = builder.stream("in").split()
    split.branch(lambda k, v: True, Branched.as_("x")).branch(lambda k, v: True, Branched.as_("x")).no_default_branch()
    with pytest.raises(TopologyError, match="already added"):
        builder.build()


def test_a_branch_of_a_stream_whose_key_changed_is_still_repartitioned() -> None:
    builder = StreamsBuilder()
    keyed = builder.stream("in").select_key(lambda k, v: v)
    keyed.split(name="s-").default_branch()["s-0"].group_by_key().count(materialized="n")
    assert list(builder.build().repartition_topics) == ["n-repartition"]
