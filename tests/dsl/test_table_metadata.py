"""Which tables get a store, and who sends old values; the order of the calls decides, as in Kafka Streams."""

from collections.abc import Callable
from typing import Any

import pytest

from dsl import KTable, Materialized, StreamsBuilder
from processor_api.topology.nodes import ProcessorNode

Table = KTable[str, str]


def keep(key: str, value: str) -> bool:
    return True


def same(value: str) -> str:
    return value


def pair(key: str, value: str) -> tuple[str, str]:
    return key, value


def group(table: Table) -> None:
    """Asks for old values, whatever it takes."""
    table.group_by(pair).count(name="grouped")


def metadata_of(build: Callable[[StreamsBuilder], None]) -> dict[str, tuple[bool, bool]]:
    """For each operator of a table in the stream of calls: whether it has a store, and whether it sends old values."""
    builder = StreamsBuilder()
    build(builder)
    return {
        node.name: (node.supplier.store is not None, node.supplier.old_values)
        for node in builder.build().nodes.values()
        if isinstance(node, ProcessorNode) and hasattr(node.supplier, "old_values") and node.name != "grouped"
    }


def on_source(build: Callable[[Table], Any], materialized: str | None = None) -> dict[str, tuple[bool, bool]]:
    found = metadata_of(lambda builder: build(builder.table("in", materialized=materialized)))
    return {("source" if name.startswith("KTABLE-SOURCE") else name): fact for name, fact in found.items()}


@pytest.mark.parametrize(
    ("build", "materialized", "expected"),
    [
        (lambda t: t.to_stream(), None, {"source": (False, False)}),
        (lambda t: t.to_stream(), "t", {"source": (True, False)}),
        (group, None, {"source": (True, True)}),
        (group, "t", {"source": (True, True)}),
        (lambda t: t.filter(keep, name="f"), None, {"source": (False, False), "f": (False, False)}),
        (lambda t: t.filter(keep, name="f"), "t", {"source": (True, True), "f": (False, True)}),
        (lambda t: t.map_values(same, name="m"), "t", {"source": (True, False), "m": (False, False)}),
        (
            lambda t: t.map_values(same, name="m").filter(keep, name="f"),
            "t",
            {"source": (True, True), "m": (False, True), "f": (False, True)},
        ),
        (
            lambda t: group(t.map_values(same, name="m").filter(keep, name="f")),
            None,
            {"source": (True, True), "m": (False, True), "f": (False, True)},
        ),
        (
            lambda t: t.filter(keep, name="f", materialized="s"),
            None,
            {"source": (False, False), "f": (True, False)},
        ),
        (
            lambda t: group(t.map_values(same, name="m", materialized="s")),
            None,
            {"source": (False, False), "m": (True, True)},
        ),
        (
            lambda t: group(t.map_values(same, name="m", materialized=Materialized(key_serde=None))),
            None,
            {"source": (True, True), "m": (False, True)},
        ),
    ],
)
def test_who_has_a_store_and_who_sends_old_values(
    build: Callable[[Table], Any], materialized: str | None, expected: dict[str, tuple[bool, bool]]
) -> None:
    """Semantics 30, 109: a filter asks for what is there, a grouping forces it up to the nearest possible store."""
    assert on_source(build, materialized) == expected


def test_a_filter_before_the_grouping_does_not_send_old_values_one_after_it_does() -> None:
    def before(table: Table) -> None:
        table.filter(keep, name="f")
        group(table)

    def after(table: Table) -> None:
        group(table)
        table.filter(keep, name="f")

    assert on_source(before) == {"source": (True, True), "f": (False, False)}
    assert on_source(after) == {"source": (True, True), "f": (False, True)}


def test_an_aggregation_always_has_a_store_and_can_always_send_old_values() -> None:
    def build(builder: StreamsBuilder) -> None:
        counted = builder.stream("in").group_by_key().count(name="c")
        counted.filter(lambda k, v: True, name="f")
        plain = builder.stream("in").group_by_key().count(name="d")
        plain.to_stream()

    assert metadata_of(build) == {"c": (True, True), "f": (False, True), "d": (True, False)}


def test_a_stream_that_became_a_table_is_like_a_source() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in").to_table(name="plain")
        builder.stream("in").to_table(name="named", materialized="s")
        group(builder.stream("in").to_table(name="asked"))

    assert metadata_of(build) == {"plain": (False, False), "named": (True, False), "asked": (True, True)}
