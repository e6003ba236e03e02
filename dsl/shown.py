"""The text of streams, tables and groups, for prompts and messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsl.plan.builder import PlanPlace
from dsl.plan.cogroup_nodes import Cogrouping
from dsl.plan.global_nodes import GlobalTable
from dsl.plan.group_nodes import Grouping
from dsl.plan.table_nodes import TableGrouping
from dsl.windows.aggregations import WindowedGrouping
from dsl.windows.cogroup import WindowedCogrouping
from dsl.windows.definitions import EmitStrategy
from processor_api.user_code.calls import explain_calls


class ShownChain:
    """The base of what a user chains calls on. Its ``repr`` says which node it is and what is known of it.

    ::

        from streams import Consumed, Serdes, StreamsBuilder

        words = StreamsBuilder().stream("words", Consumed(key_serde=Serdes.STRING, name="words"))
        assert repr(words) == "KStream(words, key=string)"
    """

    __slots__ = ()

    def __init_subclass__(cls, **more: Any) -> None:
        """Has wrong calls explained (:func:`~processor_api.user_code.calls.explain_calls`)."""
        super().__init_subclass__(**more)
        explain_calls(cls)

    def __repr__(self) -> str:
        slot = next(slot for kind in type(self).__mro__ for slot in getattr(kind, "__slots__", ()))
        return f"{type(self).__name__}({', '.join(_parts(getattr(self, slot)))})"  # it holds the place in the plan


def _parts(of: Any) -> Iterator[str]:
    match of:
        case PlanPlace():
            yield from _named(of, of.store)
        case GlobalTable():
            yield from _named(of, of.store if of.queryable else None)
        case Grouping() | TableGrouping():
            yield from _parts(of.place)
        case Cogrouping():
            for grouping, _ in of.parts:
                yield grouping.place.name
        case WindowedGrouping():
            yield from _parts(of.grouping)
            yield str(of.windows)
            if of.strategy is not EmitStrategy.ON_WINDOW_UPDATE:
                yield of.strategy.value
        case WindowedCogrouping():
            yield from _parts(of.cogrouping)
            yield str(of.windowed.windows)


def _named(of: PlanPlace | GlobalTable, store: str | None) -> Iterator[str]:
    yield of.name
    for what, serde in (("key", of.key_serde), ("value", of.value_serde)):
        if serde is not None:
            yield f"{what}={serde.name}"
    if store is not None:
        yield f"store={store}"
