"""Processors: what a user writes, and what the DSL's operators are.

A user's processor gets `Record` objects and a context. An operator is the same thing without the objects: a function of
(key, value, timestamp, headers), bound once per task to the functions that come after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from processor_api.context import FixedKeyProcessorContext, OperatorContext, ProcessorContext
from processor_api.errors import TopologyError
from processor_api.record import FixedKeyRecord, Forward, Record
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.texts import kind_and_text
from processor_api.user_code.checks import check_callable_supplier, check_made
from processor_api.user_code.given_values import attribute_of

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
K = TypeVar("K")


class Processor(ABC, Generic[KIn, VIn, KOut, VOut]):
    """A processor: handles one record at a time and forwards any number of records. Each task has its own.

    ::

        from streams import Processor, Topology, TopologyTestDriver

        class Shout(Processor):
            def process(self, record):
                if record.value is not None:
                    self.context.forward(record.with_value(record.value.upper()))

        topology = Topology().add_source("in", "lines").add_processor("shout", Shout, "in")
        topology.add_sink("out", "loud", "shout")
        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(topology, settings) as driver:
            driver.create_input_topic("lines").pipe_input("ann", "hello")
            assert driver.create_output_topic("loud").read_key_value() == ("ann", "HELLO")
    """

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Prepares the processor; called once before the first record.

        The default keeps the context as ``self.context``: call ``super().init(context)``.

        ::

            class Numbered(Processor):
                def init(self, context):
                    super().init(context)
                    self.count = 0

                def process(self, record):
                    self.count += 1
                    self.context.forward(record.with_value(f"{self.count} {record.value}"))

            numbered = orders.process(Numbered)
            # ("ann", "tea"), ("bob", "milk") -> ("ann", "1 tea"), ("bob", "2 milk")
        """
        self.context = context

    @abstractmethod
    def process(self, record: Record[KIn, VIn]) -> None:
        """Handles a record; called for every one.

        What it raises goes to the processing exception handler (semantics 113).

        ::

            class Split(Processor):
                def process(self, record):
                    for word in record.value.split():
                        self.context.forward(record.with_value(word))

            words = lines.process(Split)
            # ("ann", "to be") -> ("ann", "to"), ("ann", "be")
        """

    def close(self) -> None:
        """Frees what the processor holds; called once when the task closes. It is never initialised again.

        ::

            class Logged(Processor):
                def init(self, context):
                    super().init(context)
                    self.file = open("records.log", "a")

                def process(self, record):
                    print(record.key, record.value, file=self.file)

                def close(self):
                    self.file.close()

            orders.process(Logged)
        """


class FixedKeyProcessor(ABC, Generic[K, VIn, VOut]):
    """A processor that cannot change keys, so that no repartition follows. Each task has its own.

    ::

        class Dated(FixedKeyProcessor):
            def process(self, record):
                self.context.forward(record.with_value(f"{record.value} at {record.timestamp}"))

        dated = orders.process_values(Dated)
        # ("ann", "tea") @ 700 -> ("ann", "tea at 700")
    """

    def init(self, context: FixedKeyProcessorContext[K, VOut]) -> None:
        """Prepares the processor; called once before the first record.

        The default keeps the context as ``self.context``: call ``super().init(context)``.

        ::

            class Numbered(FixedKeyProcessor):
                def init(self, context):
                    super().init(context)
                    self.count = 0

                def process(self, record):
                    self.count += 1
                    self.context.forward(record.with_value(self.count))

            numbered = orders.process_values(Numbered)
            # ("ann", "tea"), ("ann", "milk") -> ("ann", 1), ("ann", 2)
        """
        self.context = context

    @abstractmethod
    def process(self, record: FixedKeyRecord[K, VIn]) -> None:
        """Handles a record; called for every one.

        ::

            class Long(FixedKeyProcessor):
                def process(self, record):
                    if len(record.value) > 3:
                        self.context.forward(record)

            long = orders.process_values(Long)
            # ("ann", "tea"), ("ann", "milk") -> ("ann", "milk")
        """

    def close(self) -> None:
        """Frees what the processor holds; called once when the task closes."""


ProcessorSupplier = Callable[[], Processor[Any, Any, Any, Any]]
"""A function that makes a new processor at each call; a class whose constructor needs no arguments is one.

It may have a method ``stores()`` that returns the builders of stores to add and connect (Kafka Streams'
ConnectedStoreProvider)."""

FixedKeyProcessorSupplier = Callable[[], FixedKeyProcessor[Any, Any, Any]]
"""A function that makes a new processor with a fixed key at each call; otherwise as :data:`ProcessorSupplier`."""


@runtime_checkable
class Operator(Protocol):
    """A processor node of the DSL: immutable, shared by all tasks.

    One of several nodes of a call may say by ``part`` which it is, such as ``left`` of a join; one that only forwards
    the key and the new value of each change says so by ``passes_on``.
    """

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task; all mutable state is in its closure.

        Errors of the user's functions are given to ``context.fail``; what ``context.forward`` raises passes through.
        """
        ...


class HasSerdes(Protocol):
    """An operator with serdes of its own, which it needs beside those of sources, sinks and stores."""

    def own_serdes(self) -> Mapping[str, Serde[Any] | None]:
        """Returns the serdes by the names of their fields, which end in ``key_serde`` or ``value_serde``; ``None`` is
        the application's default."""
        ...


def own_serdes(supplier: Any) -> Mapping[str, Serde[Any] | None]:
    """Returns the serdes of an operator that has some of its own (:class:`HasSerdes`); none for anything else."""
    found = getattr(supplier, "own_serdes", None)
    return found() if isinstance(supplier, Operator) and callable(found) else {}


class OwnTime(NamedTuple):
    """The names under which commits keep the times of an operator that tell which rows of its store are needed."""

    store: str
    observed: str
    """The name of its stream time."""
    sent: str | None = None
    """The name of the time up to which results have left; ``None`` if each leaves with its record."""
    window_ms: int | None = None
    """The length of the windows of a store whose rows are never later than the timestamps with which they are logged;
    ``None`` if they may be."""


def own_time(supplier: Any) -> OwnTime | None:
    """Returns the names of an operator's times, by its method of the same name; ``None`` for anything else."""
    found = getattr(supplier, "own_time", None)
    return found() if isinstance(supplier, Operator) and callable(found) else None


_KINDS = (Processor, FixedKeyProcessor)
_METHODS = {"init": ("context",), "process": ("record",), "close": ()}


def check_supplier(name: str, supplier: Any) -> None:
    """Checks that a supplier of processors can be called, before its first call.

    :param name: the name of the processor's node, for the error.
    :raises TopologyError: if it cannot be called, or is a processor itself.
    """
    check_callable_supplier(supplier, f"processor {name!r}", "processor", _KINDS, node=name)


def check_processors(name: str, supplier: Any) -> bool:
    """Checks that a supplier makes a new processor at each call; returns whether its processors keep the key.

    :param name: the name of the processor's node, for the error.
    :raises TopologyError: if it does not, or the methods of its processors cannot be called.
    """
    made = check_made(supplier, f"processor {name!r}", "processor", _KINDS, _METHODS, node=name)
    return isinstance(made, FixedKeyProcessor)


def connected_stores(supplier: Any, name: str) -> Iterable[StoreBuilder[Any, Any]]:
    """Returns the builders of the stores that belong to the supplier of processor ``name``.

    :raises TopologyError: if its method ``stores()`` fails, as one does that needs an instance.
    """
    stores = attribute_of(supplier, "stores")
    if not callable(stores) or isinstance(stores, type):
        return ()
    try:
        found = stores()
        in_order = sorted(found, key=lambda store: store.name) if isinstance(found, (set, frozenset)) else found
        return tuple(in_order)  # that of a set is another in each process
    except Exception as error:
        hint = "; make it a staticmethod" if isinstance(supplier, type) else ""
        raise TopologyError(
            f"stores() of the supplier of processor {name!r} must return builders of stores, and failed:"
            f" {kind_and_text(error)}{hint}",
            node=name,
        ) from error
