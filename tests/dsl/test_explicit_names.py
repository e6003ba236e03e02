"""Generated names of stores and internal topics are refused where the application asks for it (KIP-1111)."""

from collections.abc import Callable
from typing import Any

import pytest

from dsl import Grouped, KStream, Repartitioned, StreamsBuilder
from processor_api.errors import TopologyError

CONFIG = {"ensure.explicit.internal.resource.naming": True}

Build = Callable[[StreamsBuilder, KStream[str, str]], Any]


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda b, s: s.group_by_key().count(), "KSTREAM-AGGREGATE-STATE-STORE-0000000001"),
        (lambda b, s: s.group_by_key().count(name="c"), "KSTREAM-AGGREGATE-STATE-STORE-0000000001"),
        (lambda b, s: s.group_by(lambda k, v: v, "g").count(), "KSTREAM-AGGREGATE-STATE-STORE-0000000002"),
        (lambda b, s: s.repartition(), "KSTREAM-REPARTITION-0000000001-repartition"),
        (lambda b, s: s.map(lambda k, v: (v, k)).to_table(), "KSTREAM-TOTABLE-0000000002-repartition"),
        (
            lambda b, s: b.table("t").group_by(lambda k, v: (v, k), "g").count(materialized="n"),
            "t-STATE-STORE-0000000001",
        ),
    ],
)
def test_a_generated_name_is_refused(build: Build, named: str) -> None:
    builder = StreamsBuilder()
    build(builder, builder.stream("in"))
    with pytest.raises(TopologyError, match=named):
        builder.build(CONFIG)
    assert builder.build().nodes


@pytest.mark.parametrize(
    "build",
    [
        lambda b, s: s.group_by_key().count(materialized="n"),
        lambda b, s: s.group_by(lambda k, v: v).count(materialized="n"),
        lambda b, s: s.group_by(lambda k, v: v, Grouped.as_("g")).count(materialized="n"),
        lambda b, s: s.repartition(Repartitioned.as_("r")),
        lambda b, s: s.map(lambda k, v: (v, k)).to_table(name="t"),
        lambda b, s: b.table("t").filter(lambda k, v: True).to_stream().map_values(lambda v: v).to("out"),
    ],
)
def test_names_of_nodes_alone_may_be_generated(build: Build) -> None:
    """A table that needs no store has no name to give."""
    builder = StreamsBuilder()
    build(builder, builder.stream("in"))
    assert builder.build(CONFIG).nodes
