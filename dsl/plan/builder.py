"""The plan while the user's calls are still adding to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from dsl.naming import Names
from dsl.plan.given_functions import GivenFunctions
from dsl.plan.models import Models
from dsl.plan.nodes import Plan, PlanNode, Process, TableSourceNode, TableStep
from dsl.processors.user_functions import check_user_functions
from processor_api.errors import TopologyError
from processor_api.serde import Serde
from processor_api.user_code.lines import at


class PlanBuilder:
    """The nodes that a builder's calls have added so far, and its counter of names. The nodes themselves are frozen."""

    def __init__(self, models: Models | None = None) -> None:
        self.names = Names()
        self.models = models or Models()
        """The serdes that follow the results of the user's functions."""
        self.shared_repartitions: dict[int, int] = {}
        """The repartition of a stream for its joins that give no name, by the number of the stream's node."""
        self._nodes: dict[int, PlanNode] = {}
        self._turns: dict[int, int] = {}
        self._turn = 0
        self._functions = GivenFunctions()

    def add(self, node: PlanNode) -> int:
        """Adds a node; returns its number.

        :raises TopologyError: if a function of the user that its operator calls cannot be called.
        """
        match node:
            case TableSourceNode() | TableStep():
                check_user_functions(node.operator, node.name)
            case Process():
                check_user_functions(node.supplier, node.name)
            case _:
                pass
        self._functions.add(node)
        number = len(self._nodes)
        self._nodes[number] = node
        self.add_again(number)
        return number

    def add_again(self, number: int) -> None:
        """Uses a node once more; it is written as if it were added now."""
        self._turns[number] = self._turn
        self._turn += 1

    def node(self, number: int) -> PlanNode:
        """Returns the node of a number."""
        return self._nodes[number]

    def amend(self, number: int, node: PlanNode) -> None:
        """Puts a changed node in an earlier one's place."""
        self._nodes[number] = node
        self._functions.add(node)

    def plan(self) -> Plan:
        """Returns the plan as it is now."""
        return Plan(dict(self._nodes), dict(self._turns), self._functions.by_code)


class InPlan(Protocol):
    """A stream or table that a builder's plan has."""

    @property
    def plan_builder(self) -> PlanBuilder:
        """The plan of its builder."""
        ...

    @property
    def node(self) -> int:
        """The number of its node."""
        ...

    @property
    def name(self) -> str:
        """The name of its node."""
        ...


@dataclass(frozen=True, kw_only=True)
class PlanPlace:
    """The place of a stream or table in the plan, and what is known of its records."""

    plan_builder: PlanBuilder
    node: int
    name: str
    sources: frozenset[str]
    """The source nodes its records come from, up to the next internal topic: what a join copartitions."""
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    repartition_required: bool = False
    """Whether a key changed since the last internal topic (semantics 102)."""
    store: str | None = None
    """The name under which a table can be queried."""

    def then(self, node: PlanNode, **changes: Any) -> PlanPlace:
        """Adds a node; returns its place, which is like this one but for the changes."""
        return replace(self, node=self.plan_builder.add(node), name=node.name, **changes)

    def same_builder(self, other: InPlan) -> None:
        """Checks that another stream or table belongs to the same builder.

        :raises TopologyError: if it does not.
        """
        if other.plan_builder is not self.plan_builder:
            mine, its = (at(one.plan_builder.node(one.node).made_at) for one in (self, other))
            raise TopologyError(
                f"{self.name!r}{mine} and {other.name!r}{its} come from different builders: use one StreamsBuilder"
            )
