"""Functions of the user whose results are certainly not what is meant, by their code. None of them is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any

from dsl.plan.nodes import Plan, PlanNode, Process, Repartition, StreamSource, TableSourceNode, TableStep
from dsl.processors.joins.stream_stream import StreamJoinStore
from dsl.processors.stateless import Branch, DropNullKeys, Filter, MapValues, PassThrough, Peek, SelectKey, ToStream
from dsl.processors.tables.stateless import TableFilter, TableMapValues
from processor_api.serde import Serde
from processor_api.topology.warnings import TopologyWarning
from processor_api.user_code.function_code import named_function
from processor_api.user_code.given_serdes import class_of
from processor_api.user_code.result_code import (
    ANYTHING,
    JSON,
    KnownValue,
    change_in_place,
    instance_of,
    made_by,
    result_of,
)

SerdeOf = Callable[[Serde[Any] | None], Serde[Any] | None]

_KEEP_VALUES = (Branch, DropNullKeys, Filter, PassThrough, Peek, SelectKey, StreamJoinStore, ToStream)

_EFFECTS: Mapping[str, str] = {
    "aggregator": "each record deletes the aggregate: return the aggregate after the change",
    "adder": "each row that is added deletes the aggregate: return the aggregate after the change",
    "subtractor": "each row that is removed deletes the aggregate: return the aggregate after the change",
    "merger": "sessions that merge lose their aggregates: return the aggregate after the change",
    "initializer": "there is no aggregate to start from: return the initial value",
    "reducer": "each second record deletes the row: return the value after the change",
    "joiner": "each result is null: return the joined value after the change",
    "predicate": "the condition never holds: return True or False",
}


def mistakes_of_functions(plan: Plan, serde_of: SerdeOf) -> Iterator[TopologyWarning]:
    """Yields a warning for each function that changes something in place and returns the None of that.

    :param serde_of: returns the serde of values that was given, or the builder's default one.
    """
    known = _Values(plan, serde_of)
    seen: set[tuple[int, str]] = set()
    for number, node in plan.nodes.items():
        for one, function in _functions(operator_of(node)):
            name = "reducer" if _is_of_reducer(function) else one.name
            function = function.__wrapped__ if _is_of_reducer(function) else function
            arguments = known.arguments(number, node, one, is_reducer=name == "reducer")
            call = change_in_place(function, arguments)
            if call is not None and (id(function), name) not in seen:
                seen.add((id(function), name))  # Several nodes of a join or cogroup have the same function.
                effect = _EFFECTS.get(name, "each value becomes null: return the new value")
                yield TopologyWarning(
                    what="returns-none",
                    text=f"the {name}, {named_function(function)}, returns the result of {call}, which is always None,"
                    f" so {effect}",
                    node=node.name,
                    made_at=node.made_at,
                )


def operator_of(node: PlanNode) -> Any:
    """Returns the operator of a node, or what the user gave for it."""
    match node:
        case Process():
            return node.supplier
        case TableSourceNode() | TableStep():
            return node.operator
        case _:
            return None


def _is_of_reducer(function: Any) -> bool:
    """Whether the library made the function around a reducer, for windows."""
    return getattr(function, "__module__", None) == "dsl.windows.aggregations" and hasattr(function, "__wrapped__")


def _functions(operator: Any) -> Iterator[tuple[Field[Any], Any]]:
    """Yields the fields of an operator with functions whose results are used."""
    for one in fields(operator) if is_dataclass(operator) and not isinstance(operator, type) else ():
        if one.metadata.get("user_function") and one.metadata["returns"]:
            yield one, getattr(operator, one.name)


class _Values:
    """The known facts about the values that each node of a plan sends."""

    def __init__(self, plan: Plan, serde_of: SerdeOf) -> None:
        self._plan = plan
        self._serde_of = serde_of
        self._found: dict[int, KnownValue] = {}

    def arguments(self, number: int, node: PlanNode, one: Field[Any], *, is_reducer: bool) -> list[KnownValue]:
        """Returns what is known of the arguments with which a node calls a function."""
        operator = operator_of(node)
        values = self._above(node)
        by_name = {"value": values, "aggregate": self._aggregate(node, values), "other": ANYTHING}
        if isinstance(node, Process) and "other" in one.metadata["arguments"]:
            by_name |= self._joined(node, values)
        by_name["other"] = by_name["aggregate"] if one.name == "merger" else by_name["other"]
        if is_reducer:
            return [values, values]
        names = one.metadata["arguments"]
        key_if = one.metadata["key_if"]
        with_key = key_if is not None and getattr(operator, key_if)
        return [by_name.get(name, ANYTHING) for name in (("key", *names) if with_key else names)]

    def _joined(self, node: Process, values: KnownValue) -> dict[str, KnownValue]:
        other = self.sent(node.reads[0]) if node.reads else ANYTHING
        is_left = getattr(node.supplier, "is_left", getattr(node.supplier, "from_left", True))
        return {"value": values, "other": other} if is_left else {"value": other, "other": values}

    def _aggregate(self, node: PlanNode, values: KnownValue) -> KnownValue:
        operator = operator_of(node)
        initializer = getattr(operator, "initializer", None)
        if initializer is None:
            return values
        made = made_by(initializer)
        serde = node.store.value_serde if isinstance(node, TableStep) and node.store is not None else None
        if serde is not None and serde.name == "json" and (not made.kinds or set(made.kinds) <= {dict, list}):
            return JSON if not made.kinds else replace(made, plain=True)
        return made

    def sent(self, number: int) -> KnownValue:
        """Returns what is known of the values that a node sends."""
        way: list[int] = []
        while number not in self._found:
            node = self._plan.nodes[number]
            way.append(number)
            if not _passes_values_on(node) or len(node.parents) != 1:
                self._found[number] = self._of_node(node)
                break
            (number,) = node.parents
        found = self._found[number]
        self._found.update(dict.fromkeys(way, found))
        return found

    def _above(self, node: PlanNode) -> KnownValue:
        if isinstance(node, TableSourceNode):
            return self._of_serde(node.consumed.value_serde)
        return self.sent(node.parents[0]) if len(node.parents) == 1 else ANYTHING

    def _of_node(self, node: PlanNode) -> KnownValue:
        match node:
            case StreamSource() | TableSourceNode():
                return self._of_serde(node.consumed.value_serde)
            case TableStep() if hasattr(node.operator, "initializer"):
                return self._aggregate(node, ANYTHING)
            case _:
                pass
        operator = operator_of(node)
        if isinstance(operator, (MapValues, TableMapValues)) and not operator.with_key:
            return _value_only(result_of(operator.mapper, [self._above(node)]))
        return ANYTHING

    def _of_serde(self, given: Serde[Any] | None) -> KnownValue:
        serde = self._serde_of(given)
        if serde is None:
            return ANYTHING
        if serde.name == "json":
            return JSON
        kind = class_of(serde)
        return ANYTHING if kind is None else instance_of(kind)


def _value_only(result: KnownValue) -> KnownValue:
    """Returns a result without the object itself: each record has a value of its own."""
    return KnownValue(kinds=result.kinds, item=result.item, plain=result.plain)


def _passes_values_on(node: PlanNode) -> bool:
    match node:
        case Repartition():
            return True
        case Process():
            return isinstance(node.supplier, _KEEP_VALUES)
        case TableStep():
            return isinstance(node.operator, TableFilter)
        case _:
            return False
