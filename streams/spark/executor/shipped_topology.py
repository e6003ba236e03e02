"""A topology on its way to Spark's executors: the function that makes it, and the settings it is made with."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from processor_api.errors import StreamsError
from processor_api.handlers import log_and_continue, log_and_continue_processing
from processor_api.texts import kind_and_text
from processor_api.topology.describe import describe
from processor_api.topology.function import topology_of
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.config.import_path import NoSuchObject, import_object
from streams.config.settings import kafka_name
from streams.spark.errors import SparkBridgeError, TopologyNotPicklable
from streams.spark.rows.shipping import SHIP, dumps, loads

STILL = {
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
}
"""Settings that hold results back by the wall clock, which is stopped over history."""


def dead_letter_topic(application_id: str) -> str:
    """Returns the name under which a task captures records that could not be processed."""
    return f"{application_id}-backfill-dead-letters"


@dataclass(frozen=True)
class ShippedTopology:
    """Holds a topology in a form that Spark's executors can make it from."""

    made_by: str | bytes
    """An import path (``module:function``), or the function, pickled."""
    settings: bytes
    """The settings, pickled."""
    import_path: tuple[str, ...]
    """The driver's import path: on one machine, and where directories are shared, modules of the user are found."""

    @cached_property
    def config(self) -> StreamsConfig:
        """The configuration that the topology is made with and runs with."""
        return StreamsConfig.of(loads(self.settings))

    def load(self) -> Topology:
        """Returns the topology.

        :raises SparkBridgeError: if the function cannot be imported here.
        """
        for path in self.import_path:
            if path not in sys.path:
                sys.path.append(path)
        try:
            function = import_object(self.made_by) if isinstance(self.made_by, str) else loads(self.made_by)
        except (NoSuchObject, ImportError) as error:
            raise SparkBridgeError(
                f"the topology cannot be made on a Spark executor: {error}. A module that is missing: {SHIP}"
            ) from error
        return topology_of(function, self.config)

    def fingerprint(self, topology: Topology) -> str:
        """Returns a text that two topologies have in common if they have the same nodes, stores and topics."""
        stores = [
            (name, type(one.supplier).__name__, sorted(map(str, one.supplier.parameters.items())), one.logging)
            for name, one in topology.stores.items()
        ]
        internal = sorted(map(str, topology.repartition_topics.values()))
        described = repr((describe(topology, ties_by_name=True), stores, internal))
        return hashlib.sha256(described.encode()).hexdigest()


def ship(
    topology: str | Callable[..., Any],
    application_id: str,
    config: StreamsConfig | Mapping[str, Any],
    *,
    dead_letters: bool,
) -> ShippedTopology:
    """Returns a topology in the form for executors.

    :param topology: ``module:function``, or a function that makes a topology and may take the configuration.
    :param dead_letters: whether records that cannot be read or processed are captured as dead letters.
    :raises TopologyNotPicklable: if the function or a setting cannot be sent to other processes.
    """
    settings = _settings(config) | {"application.id": application_id}
    if dead_letters:
        settings |= {
            "deserialization.exception.handler": log_and_continue,
            "processing.exception.handler": log_and_continue_processing,
            "errors.dead.letter.queue.topic.name": dead_letter_topic(application_id),
        }
    made_by: str | bytes = topology if isinstance(topology, str) else _pickled_function(topology)
    pickled = _pickled_settings(settings)
    return ShippedTopology(made_by, pickled, tuple(path for path in sys.path if path))


def backfill_config(config: StreamsConfig | Mapping[str, Any] | None, application_id: str) -> StreamsConfig:
    """Returns the configuration of a backfill, whose topology belongs to an application."""
    return StreamsConfig.of({**_settings(config or {}), "application.id": application_id})


def _settings(config: StreamsConfig | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(config, StreamsConfig):
        given = {name: value for name, value in config.dotted().items() if config.origin(name) == "given"}
    else:
        given = {kafka_name(name): value for name, value in config.items()}
    return {"bootstrap.servers": "backfill:9092", **STILL, **given}


def _pickled_settings(settings: Mapping[str, Any]) -> bytes:
    for name, value in settings.items():
        try:
            dumps(value)
        except Exception as error:
            raise TopologyNotPicklable(f"setting {name!r} cannot be sent to Spark's executors: {error}") from error
    return dumps(dict(settings))


def _pickled_function(function: Any) -> bytes:
    if isinstance(function, Topology) or not callable(function) or hasattr(function, "build"):
        raise TopologyNotPicklable(
            f"give a function that makes the topology, or its name as 'module:function', not {_kind_of(function)}: each"
            " Spark executor makes a topology of its own"
        )
    try:
        return dumps(function)
    except Exception as error:
        raise TopologyNotPicklable(
            f"the topology's function {getattr(function, '__qualname__', function)!r} cannot be sent to Spark's"
            f" executors{_culprit(function)}: {error}. Make such objects inside of the function or in a processor's"
            " init, or give the function as 'module:function'"
        ) from error


def _kind_of(given: Any) -> str:
    return f"a {type(given).__name__}" if not inspect.isclass(given) else f"the class {given.__name__}"


def _culprit(function: Any) -> str:
    """Returns the variables that cannot be pickled, for a message."""
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return ""
    for name, value in {**found.globals, **found.nonlocals}.items():
        try:
            dumps(value)
        except Exception:
            inner = _culprit(value) if inspect.isfunction(value) else ""
            return inner or f", since {name!r} is {_kind_of(value)}"
    return ""


def checked_topology(shipped: ShippedTopology) -> Topology:
    """Returns the topology as the executors will make it, and checks that the function does.

    :raises StreamsError: if the function raises.
    """
    try:
        return shipped.load()
    except StreamsError:
        raise
    except Exception as error:
        name = shipped.made_by if isinstance(shipped.made_by, str) else "the topology's function"
        raise SparkBridgeError(f"{name} failed: {kind_and_text(error)}") from error
