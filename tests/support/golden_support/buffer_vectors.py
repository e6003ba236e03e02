"""Recorded rows of the time-ordered buffers, for the table of formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state.formats.buffer_value import (
    BufferContext,
    BufferValue,
    read_any_version,
    read_buffer_value,
    read_context,
    resident_size,
    write_buffer_value,
    write_context,
)

__all__ = ["buffer_context", "buffer_value", "buffer_value_read"]

Input = Mapping[str, Any]
Fields = dict[str, Any]


def _context(given: Mapping[str, Any]) -> BufferContext:
    headers = [(name, None if value is None else bytes.fromhex(value)) for name, value in given["headers"]]
    return BufferContext(given["timestamp"], given["offset"], given["topic"], given["partition"], headers)


def _utf8(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def buffer_context(given: Input) -> Fields:
    context = _context(given)
    written = write_context(*context)
    assert read_context(written) == (context, len(written))
    return {"hex": written.hex()}


def buffer_value(given: Input) -> Fields:
    prior, old, new = (_utf8(given[name]) for name in ("prior", "old", "new"))
    context = _context(given["context"])
    row = write_buffer_value(write_context(*context), prior, old, new, given["buffer_time"])
    value = BufferValue(context, prior, old, new, given["buffer_time"])
    assert read_buffer_value(row) == value
    return {"hex": row.hex(), "resident_size": resident_size(value)}


def buffer_value_read(given: Input) -> Fields:
    record, previous = given["record"], given["previous"]
    version = bytes([given["version"]]) if given["version"] else None
    stands_in = BufferContext(record["timestamp"], record["offset"], record["topic"], record["partition"], [])
    value = read_any_version(
        version, bytes.fromhex(given["hex"]), stands_in, _utf8(previous), is_buffered=previous is not None
    )
    context = {**value.context._asdict(), "headers": [[name, _hex(v)] for name, v in value.context.headers]}
    parts = {f"{name}_hex": _hex(v) for name, v in zip(("prior", "old", "new"), value[1:4], strict=True)}
    return {"output": {"buffer_time": value.time, "key_hex": given["key"].encode().hex(), **parts, "context": context}}
