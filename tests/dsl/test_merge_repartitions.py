"""One repartition topic after a key change in place of several; what comes out stays the same."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl import Grouped, JoinWindows, KStream, StreamsBuilder
from dsl_support.fake_task import FakeTask
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology

MERGE = {"topology.optimization": "merge.repartition.topics"}

Text = KStream[str, str]


def two_counts(stream: Text) -> None:
    keyed = stream.select_key(lambda k, v: v)
    keyed.group_by_key().count(materialized="n").to_stream().to("o1")
    keyed.group_by_key().count(materialized="m").to_stream().to("o2")


def count_below_filters(stream: Text) -> None:
    keyed = stream.select_key(lambda k, v: v)
    keyed.filter(lambda k, v: v != "x").group_by_key().count(materialized="n").to_stream().to("o1")
    keyed.filter(lambda k, v: v != "y").group_by_key().count(materialized="m").to_stream().to("o2")


def shared_filter(stream: Text) -> None:
    """Java cannot build this one."""
    keyed = stream.select_key(lambda k, v: v).filter(lambda k, v: v != "x")
    keyed.group_by_key().count(materialized="n").to_stream().to("o1")
    keyed.filter(lambda k, v: v != "y").group_by_key().count(materialized="m").to_stream().to("o2")


def value_changed_between(stream: Text) -> None:
    keyed = stream.select_key(lambda k, v: v)
    keyed.group_by_key().count(materialized="n").to_stream().to("o1")
    keyed.map_values(str.upper).group_by_key().count(materialized="m").to_stream().to("o2")


def below_a_merge(stream: Text) -> None:
    one, other = stream.select_key(lambda k, v: v), stream.select_key(lambda k, v: v + v)
    merged = one.merge(other)
    merged.group_by_key().count(materialized="n").to_stream().to("o1")
    merged.group_by_key().count(materialized="m").to_stream().to("o2")


def one_branch_goes_elsewhere(stream: Text) -> None:
    keyed = stream.select_key(lambda k, v: v)
    keyed.to("o1")
    keyed.group_by_key().count(materialized="n").to_stream().to("o2")


def asked_for(stream: Text) -> None:
    keyed = stream.select_key(lambda k, v: v).repartition()
    keyed.group_by_key().count(materialized="n").to_stream().to("o1")


BUILDS: dict[Callable[[Text], None], list[str]] = {
    two_counts: ["n-repartition"],
    count_below_filters: ["n-repartition"],
    shared_filter: ["n-repartition"],
    value_changed_between: ["m-repartition", "n-repartition"],
    below_a_merge: ["n-repartition"],
    one_branch_goes_elsewhere: ["n-repartition"],
    asked_for: ["KSTREAM-REPARTITION-0000000002-repartition"],
}


def topology(build: Callable[[Text], None], config: Any = None) -> Topology:
    builder = StreamsBuilder()
    build(builder.stream("in"))
    return builder.build(config)


@pytest.mark.parametrize("build", BUILDS)
def test_which_topics_are_left(build: Callable[[Text], None]) -> None:
    """Semantics 107: not across a change of values, and not those the user asked for."""
    assert sorted(topology(build, MERGE).repartition_topics) == BUILDS[build]


@pytest.mark.parametrize("build", BUILDS)
@given(records=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=8))
def test_what_comes_out_stays_the_same(build: Callable[[Text], None], records: list[tuple[str, str]]) -> None:
    tasks = [FakeTask(topology(build)), FakeTask(topology(build, MERGE))]
    for task in tasks:
        for key, value in records:
            task.pipe("in", key, value)
    for topic in ("o1", "o2"):
        plain, merged = (task.values(topic) for task in tasks)
        assert sorted(plain) == sorted(merged)


def below_a_join(stream: Text, *, left_changes_value: bool) -> None:
    """Both sides come from one key change; the result is repartitioned again, since a processor may change its keys."""
    keyed = stream.select_key(lambda k, v: v)
    sides = keyed.map_values(str.upper), keyed
    left, right = sides if left_changes_value else sides[::-1]
    joined = left.join(right, lambda x, y: x + y, windows=JoinWindows.of_time_difference_with_no_grace(5))
    joined.process(Passing, name="own").to_table(name="table").to_stream().to("o1")


class Passing(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_below_a_join_its_first_side_decides(caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka Streams, which also puts the topic above a processor that may change keys: that is told."""
    apart = topology(lambda s: below_a_join(s, left_changes_value=True), MERGE)
    assert sorted(apart.repartition_topics) == [
        "KSTREAM-KEY-SELECT-0000000001-repartition",
        "KSTREAM-MAPVALUES-0000000002-repartition",
        "table-repartition",
    ]
    assert not caplog.records
    merged = topology(lambda s: below_a_join(s, left_changes_value=False), MERGE)
    assert sorted(merged.repartition_topics) == [
        "KSTREAM-KEY-SELECT-0000000001-repartition",
        "KSTREAM-MAPVALUES-0000000002-repartition",
    ]
    (warning,) = caplog.records
    assert "call repartition() below those that change keys" in warning.getMessage()
    assert vars(warning)["processors"] == ["own"]


def test_without_the_setting_every_aggregation_has_its_own_topic() -> None:
    assert sorted(topology(two_counts).repartition_topics) == ["m-repartition", "n-repartition"]
    assert sorted(topology(two_counts, {"topology.optimization": "none"}).repartition_topics) == [
        "m-repartition",
        "n-repartition",
    ]


def test_the_topic_takes_the_first_serdes_that_are_known() -> None:
    builder = StreamsBuilder()
    keyed = builder.stream("in").select_key(lambda k, v: v)
    keyed.group_by_key().count(materialized="n")
    with_serdes: Grouped[Any, Any] = Grouped(key_serde=Serdes.LONG, value_serde=Serdes.DOUBLE)
    keyed.group_by_key(with_serdes).count(materialized="m")
    nodes: Any = builder.build(MERGE).nodes
    source, sink = nodes["n-repartition-source"], nodes["n-repartition-sink"]
    assert (source.key_serde, source.value_serde) == (sink.key_serde, sink.value_serde) == (Serdes.LONG, Serdes.DOUBLE)


def test_a_plan_without_key_changes_is_left_as_it_is() -> None:
    assert topology(lambda s: s.to("out"), MERGE).describe() == topology(lambda s: s.to("out")).describe()
