"""Builders of stores, also of those that users write."""

from __future__ import annotations

from typing import Any, Protocol

from processor_api.errors import TopologyError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import CustomStateStore
from processor_api.stores.factory import Stores
from processor_api.texts import repr_of
from processor_api.user_code.checks import check_fields
from processor_api.user_code.given_values import attribute_of


class StateStoreBuilder(Protocol):
    """A builder of a custom store that a user writes, as Kafka Streams' users do.

    It is taken wherever a `StoreBuilder` of a custom store is. It may have ``logging`` and ``topic_config`` as
    `StoreBuilder` has them.
    """

    @property
    def name(self) -> str:
        """The name of the store."""
        ...

    def build(self) -> CustomStateStore:
        """Returns a new store, not open yet."""
        ...


def as_builder(given: Any) -> StoreBuilder[Any, Any]:
    """Returns the builder that the runtime uses for one that may be written by a user.

    :raises TopologyError: if it is not a builder.
    """
    if isinstance(given, StoreBuilder):
        check_fields(given, f"store {given.name!r}", store=given.name)
        return given
    name, build = attribute_of(given, "name"), attribute_of(given, "build")
    if not isinstance(name, str) or not callable(build):
        raise TopologyError(f"expected a store builder, got {repr_of(given)}; see Stores.key_value_store_builder")
    builder = Stores.custom(name, build)
    if not attribute_of(given, "logging", True):
        return builder.with_logging_disabled()
    return builder.with_logging_enabled(attribute_of(given, "topic_config"))
