"""Opens custom stores, which users write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from processor_api.stores.builder import StoreBuilder
from processor_api.task_id import TopicPartition
from state.custom.context import StoreContext, StoreEnvironment
from state.custom.engine import DIRECTORY
from state.engine.port import Engine
from state.registry.custom_opening import custom_engine
from streams.runtime.processing.environment import Environment


def open_custom_store(
    builder: StoreBuilder[Any, Any],
    environment: Environment,
    changelog: str | None,
    inputs: Sequence[TopicPartition] = (),
) -> Engine:
    """Returns the engine that a custom store, opened, is behind.

    :param changelog: the real name of its changelog topic.
    :param inputs: the input partitions of the task.
    :raises StateError: if it cannot be opened.
    """

    settings = environment.settings

    def context() -> StoreContext:
        return StoreContext(
            StoreEnvironment(
                store=builder.name,
                application_id=settings.application_id,
                task_id=environment.task_id,
                state_dir=environment.state_dir / DIRECTORY / builder.name,
                changelog_topic=changelog,
                key_serde=settings.default_key_serde,
                value_serde=settings.default_value_serde,
                cursor=environment.cursor,
                settings=lambda: settings.app_configs,
                make_metrics=environment.users.metrics,
                time_ms=environment.clock.time_ms,
                request_commit=environment.users.request_commit,
            )
        )

    engine: Any = custom_engine(
        builder,
        context,
        inputs=[partition for partition in inputs if partition.topic != changelog],
        undoes=settings.exactly_once,
    )
    return cast(Engine, engine)
