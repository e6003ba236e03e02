"""Processors of batches: what a user writes for ``KStream.process_batch``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from processor_api.context import ProcessingContext
from processor_api.record import Record

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")


class BatchProcessor(ABC, Generic[KIn, VIn, KOut, VOut]):
    """A processor that handles many records of a partition in one call. Each task has its own.

    ::

        from streams import BatchProcessor, StreamsBuilder, TopologyTestDriver

        class Words(BatchProcessor):
            def process_batch(self, records):
                return [[record.with_value(word) for word in record.value.split()] for record in records]

        builder = StreamsBuilder()
        builder.stream("lines").process_batch(Words).to("words")

        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(builder.build(), settings) as driver:
            driver.create_input_topic("lines").pipe_input("ann", "tea and milk")
            words = driver.create_output_topic("words").read_key_values()
            assert words == [("ann", "tea"), ("ann", "and"), ("ann", "milk")]
    """

    def init(self, context: ProcessingContext) -> None:
        """Prepares the processor; called once before the first batch.

        The default keeps the context as ``self.context``: call ``super().init(context)``. The context gives stores; it
        cannot forward.
        """
        self.context = context

    @abstractmethod
    def process_batch(self, records: list[Record[KIn, VIn]]) -> Sequence[Sequence[Record[KOut, VOut]] | Exception]:
        """Handles a batch; returns for each record, in order, the records to forward, or the error of that record.

        An error goes to the processing exception handler with its record, and the others continue. What the call raises
        is the error of each record of the batch (semantics 146).
        """

    def close(self) -> None:
        """Frees what the processor holds; called once when the task closes."""


BatchProcessorSupplier = Callable[[], BatchProcessor[Any, Any, Any, Any]]
"""A function that makes a new processor at each call; a class whose constructor needs no arguments is one.

It may have a method ``stores()`` that returns the builders of stores to add and connect."""
