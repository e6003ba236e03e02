"""Files of records: lines of text or JSON, CSV, and Parquet."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from processor_api.forms.json_values import as_json
from processor_api.texts import shown
from streams.cli.output.causes import CannotRun
from streams.cli.records.input_lines import Item, LineReader, TypedRowReader, record_of_row
from streams.cli.records.json_lines import BadRecord, GivenRecord

_JSON_LINES = (".jsonl", ".ndjson", ".json")
_PARQUET_BATCH = 1000
NOW = 1 << 63
"""A time behind all timestamps: records that have none get the wall clock's."""


def items_of_file(path: Path, lines: LineReader, rows: TypedRowReader) -> Iterator[Item]:
    """Yields what a file holds. Its form is known by the end of its name: ``.jsonl``, ``.csv`` or ``.parquet``; any
    other is lines of text.

    :raises CannotRun: at once, if it cannot be opened.
    """
    if not path.exists():
        raise CannotRun(f"file {path} does not exist")
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return _parquet(path, rows)
        source = path.open("rb")
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror or error}") from None
    if suffix == ".csv":
        return _csv(path, source, rows)
    return _lines(path, source, replace(lines, only_json=True, rows=rows) if suffix in _JSON_LINES else lines)


def _lines(path: Path, source: Any, lines: LineReader) -> Iterator[Item]:
    with source:
        yield from lines.items(path.name, source)


def merged(sources: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """Yields the items of several sources as a task takes records of several partitions: next is the source whose next
    record has the smallest timestamp. One without a timestamp counts as that before it in its source, or as later than
    all that have one."""
    heads: list[tuple[int, int, Item, Iterator[Item]]] = []
    for number, source in enumerate(sources):
        iterator = iter(source)
        item = next(iterator, None)
        if item is not None:
            heads.append((_time_of(item, NOW), number, item, iterator))
    while heads:
        place = min(range(len(heads)), key=lambda index: heads[index][:2])
        time, number, item, iterator = heads[place]
        yield item
        following = next(iterator, None)
        if following is None:
            del heads[place]
        else:
            heads[place] = (_time_of(following, time), number, following, iterator)


def _time_of(item: Item, before: int) -> int:
    found = item.timestamp_ms if isinstance(item, GivenRecord) else None
    return before if found is None else found


# ---------------------------------------------------------------------- tables


def _is_of_records(columns: Iterable[str], rows: TypedRowReader) -> bool:
    return "value" in columns and not rows.values


def _csv(path: Path, source: Any, rows: TypedRowReader) -> Iterator[Item]:
    with io.TextIOWrapper(source, encoding="utf-8-sig", newline="") as text:
        table = csv.reader(text, strict=True)
        try:
            columns = next(table, [])
            if len(set(columns)) != len(columns):
                yield BadRecord(f"{path.name}:1", "two columns of the first line have one name")
                return
            of_records = _is_of_records(columns, rows)
            for cells in table:
                if cells:  # otherwise the line is empty
                    place = f"{path.name}:{table.line_num}"
                    yield _csv_record(place, columns, cells, rows, of_records=of_records)
        except (csv.Error, UnicodeDecodeError) as error:
            yield BadRecord(f"{path.name}:{table.line_num + 1}", f"the file cannot be read from here on: {error}")


def _csv_record(place: str, columns: list[str], cells: list[str], rows: TypedRowReader, *, of_records: bool) -> Item:
    if len(cells) != len(columns):
        return BadRecord(place, f"it has {len(cells)} cells instead of {len(columns)}; quote a cell that has a comma")
    fields = dict(zip(columns, cells, strict=True))
    try:
        if not of_records:
            return replace(rows.record(place, {name: cell for name, cell in fields.items() if cell}), key_is_text=True)
        if fields.get("headers"):
            fields["headers"] = json.loads(fields["headers"])
        optional = {name: cell or None for name, cell in fields.items() if name != "value"}
        return replace(record_of_row(place, {**optional, "value": fields["value"]}), is_text=True, key_is_text=True)
    except ValueError as error:
        return BadRecord(place, str(error))


def _parquet(path: Path, rows: TypedRowReader) -> Iterator[Item]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise CannotRun(f"{path} needs pyarrow: pip install 'streams-for-kafka[parquet]'") from None
    try:
        table = parquet.ParquetFile(path)
    except ArrowException as error:
        raise CannotRun(f"{path} is not a Parquet file: {shown(str(error))}") from None
    return _parquet_rows(path, table, rows, ArrowException)


def _parquet_rows(path: Path, table: Any, rows: TypedRowReader, failure: type[Exception]) -> Iterator[Item]:
    of_records, number = _is_of_records(table.schema_arrow.names, rows), 0
    with table:
        try:
            for batch in table.iter_batches(_PARQUET_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield _parquet_record(f"{path.name}:{number}", row, rows, of_records=of_records)
        except (failure, OSError) as error:
            yield BadRecord(f"{path.name}:{number + 1}", f"the rest of the file cannot be read: {shown(str(error))}")


def _parquet_record(place: str, row: Mapping[str, Any], rows: TypedRowReader, *, of_records: bool) -> Item:
    fields = {name: _json_cell(value) for name, value in row.items()}
    try:
        return record_of_row(place, fields) if of_records else rows.record(place, fields)
    except ValueError as error:
        return BadRecord(place, str(error))


def _json_cell(value: Any) -> Any:
    """Returns a cell as a value of JSON."""
    if isinstance(value, dict):
        return {name: _json_cell(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_json_cell(each) for each in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, float):
        return value  # also one that JSON does not have: the serde says what it is
    return str(value) if isinstance(value, Decimal) else as_json(value)
