"""Queries of an application's stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from processor_api.errors import InvalidStateStoreError, StreamsNotStartedError, StreamsStoppedError
from state.write_buffer.store_kind import OpenStore
from streams.app.opening import ApplicationParts, ApplicationResources
from streams.app.states import ClientState
from streams.kafka.membership.port import GroupTopology
from streams.kafka.ports import Admin
from streams.queries.local_stores import LocalStores, LocalThread
from streams.queries.owners import Owners
from streams.queries.queries import Queries
from streams.runtime.plan.task_plan import TaskPlan


def make_queries(
    parts: ApplicationParts,
    *,
    state: Callable[[], ClientState],
    resources: Callable[[], ApplicationResources | None],
    threads: Callable[[], Iterable[LocalThread]],
) -> Queries:
    """Returns the queries of one application, which need not have been started.

    :param resources: what it has opened; ``None`` before.
    """

    def plans() -> Mapping[int, TaskPlan]:
        opened = resources()
        return {} if opened is None else opened.process.plans.current.tasks

    def global_stores() -> Mapping[str, OpenStore]:
        opened = resources()
        return {} if opened is None else opened.global_stores.stores

    def check() -> None:
        refusal = _refusal(state())
        if refusal is not None:
            raise refusal

    stores = LocalStores(parts.topology, plans, threads, global_stores)
    return Queries(stores, parts.config.query_isolation_level, parts.platform.clock, check)


def make_owners(parts: ApplicationParts, resources: Callable[[], ApplicationResources | None]) -> Owners:
    """Returns what knows the processes of one application, which need not have been started.

    :param resources: what it has opened; ``None`` before.
    """

    def group() -> tuple[Admin, GroupTopology, Mapping[int, TaskPlan]] | None:
        opened = resources()
        if opened is None:
            return None
        plans = opened.process.plans.current
        return opened.process.cluster.admin, plans.group, plans.tasks

    return Owners(parts.topology, parts.endpoint, group, parts.platform.clock, parts.config)


def _refusal(state: ClientState) -> InvalidStateStoreError | None:
    if state is ClientState.CREATED:
        return StreamsNotStartedError("the application is not started: call start() before you read its stores")
    if not state.is_running_or_rebalancing():
        return StreamsStoppedError(f"the application is {state}: its stores can no longer be read")
    return None
