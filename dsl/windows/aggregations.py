"""The nodes that windowed aggregations of a grouped stream add to the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsl.options import NamedLike, name_of
from dsl.plan.builder import PlanPlace
from dsl.plan.group_nodes import AGGREGATE, REDUCE, Grouping, repartitioned
from dsl.plan.materialization import MaterializedLike, as_materialized, materialize
from dsl.plan.nodes import Answer, Materialization, PlannedWindowStore, TableStep
from dsl.processors.tables.operator import TableOperator
from dsl.processors.windows.session_windows import SessionAggregate
from dsl.processors.windows.sliding_windows import SlidingAggregate
from dsl.processors.windows.time_windows import TimeWindowedAggregate
from dsl.windows.definitions import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from processor_api.errors import TopologyError
from processor_api.serde import Serde, Serdes
from processor_api.texts import repr_of
from processor_api.user_code.checks import check_function
from state.formats.keys import MAX_TIME
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde

AnyWindows = Windows | SlidingWindows | SessionWindows


@dataclass(frozen=True)
class WindowedGrouping:
    """A grouped stream with windows, and when their results are sent on."""

    grouping: Grouping
    windows: AnyWindows
    strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE


@dataclass(frozen=True, kw_only=True)
class Functions:
    """The functions of an aggregation; only sessions need a merger."""

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any] | None = None
    merger: Callable[[Any, Any, Any], Any] | None = None


def window(grouping: Grouping, windows: Any) -> WindowedGrouping:
    """Returns the group with its windows; adds no node.

    :raises TopologyError: if they are not windows.
    """
    if not isinstance(windows, AnyWindows):
        raise TopologyError(
            "windowed_by needs TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows or your own Windows, got"
            f" {repr_of(windows)}"
        )
    if isinstance(windows, Windows):
        for what, value, least in (("size_ms", windows.size_ms, 1), ("grace_ms", windows.grace_ms, 0)):
            if type(value) is not int or value < least:
                raise TopologyError(
                    f"{what} of {type(windows).__name__} must be an integer of at least {least} ms, got"
                    f" {repr_of(value)}"
                )
    return WindowedGrouping(grouping, windows)


def emit(windowed: WindowedGrouping, strategy: Any) -> WindowedGrouping:
    """Returns the group with the strategy; adds no node.

    :raises TopologyError: if it is none, or waits for the close of windows which may never close (semantics 52).
    """
    if not isinstance(strategy, EmitStrategy):
        raise TopologyError(
            "emit_strategy needs EmitStrategy.on_window_close() or EmitStrategy.on_window_update(), got"
            f" {repr_of(strategy)}"
        )
    final = strategy is EmitStrategy.ON_WINDOW_CLOSE
    if final and not isinstance(windowed.windows, TimeWindows | SlidingWindows | SessionWindows):
        raise TopologyError(
            "results can be emitted on window close for TimeWindows, SlidingWindows and SessionWindows only, got"
            f" {type(windowed.windows).__name__}"
        )
    return replace(windowed, strategy=strategy)


def count(windowed: WindowedGrouping, materialized: MaterializedLike, named: NamedLike) -> PlanPlace:
    """Adds a count."""
    names = windowed.grouping.place.plan_builder.names
    unnamed = materialized is not None and as_materialized(materialized).store_name is None
    if unnamed and not isinstance(windowed.windows, SlidingWindows):
        names.store(AGGREGATE)  # Java uses up one more number here
    store = windowed_store(windowed, materialized, AGGREGATE, value_serde=Serdes.LONG)
    return _aggregated(windowed, counting(), store, AGGREGATE, named)


def counting() -> Functions:
    """Returns what a count does with records."""
    return Functions(initializer=_zero, aggregator=_one_more, merger=_sum)


def _zero() -> int:
    return 0


def _one_more(key: Any, value: Any, count: int) -> int:
    return count + 1


def _sum(key: Any, one: int, other: int) -> int:
    return one + other


def reduce(
    windowed: WindowedGrouping, reducer: Callable[[Any, Any], Any], materialized: MaterializedLike, named: NamedLike
) -> PlanPlace:
    """Adds a reduction."""
    check_function(reducer, "reducer", "reduce", ("aggregate", "value"), returns=True)
    place = windowed.grouping.place
    value_serde = place.value_serde or place.plan_builder.models.value(reducer)
    store = windowed_store(windowed, materialized, REDUCE, value_serde=value_serde)
    return _aggregated(windowed, _reducing(reducer), store, REDUCE, named)


def _reducing(reducer: Callable[[Any, Any], Any]) -> Functions:
    def none() -> None:
        return None

    def add(key: Any, value: Any, so_far: Any) -> Any:
        return value if so_far is None else reducer(so_far, value)

    def merge(key: Any, one: Any, other: Any) -> Any:
        return other if one is None else reducer(one, other)

    add.__wrapped__ = merge.__wrapped__ = reducer  # type: ignore[attr-defined]
    return Functions(initializer=none, aggregator=add, merger=merge)


def aggregate(
    windowed: WindowedGrouping, functions: Functions, materialized: MaterializedLike, named: NamedLike
) -> PlanPlace:
    """Adds an aggregation by functions of the user."""
    models = windowed.grouping.place.plan_builder.models
    follow = models.value(functions.initializer, functions.aggregator, functions.merger)
    store = windowed_store(windowed, materialized, AGGREGATE, value_serde=follow)
    return _aggregated(windowed, functions, store, AGGREGATE, named)


def _aggregated(
    windowed: WindowedGrouping, functions: Functions, store: Materialization, prefix: str, named: NamedLike
) -> PlanPlace:
    name = windowed.grouping.place.plan_builder.names.choose(name_of(named), prefix)
    place = repartitioned(windowed.grouping, store.name)
    return windowed_table(place, windowed, functions, store, name)


def windowed_table(
    place: PlanPlace, windowed: WindowedGrouping, functions: Functions, store: Materialization, name: str
) -> PlanPlace:
    """Adds the node that aggregates the records of a place."""
    node = TableStep(
        name=name,
        parents=(place.node,),
        operator=operator_of(windowed, functions),
        store=store,
        answers=Answer.ALWAYS,
        grace_ms=grace_of(windowed.windows),
    )
    return place.then(
        node,
        key_serde=windowed_serde(windowed.windows, store.key_serde),
        value_serde=store.value_serde,
        store=store.query_name,
    )


def grace_of(windows: AnyWindows) -> int:
    """Returns for how many ms after its end a window takes records; of sessions, the gap is part of that."""
    return windows.gap_ms + windows.grace_ms if isinstance(windows, SessionWindows) else windows.grace_ms


def windowed_serde(windows: AnyWindows, key_serde: Serde[Any] | None) -> Serde[Any]:
    """Returns the serde of the table's keys."""
    if isinstance(windows, SessionWindows):
        return SessionWindowedSerde(key_serde)
    size = max(_size(windows), 1)  # a sliding window of one moment has a size of 0
    return TimeWindowedSerde(key_serde, size, window_end=_end_of(windows))


def _end_of(windows: AnyWindows) -> Callable[[int], int] | None:
    """Returns the function from start to end of windows of the user's own, which may have any length."""
    if isinstance(windows, TimeWindows | UnlimitedWindows) or not isinstance(windows, Windows):
        return None
    return windows.end_of


def _size(windows: Windows | SlidingWindows) -> int:
    return windows.difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms


def operator_of(windowed: WindowedGrouping, functions: Functions) -> TableOperator:
    """Returns the operator that aggregates the records of one stream."""
    windows, final = windowed.windows, windowed.strategy is EmitStrategy.ON_WINDOW_CLOSE
    both: dict[str, Any] = {"initializer": functions.initializer, "aggregator": functions.aggregator, "final": final}
    if isinstance(windows, SessionWindows):
        merger: Any = functions.merger
        return SessionAggregate(gap_ms=windows.gap_ms, grace_ms=windows.grace_ms, merger=merger, **both)
    if isinstance(windows, SlidingWindows):
        return SlidingAggregate(difference_ms=windows.difference_ms, grace_ms=windows.grace_ms, **both)
    return TimeWindowedAggregate(
        windows_for=windows.windows_for,
        size_ms=windows.size_ms,
        grace_ms=windows.grace_ms,
        advance_ms=windows.advance_ms if type(windows) is TimeWindows else None,
        **both,
    )


def windowed_store(
    windowed: WindowedGrouping,
    materialized: MaterializedLike,
    prefix: str,
    *,
    value_serde: Serde[Any] | None = None,
) -> Materialization:
    """Returns the store of a windowed table.

    :raises TopologyError: if the retention that was given is too short, or the store is to have a time to live.
    """
    place, windows, given = windowed.grouping.place, windowed.windows, as_materialized(materialized)
    store = materialize(given, place.plan_builder, prefix, key_serde=place.key_serde, value_serde=value_serde)
    if store.time_to_live is not None:
        raise TopologyError(
            f"store {store.name!r} is windowed, so its rows expire with their windows: give it retention= in its"
            " Materialized instead of a time to live",
            store=store.name,
        )
    least = _retention(windows)
    if store.supplier is None and store.retention_ms is not None and store.retention_ms < least:
        raise TopologyError(
            f"the retention of store {store.name!r} is {store.retention_ms} ms, but its windows need at least {least}"
            f" ms ({_RETENTION_RULE.get(type(windows), 'size and grace period')})",
            store=store.name,
        )
    final = windowed.strategy is EmitStrategy.ON_WINDOW_CLOSE
    is_session = isinstance(windows, SessionWindows)
    return replace(
        store,
        windows=PlannedWindowStore(
            retention_ms=least if store.retention_ms is None else store.retention_ms,
            size_ms=None if isinstance(windows, SessionWindows) else _size(windows),
            end_of=_end_of(windows),
            final=final,
            caching=not (final and (is_session or isinstance(windows, SlidingWindows))),
        ),
    )


_RETENTION_RULE: Mapping[type, str] = {
    SlidingWindows: "twice the time difference, and the grace period",
    SessionWindows: "inactivity gap and grace period",
}


def _retention(windows: AnyWindows) -> int:
    if isinstance(windows, SessionWindows):
        return windows.gap_ms + windows.grace_ms
    if isinstance(windows, SlidingWindows):
        return 2 * windows.difference_ms + windows.grace_ms
    return min(windows.size_ms + windows.grace_ms, MAX_TIME)
