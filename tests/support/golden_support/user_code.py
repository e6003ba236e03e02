"""User code of the recordings that more than one topology needs, or that a setting names."""

from __future__ import annotations

from golden_support.calls import call
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.timestamps import ConsumedRecord

__all__ = ["StringProcessor", "StringRecord", "Twice", "value_time"]

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
