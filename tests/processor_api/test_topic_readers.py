"""A topic has one reader: a source that names it, or one whose pattern matches it (semantics 152)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dsl import StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.stores.factory import Stores
from processor_api.topology.nodes import RepartitionTopic
from processor_api.topology.topology import Topology
from streams.kafka.topics.readers import matching_topics, reader_of
from streams.spark.backfill.stages import plan_stages
from streams.testing.driver import TopologyTestDriver

F = re.compile("f.*")
Adds = Callable[[StreamsBuilder], Any]


class Ignore(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def by_name(builder: StreamsBuilder) -> None:
    builder.stream("foo").to("a")


def by_names(builder: StreamsBuilder) -> None:
    builder.stream(["bar", "foo"]).to("a")


def as_table(builder: StreamsBuilder) -> None:
    builder.table("foo", materialized="foos")


def as_global_table(builder: StreamsBuilder) -> None:
    builder.global_table("foo")


def as_global_store(builder: StreamsBuilder) -> None:
    builder.add_global_store(Stores.key_value_store("foos", "string", "string"), "foo", None, Ignore)


def by_pattern(builder: StreamsBuilder) -> None:
    builder.stream(F).to("b")


NAMES: list[Adds] = [by_name, by_names, as_table, as_global_table, as_global_store]


@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize("pattern_first", [False, True])
def test_a_name_and_a_pattern_that_matches_it_do_not_build(named: Adds, pattern_first: bool) -> None:
    """Was that the test driver gave the records to one of them, and a worker to the other. Both lines are named."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    for add in (by_pattern, named) if pattern_first else (named, by_pattern):
        add(builder)
    with pytest.raises(TopologyError, match=r"topic 'foo'.* already read by source .*'f\.\*'|'f\.\*' .*") as caught:
        builder.build()
    lines = re.findall(r"test_topic_readers\.py:(\d+)", str(caught.value))
    assert len(set(lines)) == 2


def test_one_pattern_in_two_sources_does_not_build() -> None:
    """In the DSL streams of one pattern share a source; sources of a topology do not."""
    topology = Topology().add_source("one", F).add_source("other", re.compile("f.*", re.IGNORECASE))
    with pytest.raises(TopologyError, match=r"topics that match 'f\.\*' are already read by source 'one' at .*py:\d+"):
        topology.add_source("third", re.compile("f.*"))


def test_a_source_that_was_refused_reads_nothing() -> None:
    """Its topics are free for the source that takes its place."""
    topology = Topology()
    with pytest.raises(TopologyError, match="key_serde"):
        topology.add_source("wrong", "foo", key_serde=3)  # type: ignore[arg-type]
    topology.add_source("right", "foo")
    assert reader_of(topology, "foo") is topology.nodes["right"]


def test_patterns_do_not_match_what_the_application_makes() -> None:
    """Neither does a topic that is part of a name that a pattern matches."""
    topology = Topology().add_source("all", re.compile(".*")).add_repartition_topic(RepartitionTopic(name="again"))
    topology.add_sink("to-again", "again", "all").add_source("from-again", "again")
    assert reader_of(topology, "again") is None
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream(re.compile("a")).select_key(lambda key, value: value).group_by_key().count()
    builder.stream("aa").to("out")
    builder.build()


def two_patterns() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream(re.compile("fo.*")).to("a")
    builder.stream(F).to("b")
    return builder


BOTH = r"topic 'foo' matches the patterns of two sources: 'fo\.\*' of .* at .*py:\d+ and 'f\.\*' of .*made at .*py:\d+"


def test_two_patterns_run_until_a_topic_matches_both() -> None:
    """Was that the first one had its records in silence. Other topics are read as before."""
    with TopologyTestDriver(two_patterns()) as driver:
        driver.create_input_topic("fa").pipe_input("k", "v")
        assert driver.produced_topic_names() == {"b"}
        with pytest.raises(TopologyError, match=BOTH):
            driver.pipe_raw("foo", b"k", b"v", 0)
        with pytest.raises(TopologyError, match=BOTH):
            driver.create_input_topic("foo")
        assert driver.produced_topic_names() == {"b"}


def test_a_backfill_is_refused_alike() -> None:
    topology = two_patterns().build()
    settings = {"application.id": "app"}
    assert len(plan_stages(topology, settings, {"fa"}, {"fa": 1})) == 2
    with pytest.raises(TopologyError, match=BOTH):
        plan_stages(topology, settings, {"foo"}, {"foo": 1})


def test_who_may_match_is_told_without_an_error() -> None:
    """For the watch of new topics, which asks for each of them alone."""
    topology = two_patterns().build()
    sources = [topology.nodes[name] for name in ("KSTREAM-SOURCE-0000000000", "KSTREAM-SOURCE-0000000002")]
    assert [matching_topics(topology, node, {"foo": 1, "fa": 1}) for node in sources] == [("foo",), ("fa", "foo")]  # type: ignore[arg-type]
