"""Transformers of a table's values: what a user writes for ``KTable.transform_values``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from processor_api.context import ProcessingContext
from processor_api.record import NO_TIMESTAMP, HeaderList, Headers

K = TypeVar("K", contravariant=True)
V = TypeVar("V", contravariant=True)
V2 = TypeVar("V2", covariant=True)


class ValueTransformerContext(ProcessingContext, Protocol):
    """The context of a transformer: that of a processor without ``forward``, and the time and headers of the row.

    ::

        class Dated(ValueTransformerWithKey):
            def transform(self, item, count):
                return None if count is None else f"{count} at {self.context.timestamp}"

        dated = stock.transform_values(Dated)
        # ("tea", 3) @ 700 -> ("tea", "3 at 700")
    """

    @property
    def timestamp(self) -> int:
        """The timestamp in ms of the change that is transformed, or of the row that is looked up; -1 where there is no
        such row, and outside of ``transform``."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers of the record that made the change; a row that is looked up has none."""
        ...


class CurrentRow:
    """A processing context with the row that is being transformed (:class:`ValueTransformerContext`)."""

    def __init__(self, context: ProcessingContext) -> None:
        self._context = context
        self._headers: HeaderList | None = None
        self.timestamp = NO_TIMESTAMP

    @property
    def headers(self) -> Headers:
        """The headers of the row."""
        headers = self._headers
        if type(headers) is not Headers:
            headers = self._headers = Headers(headers or ())
        return headers

    def enter(self, timestamp: int, headers: HeaderList | None) -> None:
        """Notes the row that is transformed next."""
        self.timestamp, self._headers = timestamp, headers

    def leave(self) -> None:
        """Forgets the row."""
        self.timestamp, self._headers = NO_TIMESTAMP, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


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

    def init(self, context: ValueTransformerContext) -> None:
        """Prepares the transformer; called once before the first value.

        The default keeps the context as ``self.context``: call ``super().init(context)``. The context cannot forward;
        it has the time and headers of the row, while one is transformed.
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
