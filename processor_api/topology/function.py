"""A topology from a topology, a builder, or a function that makes either."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.topology.topology import Topology


class HasBuild(Protocol):
    """Builds a topology, as a ``StreamsBuilder`` does."""

    def build(self, config: Any = None) -> Topology:
        """Returns the topology."""
        ...


TopologyLike = Topology | HasBuild | Callable[..., Any]
"""A topology, a ``StreamsBuilder``, or a function that makes either and may take the configuration."""


def topology_of(given: Any, config: Any) -> Topology:
    """Returns the topology that was given, or built from it with the configuration.

    :param given: a topology, a builder, or a function that makes either.
    :raises TopologyError: if it is none of these.
    """
    if isinstance(given, Topology):
        return given
    build = getattr(given, "build", None)
    if callable(build) and not inspect.isclass(given):
        return topology_of(build(config), config)
    if callable(given) and not inspect.isclass(given):
        return topology_of(given(config) if inspect.signature(given).parameters else given(), config)
    raise TopologyError(f"expected a topology, a StreamsBuilder or a function that makes one, got {repr_of(given)}")
