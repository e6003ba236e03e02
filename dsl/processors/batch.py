"""Operators that handle many records in one call (semantics 144 to 146). They have no counterpart in Kafka Streams.

Records are held back by the task, which hands them over before it commits. Each result is forwarded as of its own
record, in the order of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsl.batch_processor import BatchProcessor, BatchProcessorSupplier
from dsl.processors.user_functions import no_iterable, user_function
from processor_api.context import BatchLimits, HeldRecord, OperatorContext
from processor_api.errors import ProcessingError, StreamsError, TopologyError
from processor_api.processor import Operator, connected_stores
from processor_api.record import Forward, Record, record_time
from processor_api.stores.builder import StoreBuilder
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.checks import check_methods
from processor_api.user_code.function_code import named_function

BATCH_METHODS = {"init": ("context",), "process_batch": ("records",), "close": ()}
"""The methods of a BatchProcessor, with the names of their arguments."""

Resume = Callable[[HeldRecord], None]


def _counted(results: Any, records: int, node: str, function: Any) -> list[Any]:
    """Returns the results of a call.

    :raises ValueError: if there is not one for each record.
    """
    found = list(results)
    if len(found) != records:
        raise ValueError(
            f"{named_function(function)} of node {node!r} must return one result for each of the {records} records of a"
            f" batch, got {len(found)}"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class MapValuesBatch(Operator):
    """Replaces the values of a batch by those that one call of a function returns.

    A call that raises is made again for each record alone, so that only the records at fault fail.
    """

    function: Callable[[list[Any]], Sequence[Any]] = field(metadata=user_function("values"))
    limits: BatchLimits

    def bind(self, context: OperatorContext) -> Forward:
        forward, fail = context.forward, context.fail
        results_of = self._results(context.node)

        def handle(records: list[HeldRecord], resume: Resume) -> None:
            for record, new in zip(records, results_of(records), strict=True):
                resume(record)
                key, value, timestamp, headers, _, _ = record
                if isinstance(new, Exception):
                    fail(new, key, value, timestamp, headers)
                else:
                    forward(key, new, timestamp, headers)

        return context.hold_back(handle, self.limits)

    def _results(self, node: str) -> Callable[[list[HeldRecord]], Iterator[Any]]:
        function = self.function

        def call(values: list[Any]) -> list[Any]:
            found: Any = function(values)
            try:
                if type(found) is str:
                    raise TypeError
                return list(found)
            except Exception as error:
                raise no_iterable(function, found, "values", error) from None

        def one(value: Any) -> Any:
            try:
                return _counted(call([value]), 1, node, function)[0]
            except Exception as error:
                return error

        def results_of(records: list[HeldRecord]) -> Iterator[Any]:
            try:
                results = call([record[1] for record in records])
            except Exception as error:
                # An error of the library is not the fault of a record: each has it, and nothing is called again.
                if len(records) == 1 or isinstance(error, StreamsError):
                    return iter([error] * len(records))
                return (one(record[1]) for record in records)
            try:
                return iter(_counted(results, len(records), node, function))
            except ValueError as error:
                return iter([error] * len(records))

        return results_of


@dataclass(frozen=True, kw_only=True)
class ProcessBatch(Operator):
    """Runs a user's processor of batches."""

    supplier: BatchProcessorSupplier = field(metadata=user_function())
    limits: BatchLimits

    def stores(self) -> Sequence[StoreBuilder[Any, Any]]:
        """Returns the builders of the stores that the supplier brings along."""
        return list(connected_stores(self.supplier, "process_batch"))

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        node, forward, fail = context.node, context.forward, context.fail
        process_batch = _prepared(context, self.supplier)

        def outcomes(records: list[HeldRecord]) -> list[Any]:
            try:
                given: list[Record[Any, Any]] = [Record(*record[:4]) for record in records]
                return _counted(process_batch(given), len(records), node, process_batch)
            except Exception as error:
                return [error] * len(records)

        def handle(records: list[HeldRecord], resume: Resume) -> None:
            for record, outcome in zip(records, outcomes(records), strict=True):
                resume(record)
                try:
                    if isinstance(outcome, Exception):
                        raise outcome
                    made = [(one.key, one.value, one.timestamp, one.raw_headers) for one in outcome]
                except Exception as error:
                    fail(_of_outcome(error, outcome), *record[:4])
                    continue
                try:
                    made = [(key, value, record_time(time), headers) for key, value, time, headers in made]
                except (TypeError, ValueError) as error:
                    fail(error, *record[:4])
                    continue
                as_it_came = True
                for key, value, timestamp, headers in made:
                    # The record is the current one already: it is set again only for another time or other headers.
                    same = timestamp == record[2] and headers is record[3]
                    if not (same and as_it_came):
                        resume((key, value, timestamp, headers, *record[4:]))
                        as_it_came = same
                    forward(key, value, timestamp, headers)

        return context.hold_back(handle, self.limits)


def _of_outcome(error: Exception, outcome: Any) -> Exception:
    """Returns the error of a record: its outcome, or the error that its outcome is none."""
    if isinstance(outcome, Exception):
        return outcome
    wrong = TypeError(
        f"process_batch must return a list of Records or an exception for each record, got {repr_of(outcome)}"
    )
    wrong.__cause__ = error
    return wrong


def _prepared(context: OperatorContext, supplier: BatchProcessorSupplier) -> Callable[[list[Record[Any, Any]]], Any]:
    """Makes a processor for one task, prepares it, and has it closed with the task."""
    node = context.node
    processor = _called(supplier, "made", node)
    if not isinstance(processor, BatchProcessor):
        what = f"the supplier of node {node!r} made {repr_of(processor)}, which is not a BatchProcessor"
        raise ProcessingError(what, node=node)
    check_methods(processor, BATCH_METHODS, f"node {node!r}", node=node)
    inside = context.through(_refuse).processing_context()
    _called(lambda: processor.init(inside), "initialised", node)
    context.on_close(lambda: _called(processor.close, "closed", node))
    return processor.process_batch


def _refuse(*_: Any) -> None:
    raise TopologyError("a BatchProcessor cannot forward by its context: return the records from process_batch")


def _called(call: Callable[[], Any], what: str, node: str) -> Any:
    try:
        return call()
    except StreamsError as error:
        raise error.locate(node=node)  # noqa: B904 - the same error, with its place
    except Exception as error:
        failed = f"the batch processor of node {node!r} could not be {what}: {kind_and_text(error)}"
        raise ProcessingError(failed, node=node) from error
