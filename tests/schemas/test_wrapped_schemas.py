"""The schemas of what built-in serdes wrap, in the stores and repartition topics of each operator that wraps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from inspect import isabstract
from typing import Any

import pytest
from pydantic import BaseModel

import streams
from dsl.change import ChangeSerde
from dsl.joins.stores import SideValueSerde, TimedSideKeySerde
from dsl.plan.models import DefaultWithModels
from dsl.processors.joins.foreign_key import AnswerSerde
from dsl.processors.record_id_serde import RecordIdSerde
from order_forms import First, WithDefault, WithoutDefault
from processor_api.serde import Serde, Serdes, WrappingSerde
from processor_api.topology.nodes import SourceNode
from processor_api.topology.topology import Topology
from processor_api.user_code.migrating_serde import MigratingSerde, migrating
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde
from streams import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from streams.schemas.store_schemas import Fit, compare, kept_by
from streams.serdes import list_serde, pydantic_serde, serde_of
from streams.serdes.lists import ListSerde

SAME, COMPATIBLE, INCOMPATIBLE = Fit.SAME, Fit.COMPATIBLE, Fit.INCOMPATIBLE
MINUTE = timedelta(minutes=1)


WRAPPERS: list[Callable[[Serde[Any]], Serde[Any]]] = [
    list_serde, ChangeSerde, TimedSideKeySerde, RecordIdSerde, AnswerSerde, SessionWindowedSerde,
    lambda inner: TimeWindowedSerde(inner, 10),
    lambda inner: TimeWindowedSerde(inner, 10, changelog=True),
    lambda inner: SideValueSerde(inner, Serdes.LONG),
    lambda inner: SideValueSerde(Serdes.LONG, inner),
    lambda inner: list_serde(list_serde(inner)),
    lambda inner: ListSerde(inner, fixed_size=4),
]  # fmt: skip


def fit_of(former: Serde[Any], now: Serde[Any], part: int = 1) -> tuple[Fit, tuple[str, ...]]:
    """Returns how values that one serde has written fit another one, or keys."""
    other = Serdes.LONG
    kept = kept_by(*((former, other) if part == 0 else (other, former)))
    found = compare(kept, *((now, other) if part == 0 else (other, now)))[part]
    return found.fit, found.problems


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_what_is_wrapped_is_compared(wrap: Callable[[Serde[Any]], Serde[Any]]) -> None:
    order, default, without = (wrap(pydantic_serde(model)) for model in (First, WithDefault, WithoutDefault))
    assert fit_of(order, wrap(pydantic_serde(First))) == (SAME, ())
    assert fit_of(order, default) == (COMPATIBLE, ())
    fit, problems = fit_of(order, without)
    assert fit is INCOMPATIBLE
    assert len(problems) == 1
    assert "field 'zone' is new and does not have a default" in problems[0]
    assert fit_of(order, wrap(Serdes.STRING))[0] is INCOMPATIBLE
    assert fit_of(wrap(Serdes.STRING), wrap(Serdes.STRING))[0] is SAME


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_keys_inside_keep_their_bytes(wrap: Callable[[Serde[Any]], Serde[Any]]) -> None:
    order, default = wrap(pydantic_serde(First)), wrap(pydantic_serde(WithDefault))
    assert fit_of(order, order, 0)[0] is SAME
    assert fit_of(order, default, 0)[0] is INCOMPATIBLE


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_another_form_around_is_refused(wrap: Callable[[Serde[Any]], Serde[Any]]) -> None:
    wrapped, plain = wrap(pydantic_serde(First)), pydantic_serde(First)
    assert fit_of(wrapped, plain)[0] is INCOMPATIBLE
    assert fit_of(plain, wrapped)[0] is INCOMPATIBLE
    forms = [fit_of(wrapped, other(pydantic_serde(First)))[0] for other in WRAPPERS]
    assert forms.count(SAME) == 1
    assert forms.count(INCOMPATIBLE) == len(WRAPPERS) - 1


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_nothing_is_known_of_what_wraps_something_unknown(wrap: Callable[[Serde[Any]], Serde[Any]]) -> None:
    own = serde_of(bytes, bytes)
    assert wrap(own).schema is None
    assert fit_of(wrap(pydantic_serde(First)), wrap(own))[0] is Fit.UNKNOWN


def test_any_json_tells_nothing() -> None:
    assert fit_of(list_serde("json"), list_serde(pydantic_serde(First)))[0] is Fit.UNKNOWN


def test_each_built_in_wrapper_has_a_form() -> None:
    """But the default of a builder, which is replaced when the topology is built."""

    def below(kind: type) -> set[type]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    own = {
        one
        for one in below(WrappingSerde) - below(MigratingSerde) - {WrappingSerde, DefaultWithModels}
        if not isabstract(one)
    }
    assert own <= {type(wrap(Serdes.LONG)) for wrap in WRAPPERS}


def both(one: Any, other: Any) -> Any:
    return one


def windowed(builder: StreamsBuilder, model: type[BaseModel], windows: Any, **how: Any) -> Any:
    orders = builder.stream("in", Consumed(key_serde="string", value_serde=model)).group_by_key()
    kept: Materialized[Any, Any] = Materialized(name="counts", key_serde="string", value_serde=model, **how)
    if isinstance(windows, SessionWindows):
        merger = {"session_merger": lambda key, one, two: one}
        return orders.windowed_by(windows).aggregate(lambda: None, lambda *a: a[1], materialized=kept, **merger)
    return orders.windowed_by(windows).aggregate(lambda: None, lambda *a: a[1], materialized=kept)


def of_suppressed_windows(builder: StreamsBuilder, model: type[BaseModel], **how: Any) -> None:
    table = windowed(builder, model, TimeWindows.of_size_with_no_grace(MINUTE), **how)
    table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("last"))


def of_suppressed_sessions(builder: StreamsBuilder, model: type[BaseModel], **how: Any) -> None:
    table = windowed(builder, model, SessionWindows.of_inactivity_gap_with_no_grace(MINUTE), **how)
    table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("last"))


def of_outer_join(builder: StreamsBuilder, model: type[BaseModel]) -> None:
    left = builder.stream("left", Consumed(key_serde="string", value_serde=model))
    right = builder.stream("right", Consumed(key_serde="string", value_serde="long"))
    windows = JoinWindows.of_time_difference_with_no_grace(MINUTE)
    left.outer_join(right, both, windows=windows, joined=StreamJoined(name="j", store_name="j"))


def of_grace_join(builder: StreamsBuilder, model: type[BaseModel]) -> None:
    stream = builder.stream("in", Consumed(key_serde="string", value_serde=model))
    kept = streams.Stores.persistent_versioned_key_value_store("table", timedelta(hours=1))
    table = builder.table(
        "table", Consumed(key_serde="string", value_serde=model), materialized=Materialized(supplier=kept)
    )
    stream.join(table, both, joined=Joined(name="j", grace=MINUTE))


def of_deduplication(builder: StreamsBuilder, model: type[BaseModel]) -> None:
    stream = builder.stream("in", Consumed(key_serde=model, value_serde="long"))
    stream.deduplicate(within=MINUTE, id_selector=lambda key, value: str(value), materialized="kept")


def of_table_aggregation(builder: StreamsBuilder, model: type[BaseModel]) -> None:
    table = builder.table("in", Consumed(key_serde="string", value_serde=model), materialized="rows")
    grouped = table.group_by(lambda key, value: (key, value), Grouped(name="by", key_serde="string", value_serde=model))
    grouped.aggregate(
        list, lambda key, one, total: total, lambda key, one, total: total,
        materialized=Materialized(name="lists", value_serde=list_serde(model)),
    )  # fmt: skip


def of_foreign_keys(builder: StreamsBuilder, model: type[BaseModel]) -> None:
    left = builder.table("left", Consumed(key_serde="string", value_serde="long"), materialized="lefts")
    right = builder.table("right", Consumed(key_serde="string", value_serde=model), materialized="rights")
    left.foreign_key_join(right, str, both, materialized="both")


Build = Callable[..., None]


def topology(build: Build, model: type[BaseModel], **how: Any) -> Topology:
    builder = StreamsBuilder()
    build(builder, model, **how)
    return builder.build()


def stores_of(made: Topology) -> dict[str, tuple[Any, Any]]:
    default = Serdes.STRING
    return {
        name: tuple((one or default).with_default(default) for one in (store.key_serde, store.value_serde))  # type: ignore[misc]
        for name, store in made.stores.items()
    }


@pytest.mark.parametrize(
    ("build", "keys", "values"),
    [
        (of_suppressed_windows, [], ["counts", "last-store"]),
        (of_suppressed_sessions, [], ["counts", "last-store"]),
        (of_outer_join, [], ["j-outer-this-join-store", "j-outer-shared-join-store"]),
        (of_grace_join, [], ["table", "j-Buffer"]),
        (of_deduplication, ["kept"], []),
        (of_table_aggregation, [], ["rows", "lists"]),
        (of_foreign_keys, [], ["rights"]),
    ],
)
def test_the_stores_of_each_operator(build: Build, keys: list[str], values: list[str]) -> None:
    """The stores that have values, or keys, of the model."""
    former = {name: kept_by(*serdes) for name, serdes in stores_of(topology(build, First)).items()}
    for model, fit in ((First, SAME), (WithDefault, COMPATIBLE), (WithoutDefault, INCOMPATIBLE)):
        found = {name: compare(former[name], *own) for name, own in stores_of(topology(build, model)).items()}
        of_keys = SAME if fit is SAME else INCOMPATIBLE  # other bytes are other keys
        assert found.keys() == former.keys()
        assert {name for name, (key, _) in found.items() if key.fit is not SAME} == set(keys if fit != SAME else ())
        assert {name: found[name][1].fit for name in values} == dict.fromkeys(values, fit)
        assert {name: found[name][0].fit for name in keys} == dict.fromkeys(keys, of_keys)


@pytest.mark.parametrize(
    ("build", "topic"),
    [
        (of_table_aggregation, "by-repartition"),
        (of_foreign_keys, "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic"),
    ],
)
def test_the_repartition_topics_of_tables(build: Build, topic: str) -> None:
    def read(model: type[BaseModel]) -> Serde[Any]:
        nodes = topology(build, model).nodes.values()
        serde = next(one.value_serde for one in nodes if isinstance(one, SourceNode) and topic in one.topics)
        assert serde is not None
        return serde

    assert fit_of(read(First), read(WithDefault))[0] is COMPATIBLE
    assert fit_of(read(First), read(WithoutDefault))[0] is INCOMPATIBLE


def test_what_is_behind_a_table_converts_too() -> None:
    """The buffer of a suppression had rows of the older form, which the table's own function did not reach."""
    stores = stores_of(topology(of_suppressed_windows, WithoutDefault, migrate=lambda old: {**old, "zone": "none"}))
    old = pydantic_serde(First).serialize(First(cents=1))
    for _, value in stores.values():
        assert value.deserialize(old) == WithoutDefault(cents=1, zone="none")


def test_the_values_of_a_table_convert_behind_each_operator() -> None:
    def convert(old: Any) -> Any:
        return {**old, "zone": "none"}

    builder = StreamsBuilder()
    rows = builder.table("in", Consumed(key_serde="string", value_serde=First))

    def kept(name: str) -> Materialized[Any, Any]:
        return Materialized(name=name, value_serde=WithoutDefault, migrate=convert)

    def last(name: str) -> Suppressed:
        return Suppressed.until_time_limit(MINUTE, BufferConfig.unbounded()).with_name(name)

    rows.map_values(lambda value: value, materialized=kept("mapped")).suppress(last("s-mapped"))
    rows.filter(lambda key, value: True, materialized=kept("filtered")).suppress(last("s-filtered"))
    rows.join(rows, both, materialized=kept("joined")).suppress(last("s-joined"))
    rows.foreign_key_join(rows, str, both, materialized=kept("foreign")).suppress(last("s-foreign"))
    stores = stores_of(builder.build())
    old = pydantic_serde(First).serialize(First(cents=1))
    for name in ("mapped", "filtered", "joined", "foreign"):
        assert stores[name][1].deserialize(old) == WithoutDefault(cents=1, zone="none")
        assert stores[f"s-{name}-store"][1].deserialize(old) == WithoutDefault(cents=1, zone="none")


def test_each_table_has_its_own_function() -> None:
    """That of the table before it was taken in place of the one that was given."""
    of_table = migrating(pydantic_serde(WithoutDefault), lambda old: {**old, "zone": "first"})
    again = migrating(of_table, lambda old: {**old, "zone": "second"})
    assert again is not None
    assert again.deserialize(b'{"cents":1}') == WithoutDefault(cents=1, zone="second")
    assert migrating(of_table, None) is of_table


def test_items_of_lists_are_converted() -> None:
    def convert(old: list[Any]) -> list[Any]:
        return [None if one is None else {**one, "zone": "none"} for one in old]

    serde = migrating(list_serde(WithoutDefault), convert)
    assert serde is not None
    data = list_serde(First).serialize([First(cents=1), None])
    assert serde.deserialize(data) == [WithoutDefault(cents=1, zone="none"), None]
