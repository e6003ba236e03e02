"""Queries of an application's stores, as its client makes and allows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from processor_api.clock import Clock
from processor_api.errors import InvalidStateStoreError, StreamsNotStartedError, StreamsStoppedError
from processor_api.topology_data import TopologyData
from state.registry.kinds import OpenStore
from streams.app.opening import Opened
from streams.app.states import ClientState
from streams.config import StreamsConfig
from streams.queries.local_stores import LocalStores, LocalThread
from streams.queries.queries import Queries
from streams.runtime.plan.task_plan import TaskPlan

__all__ = ["make_queries"]


def make_queries(
    topology: TopologyData,
    config: StreamsConfig,
    clock: Clock,
    *,
    state: Callable[[], ClientState],
    opened: Callable[[], Opened | None],
    threads: Callable[[], Iterable[LocalThread]],
    global_stores: Callable[[], Mapping[str, OpenStore]],
) -> Queries:
    """Of one application, which need not have been started."""

    def plans() -> Mapping[int, TaskPlan]:
        found = opened()
        shared = None if found is None else getattr(found, "shared", None)
        return {} if shared is None else shared.plans.current.tasks

    def check() -> None:
        refusal = _refusal(state())
        if refusal is not None:
            raise refusal

    stores = LocalStores(topology, plans, threads, global_stores)
    return Queries(stores, config.query_isolation_level, clock, check)


def _refusal(state: ClientState) -> InvalidStateStoreError | None:
    if state is ClientState.CREATED:
        return StreamsNotStartedError("the application was not started: its stores can be read after start()")
    if not state.is_running_or_rebalancing():
        return StreamsStoppedError(f"the application is {state}: its stores cannot be read any more")
    return None
