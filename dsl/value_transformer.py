"""Transformers of a table's values: what a user writes for ``KTable.transform_values``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from processor_api.context import ProcessingContext

__all__ = ["ValueTransformerWithKey", "ValueTransformerWithKeySupplier"]

K = TypeVar("K", contravariant=True)
V = TypeVar("V", contravariant=True)
V2 = TypeVar("V2", covariant=True)


class ValueTransformerWithKey(ABC, Generic[K, V, V2]):
    """A transformer of a table's values, which may use stores. Each task has its own.

    ::

        from streams import Materialized, Serdes, StreamsBuilder, TopologyTestDriver, ValueTransformerWithKey

        class Numbered(ValueTransformerWithKey):
            def init(self, context):
                super().init(context)
                self.calls = 0

            def transform(self, key, value):
                self.calls += 1
                return None if value is None else f"{value}#{self.calls}"

        builder = StreamsBuilder()
        builder.table("texts").transform_values(Numbered, materialized="numbered")

        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(builder.build(), settings) as driver:
            driver.create_input_topic("texts").pipe_key_values([("a", "x"), ("b", "y")])
            assert driver.get_key_value_store("numbered").get("b") == "y#2"
    """

    def init(self, context: ProcessingContext) -> None:
        """Prepares the transformer; called once before the first value.

        The default keeps the context as ``self.context``: call ``super().init(context)``. The context cannot forward.
        """
        self.context = context

    @abstractmethod
    def transform(self, key: K, value: V | None) -> V2 | None:
        """Returns the new value of a row; ``None`` deletes it.

        It is called for deletions too, with the value ``None``, and for old values where an operator below needs them.
        What it raises goes to the processing exception handler.
        """

    def close(self) -> None:
        """Frees what the transformer holds; called once when the task closes."""


ValueTransformerWithKeySupplier = Callable[[], ValueTransformerWithKey[Any, Any, Any]]
"""A function that makes a new transformer at each call; a class whose constructor needs no arguments is one.

It may have a method ``stores()`` that returns the builders of stores to add and connect."""
