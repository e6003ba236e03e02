"""The topology that a streams group is given: topics and settings of Kafka Streams, the same by every worker."""

from __future__ import annotations

import re
from typing import Any

import pytest

from processor_api.errors import TopologyError
from streams import JoinWindows, Repartitioned, StreamsBuilder
from streams.kafka.streams_group import GroupSubtopology
from streams.kafka.topics.application import Use, application_topics
from streams.kafka.topics.group_topology import group_subtopologies

SETTINGS: dict[str, Any] = {"application.id": "app", "bootstrap.servers": "localhost:9092"}


def parts_of(builder: StreamsBuilder, **settings: Any) -> tuple[GroupSubtopology, ...]:
    return group_subtopologies(builder.build(), {**SETTINGS, **settings}, -1)


def test_a_repartition_topic_and_a_changelog_have_their_settings_and_no_counts() -> None:
    """The counts follow from the topics read, and would make two topologies of one where these grow."""
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda key, value: value).count(materialized="counts").to_stream().to("out")
    first, second = parts_of(builder, **{"topic.min.insync.replicas": 2})
    assert (first.id, first.sources, first.repartition_sinks) == (0, ("in",), ("app-counts-repartition",))
    (repartition,), (changelog,) = second.repartition_sources, second.changelogs
    assert (repartition.name, changelog.name) == ("app-counts-repartition", "app-counts-changelog")
    assert (repartition.partitions, repartition.replication_factor, changelog.partitions) == (0, 0, 0)
    assert dict(repartition.configs)["cleanup.policy"] == "delete"
    assert dict(changelog.configs) == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "2",
    }
    assert second.sources == ()


def test_a_number_of_partitions_that_the_topology_fixes_is_given() -> None:
    builder = StreamsBuilder()
    builder.stream("in").repartition(Repartitioned(number_of_partitions=6)).to("out")
    _, second = parts_of(builder)
    assert [topic.partitions for topic in second.repartition_sources] == [6]


def test_topics_that_are_joined_go_together() -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("b-left"), builder.stream("a-right")
    left.join(
        right,
        lambda one, other: one,
        windows=JoinWindows.of_time_difference_with_no_grace(1000),
    ).to("out")
    (part,) = parts_of(builder)
    assert part.sources == ("a-right", "b-left")
    assert part.copartitions == (("a-right", "b-left"),)


def test_the_control_topic_stands_for_the_topics_of_a_pattern() -> None:
    """Brokers refuse patterns, and a topology that changes: with it nothing of the topology depends on which topics
    there are."""
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*")).merge(builder.stream("named")).to("out")
    builder.stream("other").to("out")
    first, second = parts_of(builder)
    assert first.sources == ("app-0-tasks", "named")
    assert second.sources == ("other",)


def test_a_repartition_topic_that_is_joined_with_a_pattern_needs_a_number() -> None:
    """The group would make it as wide as the topics upstream, and not as those that the pattern matches."""

    def joined(partitions: int | None) -> StreamsBuilder:
        builder = StreamsBuilder()
        right = builder.stream("named").repartition(Repartitioned(number_of_partitions=partitions, name="again"))
        left = builder.stream(re.compile("in-.*"))
        windows = JoinWindows.of_time_difference_with_no_grace(1000)
        left.join(right, lambda one, other: one, windows=windows).to("out")
        return builder

    with pytest.raises(TopologyError, match=r"joined with the repartition topic 'again-repartition': .* a number of"):
        parts_of(joined(None))
    assert any("app-1-tasks" in part.sources or "app-0-tasks" in part.sources for part in parts_of(joined(2)))


def test_an_application_has_control_topics_only_where_members_share_tasks_by_them() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    topology, streams = builder.build(), {**SETTINGS, "group.protocol": "streams"}

    def control(settings: dict[str, Any], *existing: str) -> list[str]:
        counts = dict.fromkeys(("in", "out", *existing), 1)
        return [one.name for one in application_topics(topology, settings, counts) if Use.TASKS in one.uses]

    assert control(SETTINGS) == ["app-0-tasks"]
    assert control(streams) == []
    assert control(streams, "app-0-tasks") == ["app-0-tasks"]
    builder.stream(re.compile("more-.*")).to("out")
    topology = builder.build()
    assert control(streams) == ["app-1-tasks"]
