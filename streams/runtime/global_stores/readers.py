"""Readers of global stores, filled here or elsewhere: one for each node that asks for a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from processor_api.stores.builder import GlobalStore
from processor_api.topology.data import TopologyData
from state.engine.port import Engine
from state.guards.guard import Policy, guarded
from state.registry.kinds import families_of, open_store, read_only
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore
from streams.runtime.processing.environment import Environment

READ_ONLY = "only the processor that was added with a global store can write to it"


def global_families(topology: TopologyData) -> dict[str, list[str]]:
    """Returns the families that hold the rows of a topology's global stores, by the names of their engines."""
    found: dict[str, list[str]] = {}
    builders = [spec.builder for spec in topology.global_stores.values()]
    for builder in sorted(builders, key=lambda builder: builder.supplier.engine):
        found.setdefault(builder.supplier.engine, []).extend(families_of(builder))
    return found


class _Reopened(Policy):
    """Opens a store again when there may be other rows: for kinds that keep more than rows (stream times, segments).

    :param writes: how often rows were written.
    """

    def __init__(self, writes: Callable[[], int], opened: Callable[[], OpenStore]) -> None:
        self._at = writes()  # before it is opened: it may see more
        super().__init__(opened().facade)
        self._writes = writes
        self._opened = opened

    def store(self) -> Any:
        writes = self._writes()
        if writes != self._at:
            self._store, self._at = self._opened().facade, writes
        return self._store

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: getattr(self.store(), name)(*given, **named)


class GlobalReaders(ABC):
    """Opens the global stores of a topology on their engines."""

    writes = 0
    """How often rows were written."""

    def __init__(self, topology: TopologyData, environment: Environment) -> None:
        self._specs = topology.global_stores
        self._environment = environment

    @abstractmethod
    def _engine(self, spec: GlobalStore) -> Engine:
        """Returns the engine that holds the rows of a store."""

    def _opened(self, spec: GlobalStore, **how: Any) -> OpenStore:
        return open_store(
            replace(spec.builder, caching=False),
            engine=self._engine(spec),
            budget=Budget(0),
            log=None,
            log_each=False,
            **self._environment.store_serdes(spec.builder, spec.topic),
            **how,
        )

    def reader(self, name: str, node: str) -> OpenStore | None:
        """Returns a store for a node that may only read it; ``None`` if there is no such store.

        It reads from the engine; each reader belongs to one thread.
        """
        spec = self._specs.get(name)
        if spec is None:
            return None

        def opened() -> OpenStore:
            return self._opened(spec, cursor=Cursor(), reads_only=True)

        found = opened()
        if found.participants:
            found = replace(found, facade=guarded(_Reopened(lambda: self.writes, opened)))
        return read_only(found, node, READ_ONLY)
