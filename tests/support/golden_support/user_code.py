"""User code of the recordings that more than one topology needs, or that a setting names."""

from __future__ import annotations

from typing import Any

from golden_support.calls import call
from processor_api.handlers import ErrorHandlerContext, ProducerRecord, Response, SerializationExceptionOrigin
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.timestamps import ConsumedRecord

__all__ = [
    "StringProcessor",
    "StringRecord",
    "Twice",
    "continue_production",
    "own_dead_letter",
    "telling",
    "value_time",
]

StringProcessor = Processor[str | None, str | None, str | None, str | None]
StringRecord = Record[str | None, str | None]


class Twice(StringProcessor):
    """Changes the headers in place, forwards a later record and then this one, and tells what the context knows."""

    def process(self, record: StringRecord) -> None:
        record.headers.add("seen", b"1")
        self.context.forward(record.with_timestamp(record.timestamp + 7).with_value("later"))
        self.context.forward(record)
        found = self.context.record_metadata
        metadata = "none" if found is None else f"{found.topic}/{found.partition}/{found.offset}"
        stream, system = self.context.current_stream_time_ms(), self.context.current_system_time_ms()
        call(f"stream={stream} system={system} {metadata}")


def value_time(record: ConsumedRecord, partition_time: int) -> int:
    """The value is the time; a null value has none."""
    call(f"extract {'null' if record.value is None else record.value} partitionTime={partition_time}")
    return -1 if record.value is None else record.value


def telling(context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception) -> Response:
    """A processing handler that tells what it is given, and continues."""
    c = context
    raw = "/".join("null" if data is None else data.hex() for data in (c.source_raw_key, c.source_raw_value))
    call(
        f"{c.processor_node_id} {c.task_id} {_text(c.topic)}/{c.partition}/{c.offset}@{c.timestamp}"
        f" record={_record_text(record)} {type(error).__name__}: {error} raw={raw}"
    )
    return Response.resume()


def own_dead_letter(context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception) -> Response:
    """A processing handler that continues, with a dead letter of its own."""
    value = _text(None if record is None else record.value)
    return Response.resume([ProducerRecord("own-dlq", b"k", value.encode(), context.timestamp)])


def continue_production(
    context: ErrorHandlerContext, record: ProducerRecord, error: Exception, origin: SerializationExceptionOrigin | None
) -> Response:
    """A production handler that tells of what cannot be written, and continues."""
    if origin is not None:
        call(
            f"{context.processor_node_id} {record.topic} {_text(record.key)}={_text(record.value)} {origin.value}"
            f" {type(error).__name__}"
        )
    return Response.resume()


def _record_text(record: Record[Any, Any] | None) -> str:
    if record is None:
        return "null"
    value = record.value
    shown = f"({_text(value[0])}<-{_text(value[1])})" if isinstance(value, tuple) else _text(value)
    return f"{_text(record.key)}={shown}@{record.timestamp}"


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
