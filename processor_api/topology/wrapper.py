"""Wrappers of processors (KIP-1112), which add to every processor of a topology in one place.

Operators of the DSL are wrapped as the users' processors are: a wrapper sees them as suppliers of processors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from processor_api.context import ProcessorContext
from processor_api.errors import TopologyError
from processor_api.processor import FixedKeyProcessorSupplier, Operator, Processor, ProcessorSupplier
from processor_api.record import Forward, Record
from processor_api.texts import kind_and_text, repr_of
from processor_api.topology.nodes import ProcessorNode


class ProcessorWrapper:
    """The base of wrappers: set one as ``processor.wrapper.class``. A method that is not overridden changes nothing.

    A supplier that is given back is called once for each task, and its ``stores()``, if it has the method, are added
    and connected to the node. It should make processors of the kind it wraps.

    ::

        class Timed(ProcessorWrapper):
            def wrap_processor_supplier(self, name, supplier):
                print(f"{name} is made")
                return supplier

        topology = builder.build({"processor.wrapper.class": Timed})
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Configures the wrapper; called once, before anything is wrapped.

        :param configs: the application's settings under Kafka's dotted names.
        """

    def wrap_processor_supplier(self, name: str, supplier: ProcessorSupplier) -> ProcessorSupplier:
        """Returns the supplier to use instead of ``supplier`` at the node ``name``, or the same one."""
        return supplier

    def wrap_fixed_key_processor_supplier(
        self, name: str, supplier: FixedKeyProcessorSupplier
    ) -> FixedKeyProcessorSupplier:
        """Returns the supplier to use instead of one of processors with a fixed key, or the same one."""
        return supplier


class OperatorProcessor(Processor[Any, Any, Any, Any]):
    """An operator of the DSL, as a wrapper sees it."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._forward: Forward

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Binds the operator to the task.

        :raises TopologyError: if the context is neither that of a task nor passes on the attributes it does not have.
        """
        super().init(context)
        bind = getattr(context, "bind_operator", None)
        if bind is None:
            raise TopologyError(
                f"{type(context).__name__} is not the context of a task: a wrapper that gives processors a context of"
                " its own must pass on every attribute to the one it was given"
            )
        self._forward = bind(self._operator, context)

    def process(self, record: Record[Any, Any]) -> None:
        """Runs the operator on a record."""
        headers: Any = record.raw_headers
        self._forward(record.key, record.value, record.timestamp, headers)


class OperatorSupplier:
    """A supplier that makes processors of an operator."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def __call__(self) -> OperatorProcessor:
        return OperatorProcessor(self.operator)


def wrapped(wrapper: Any, node: ProcessorNode) -> Any:
    """Returns the supplier or operator to run at a node: its own if the wrapper does not change it.

    :param wrapper: a :class:`ProcessorWrapper`, or a function ``(name, supplier)``.
    :raises TopologyError: if the wrapper fails, or gives back no supplier.
    """
    given = OperatorSupplier(node.supplier) if isinstance(node.supplier, Operator) else node.supplier
    wrap: Callable[[str, Any], Any]
    if hasattr(wrapper, "wrap_processor_supplier"):
        wrap = wrapper.wrap_fixed_key_processor_supplier if node.fixed_key else wrapper.wrap_processor_supplier
    else:
        wrap = wrapper
    try:
        found = wrap(node.name, given)
    except Exception as error:
        raise TopologyError(
            f"the processor wrapper failed at node {node.name!r}: {kind_and_text(error)}", node=node.name
        ) from error
    if found is given:
        return node.supplier
    if not callable(found):
        raise TopologyError(
            f"the processor wrapper returned {repr_of(found)} for node {node.name!r}, which is not a supplier of"
            " processors",
            node=node.name,
        )
    return found
