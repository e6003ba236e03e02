"""Names, settings and partition counts of internal topics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from processor_api.errors import MissingTopicError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB, StoreSupplier
from processor_api.topology.nodes import RepartitionTopic
from processor_api.topology.topology import Topology
from streams.kafka.topics.internal import (
    TopicRole,
    check_existing_topics,
    full_name,
    internal_topic_counts,
    internal_topics,
    repartition_counts,
    task_counts,
    topic_prefix,
)


class Ignore(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def with_store(builder: StoreBuilder[Any, Any]) -> Topology:
    topology = Topology().add_source("source", "left").add_processor("user", Ignore, "source")
    topology.add_state_store(builder, "user")
    return topology


def store(kind: str, engine: str = ROCKSDB, **parameters: Any) -> StoreBuilder[Any, Any]:
    return StoreBuilder(supplier=StoreSupplier(name="store", kind=kind, engine=engine, parameters=parameters))


def repartitioned(
    *chain: tuple[str, str, int | None], sources: Mapping[str, tuple[str, ...]] | None = None
) -> Topology:
    """A topology of links ``(from node, repartition topic, fixed count)``; the reader of topic "x" is named "x"."""
    topology = Topology()
    for name, topics in (sources or {"in": ("in",)}).items():
        topology.add_source(name, *topics)
    for parent, topic, partitions in chain:
        topology.add_repartition_topic(RepartitionTopic(name=topic, partitions=partitions))
        topology.add_sink(f"{parent}-to-{topic}", topic, parent)
        topology.add_source(topic, topic)
    return topology


def configs(builder: StoreBuilder[Any, Any], **config: Any) -> Mapping[str, str]:
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    (topic,) = internal_topics(with_store(builder), {"application.id": "app", **dotted}).values()
    return topic.configs


# ------------------------------------------------------------ names, settings


def test_a_changelog_is_named_after_application_and_store() -> None:
    """``<application.id>-<store>-changelog``, for the subtopology that uses the store."""
    topics = internal_topics(with_store(store("key-value")), {"application.id": "My.App_1"})
    assert list(topics) == ["My.App_1-store-changelog"]
    topic = topics["My.App_1-store-changelog"]
    assert (topic.name, topic.role, topic.subtopology, topic.store, topic.partitions) == (
        "My.App_1-store-changelog", TopicRole.CHANGELOG, 0, "store", None,
    )  # fmt: skip


def test_a_repartition_topic_belongs_to_the_subtopology_that_reads_it() -> None:
    """``<application.id>-<name>``, with the count that the topology fixes."""
    topics = internal_topics(repartitioned(("in", "x-repartition", 7)), {"application.id": "app"})
    topic = topics["app-x-repartition"]
    assert (topic.role, topic.subtopology, topic.store, topic.partitions) == (TopicRole.REPARTITION, 1, None, 7)
    assert topic.configs == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
    }


def test_only_internal_topics_have_the_prefix() -> None:
    """A user's topic is named on the cluster as in the topology."""
    topology = repartitioned(("in", "x-repartition", None))
    prefix = topic_prefix({"application.id": "app"})
    assert full_name(topology, prefix, "x-repartition") == "app-x-repartition"
    assert full_name(topology, prefix, "in") == "in"


def test_a_store_without_logging_or_users_has_no_changelog() -> None:
    """No changelog when logging is off, nor for a store that no processor uses."""
    assert internal_topics(with_store(store("key-value").with_logging_disabled()), {"application.id": "app"}) == {}
    unused = Topology().add_source("source", "left").add_state_store(store("key-value"))
    assert internal_topics(unused, {"application.id": "app"}) == {}


def test_a_source_topic_serves_as_changelog() -> None:
    """It keeps the user's name and is not created (semantics 108)."""
    topology = with_store(store("key-value")).use_source_as_changelog("store", "left")
    (topic,) = internal_topics(topology, {"application.id": "app"}).values()
    assert (topic.name, topic.role, topic.store, dict(topic.configs)) == (
        "left", TopicRole.SOURCE_AS_CHANGELOG, "store", {},
    )  # fmt: skip
    assert internal_topic_counts(topology, {"application.id": "app"}, {"left": 3}) == {}


@pytest.mark.parametrize(
    ("builder", "policy", "other"),
    [
        (store("key-value"), "compact", {}),
        (store("timestamped-key-value", MEMORY), "compact", {}),
        (store("versioned", history_retention_ms=60_000), "compact", {"min.compaction.lag.ms": "86460000"}),
        (store("versioned", history_retention_ms=0), "compact", {"min.compaction.lag.ms": "86400000"}),
        (store("window", retention_ms=60_000), "compact,delete", {"retention.ms": "86460000"}),
        (store("window", retention_ms=60_000, retain_duplicates=True), "delete", {"retention.ms": "86460000"}),
        (store("session", MEMORY, retention_ms=3_600_000), "compact,delete", {"retention.ms": "90000000"}),
        (store("window", retention_ms=(1 << 63) - 1), "compact,delete", {"retention.ms": "9223372036854775807"}),
    ],
)
def test_settings_of_a_changelog_follow_from_the_kind_of_store(
    builder: StoreBuilder[Any, Any], policy: str, other: dict[str, str]
) -> None:
    """Semantics 133: compacted; windows and sessions expire a day after the store; versions are not compacted away."""
    assert configs(builder) == {"message.timestamp.type": "CreateTime", "cleanup.policy": policy, **other}


def test_the_additional_retention_is_a_setting() -> None:
    """It counts for windows, not for versions."""
    setting = {"windowstore.changelog.additional.retention.ms": "5"}
    assert configs(store("window", retention_ms=60_000), **setting)["retention.ms"] == "60005"
    assert configs(store("versioned", history_retention_ms=60_000), **setting)["min.compaction.lag.ms"] == "86460000"


GLOBAL = {"topic.cleanup.policy": "delete", "topic.min.insync.replicas": 2, "topic.retention.ms": 77,
          "topic.segment.bytes": 12345, "topic.preallocate": True}  # fmt: skip
GLOBAL_AS_SET = {"message.timestamp.type": "CreateTime", "cleanup.policy": "delete", "min.insync.replicas": "2",
                 "segment.bytes": "12345", "preallocate": "true"}  # fmt: skip


def test_topic_settings_override_the_built_in_ones() -> None:
    """``topic.*`` goes over cleanup policy and segment size, not over the retention that a store needs (3.13)."""
    assert configs(store("key-value"), **GLOBAL) == {**GLOBAL_AS_SET, "retention.ms": "77"}
    assert configs(store("window", retention_ms=60_000), **GLOBAL) == {**GLOBAL_AS_SET, "retention.ms": "86460000"}
    assert configs(store("versioned", history_retention_ms=60_000), **GLOBAL) == {
        **GLOBAL_AS_SET, "retention.ms": "77", "min.compaction.lag.ms": "86460000",
    }  # fmt: skip
    (topic,) = internal_topics(repartitioned(("in", "x", None)), {"application.id": "app", **GLOBAL}).values()
    assert topic.configs == {**GLOBAL_AS_SET, "retention.ms": "77"}


def test_settings_given_with_the_store_override_all() -> None:
    """``with_logging_enabled(...)`` has the last word."""
    own = {"retention.ms": "99", "cleanup.policy": "delete", "segment.bytes": "1000"}
    window = store("window", retention_ms=60_000).with_logging_enabled(own)
    assert configs(window, **GLOBAL) == {**GLOBAL_AS_SET, **own}
    versioned = store("versioned", history_retention_ms=60_000).with_logging_enabled({"min.compaction.lag.ms": "5"})
    assert configs(versioned)["min.compaction.lag.ms"] == "5"
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("store"))
    assert configs(plain.with_logging_enabled({"message.timestamp.type": "LogAppendTime"})) == {
        "message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact",
    }  # fmt: skip


# ----------------------------------------------------------- partition counts


def test_a_repartition_topic_is_as_wide_as_the_widest_topic_upstream() -> None:
    """Semantics 103, over all topics that the writing subtopologies read."""
    topology = repartitioned(("in", "x", None), sources={"in": ("a", "b")})
    assert repartition_counts(topology, {"a": 2, "b": 5, "unrelated": 99}) == {"x": 5}
    topology.add_source("other", "c").add_sink("other-to-x", "x", "other")
    assert repartition_counts(topology, {"a": 2, "b": 5, "c": 8}) == {"x": 8}


def test_a_fixed_count_holds_and_passes_on() -> None:
    """``number_of_partitions`` given by the user wins, and counts for what is downstream."""
    assert repartition_counts(repartitioned(("in", "x", 7), ("x", "y", None)), {"in": 2}) == {"x": 7, "y": 7}


def test_counts_go_through_chains_whatever_their_order() -> None:
    """A fixed point over chained repartitions: no count is taken from a part of what is upstream."""
    topology = Topology().add_source("a", "a")
    for name in ("x", "y", "z"):
        topology.add_repartition_topic(RepartitionTopic(name=name))
    topology.add_source("z", "z")
    topology.add_source("y", "y").add_processor("p", Ignore, "a", "y").add_sink("to-z", "z", "p")
    topology.add_source("x", "x").add_sink("to-y", "y", "x")
    topology.add_source("b", "b").add_sink("to-x", "x", "b")
    assert repartition_counts(topology, {"a": 1, "b": 6}) == {"x": 6, "y": 6, "z": 6}


def test_a_loop_of_repartition_topics_is_as_wide_as_what_enters_it() -> None:
    """A subtopology may read what it writes."""
    topology = Topology().add_source("in", "in").add_repartition_topic(RepartitionTopic(name="loop"))
    topology.add_source("again", "loop").add_processor("p", Ignore, "in", "again").add_sink("to-loop", "loop", "p")
    assert repartition_counts(topology, {"in": 4}) == {"loop": 4}


def test_copartitioned_repartition_topics_take_the_largest_count() -> None:
    """When all topics of the group are repartition topics."""
    topology = repartitioned(("left", "x", None), ("right", "y", None), sources={"left": ("l",), "right": ("r",)})
    topology.copartition(["x", "y"])
    assert repartition_counts(topology, {"l": 3, "r": 8}) == {"x": 8, "y": 8}


def test_copartitioned_repartition_topics_take_the_count_of_existing_topics() -> None:
    """An existing topic in the group decides, also when it is narrower."""
    topology = repartitioned(("left", "x", None), sources={"left": ("l",), "table": ("t",)})
    topology.copartition(["x", "table"])
    assert repartition_counts(topology, {"l": 8, "t": 3}) == {"x": 3}


def test_a_fixed_count_decides_in_its_group() -> None:
    """One fixed count among repartition topics holds for all of them."""
    topology = repartitioned(("left", "x", 2), ("right", "y", None), sources={"left": ("l",), "right": ("r",)})
    topology.copartition(["x", "y"])
    assert repartition_counts(topology, {"l": 3, "r": 8}) == {"x": 2, "y": 2}


@pytest.mark.parametrize(
    ("fixed", "group", "message"),
    [
        ((None, None), ["left", "right"], "'l' has 3, 'r' has 8"),
        ((2, 4), ["x", "y"], "'x' has 2, 'y' has 4"),
        ((2, None), ["x", "right"], "'r' has 8, 'x' has 2"),
    ],
)
def test_topics_that_cannot_be_copartitioned_are_named(
    fixed: tuple[int | None, int | None], group: list[str], message: str
) -> None:
    """The error names the topics and their counts."""
    topology = repartitioned(
        ("left", "x", fixed[0]), ("right", "y", fixed[1]), sources={"left": ("l",), "right": ("r",)}
    )
    topology.copartition(group)
    with pytest.raises(TopologyError, match=message):
        repartition_counts(topology, {"l": 3, "r": 8})


def test_missing_source_topics_are_named() -> None:
    """Semantics 120: nothing starts without its source topics."""
    topology = repartitioned(("in", "x", None), sources={"in": ("a", "b", "c")})
    with pytest.raises(MissingTopicError, match="'a', 'c'"):
        repartition_counts(topology, {"b": 1})
    with pytest.raises(MissingTopicError, match="'a'") as caught:
        task_counts(topology, {"b": 1, "c": 1})
    assert caught.value.topic == "a"


def test_a_pattern_reads_every_matching_topic() -> None:
    """The whole name has to match."""
    topology = Topology().add_source("p", re.compile("in-.")).add_source("named", "other")
    topology.add_repartition_topic(RepartitionTopic(name="x")).add_sink("to-x", "x", "p").add_source("x", "x")
    assert repartition_counts(topology, {"in-1": 3, "other": 9, "in-10": 9, "my-in-1": 9}) == {"x": 3}
    assert task_counts(topology, {"in-1": 3, "other": 9}) == {0: 3, 1: 9, 2: 3}


def test_a_topic_that_two_patterns_match_is_refused() -> None:
    """Semantics 152."""
    topology = Topology().add_source("p", re.compile("in-.")).add_source("q", re.compile(".*-2"))
    assert task_counts(topology, {"in-1": 3, "out-2": 2}) == {0: 3, 1: 2}
    with pytest.raises(TopologyError, match="topic 'in-2' matches the patterns of two sources"):
        task_counts(topology, {"in-1": 3, "in-2": 2})


def test_a_pattern_that_matches_nothing_gives_no_count() -> None:
    """The error names the repartition topics that stay open."""
    topology = repartitioned().add_source("p", re.compile("in-.")).add_repartition_topic(RepartitionTopic(name="x"))
    topology.add_sink("to-x", "x", "p").add_source("x", "x")
    with pytest.raises(TopologyError, match="'x'"):
        repartition_counts(topology, {"in": 1})


def test_a_subtopology_has_a_task_for_each_partition_of_its_widest_topic() -> None:
    """Semantics 105; a changelog has a partition for each task."""
    topology = repartitioned(("in", "x", 7), sources={"in": ("a", "b")})
    topology.add_processor("user", Ignore, "x").add_state_store(store("key-value"), "user")
    assert task_counts(topology, {"a": 2, "b": 5}) == {0: 5, 1: 7}
    assert internal_topic_counts(topology, {"application.id": "app"}, {"a": 2, "b": 5}) == {
        "app-x": 7, "app-store-changelog": 7,
    }  # fmt: skip


# ------------------------------------------------------------ existing topics


def test_topics_that_do_not_exist_are_to_be_created() -> None:
    """Those that exist with the right count are left alone."""
    assert check_existing_topics({"a": 1, "b": 2}, {"b": 2, "other": 3}) == ("a",)


def test_existing_topics_of_another_width_are_all_named_at_once() -> None:
    """One error lists every wrong topic, with what it has and what it needs."""
    with pytest.raises(TopologyError, match="'a' has 3, but needs 1; 'c' has 1, but needs 4") as caught:
        check_existing_topics({"c": 4, "b": 2, "a": 1}, {"a": 3, "b": 2, "c": 1})
    assert "reset the application" in str(caught.value)
