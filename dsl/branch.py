"""Splitting a stream: each record goes to the first branch whose predicate holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from dsl.options import Branched, NamedLike, chosen, name_of
from dsl.plan.builder import PlanPlace
from dsl.plan.nodes import Process
from dsl.processors.stateless import Branch, PassThrough
from processor_api.errors import TopologyError
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.checks import check_function

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")


@explain_calls
class BranchedKStream(Generic[K, V, S]):
    """A stream that is being split; it ends with :meth:`default_branch` or :meth:`no_default_branch`.

    The dict that both return holds a stream per branch. Its keys are the splitter's name (``split(name="sp-")`` or
    generated) followed by the branch's name or number; the default branch has number 0.

    ::

        split = payments.split(name="paid-").branch(lambda customer, cents: cents >= 10_000, Branched.as_("much"))
        parts = split.branch(lambda customer, cents: cents >= 1_000).default_branch(Branched.as_("little"))
        assert list(parts) == ["paid-much", "paid-2", "paid-little"]
    """

    __slots__ = ("_branches", "_finished", "_make", "_operator", "_place", "_splitter")

    def __init__(self, place: PlanPlace, make: Callable[[PlanPlace], S], named: NamedLike) -> None:
        plan_builder = place.plan_builder
        name = plan_builder.names.choose(name_of(named), "KSTREAM-BRANCH-")
        self._operator = Branch()
        self._splitter = plan_builder.add(Process(name=name, parents=(place.node,), supplier=self._operator))
        self._place = replace(place, node=self._splitter, name=name)
        self._make = make
        self._branches: dict[str, S] = {}
        self._finished = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join((self._place.name, *self._branches))})"

    def branch(
        self, predicate: Callable[[K, V], object], branched: Branched[S] | None = None
    ) -> BranchedKStream[K, V, S]:
        """Adds a branch with the records for which ``predicate(key, value)`` holds and no earlier one did.

        ::

            split = payments.split(name="paid-").branch(lambda customer, cents: cents >= 10_000, Branched.as_("much"))
            much = split.no_default_branch()["paid-much"]
            # ("ann", 25_000), ("bob", 300) -> much("ann", 25_000)
        """
        name = self._add(branched, len(self._operator.predicates) + 1)
        check_function(predicate, "predicate", f"branch {name}", ("key", "value"), returns=True)
        self._amend(
            replace(
                self._operator,
                predicates=(*self._operator.predicates, predicate),
                children=(*self._operator.children, name),
            )
        )
        self._give(branched, name)
        return self

    def default_branch(self, branched: Branched[S] | None = None) -> dict[str, S]:
        """Adds a branch with all other records; returns the streams by name.

        ::

            split = payments.split(name="paid-").branch(lambda customer, cents: cents >= 10_000, Branched.as_("much"))
            little = split.default_branch(Branched.as_("little"))["paid-little"]
            # ("ann", 25_000), ("bob", 300) -> little("bob", 300)
        """
        name = self._add(branched, 0)
        self._finished = True
        self._amend(replace(self._operator, default=name))
        self._give(branched, name)
        return self._branches

    def no_default_branch(self) -> dict[str, S]:
        """Drops all other records; returns the streams by name.

        ::

            parts = payments.split(name="paid-").branch(lambda customer, cents: cents >= 10_000).no_default_branch()
            assert list(parts) == ["paid-1"]
        """
        self._finished = True
        return self._branches

    def _add(self, branched: Branched[Any] | None, number: int) -> str:
        if self._finished:
            raise TopologyError(f"the split {self._place.name!r} is complete: add branches before its default branch")
        given = chosen(branched, Branched).name
        return f"{self._place.name}{number if given is None else given}"

    def _amend(self, operator: Branch) -> None:
        plan_builder = self._place.plan_builder
        node = plan_builder.node(self._splitter)
        assert isinstance(node, Process)
        self._operator = operator
        plan_builder.amend(self._splitter, replace(node, supplier=operator))

    def _give(self, branched: Branched[S] | None, name: str) -> None:
        place = self._place
        place.plan_builder.names.processor(name)
        node = Process(name=name, parents=(self._splitter,), supplier=PassThrough())
        stream = self._make(place.then(node))
        if branched is not None and branched.consumer is not None:
            branched.consumer(stream)
            return
        result = stream if branched is None or branched.function is None else branched.function(stream)
        if result is not None:
            self._branches[name] = result
