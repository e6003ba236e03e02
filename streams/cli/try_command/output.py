"""Prints what a topology writes, the way of each record through it, and its tables: a table that grows on a terminal,
JSON lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TextIO
from unicodedata import combining, east_asian_width

from processor_api.forms.json_values import bytes_as_json
from processor_api.forms.times import iso
from processor_api.serde import Serde
from processor_api.stores.contracts import (
    AggregationWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
)
from processor_api.stores.windowed import Windowed
from processor_api.texts import MOST_VALUE, cut, printable
from processor_api.topology.nodes import SinkNode
from processor_api.topology.topology import Topology
from state.formats.keys import MAX_TIME
from state.formats.windowed_serdes import key_of_window_as_json
from state.registry.kinds import kind_of
from state.windowed.key_layout import SESSION, WINDOW, KeyFirst, TimeFirst
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.store_kind import StoreKind
from streams.cli.output.terminal import has_colour, json_text, say
from streams.cli.records.json_lines import headers_as_json, record_line, writable
from streams.cli.state.dump import serdes_of
from streams.cli.try_command.session import Output
from streams.config import StreamsConfig
from streams.runtime.tracing.steps import TraceStep, value_text
from streams.serdes.values import as_text

MOST_CELL = 60
"""Characters of a key in a table, and of a key or a value in a step."""
CallOf = Callable[[str], str | None]
_GAP = "  "
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


class Printer(Protocol):
    """Prints records that were written."""

    def show(self, outputs: Iterable[Output]) -> None: ...

    def title(self, text: str) -> None:
        """Begins another part of the output, such as the rows of a store."""
        ...

    def row(self, entry: dict[str, Any]) -> None:
        """Prints a row of a store, with values of JSON by name."""
        ...


def json_line(output: Output) -> str:
    """Returns a record as a line of JSON, which is also a line of input."""
    return record_line(output.topic, output.key, output.value, output.timestamp_ms, output.headers, output.place)


class JsonLines:
    """Prints a JSON object a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, outputs: Iterable[Output]) -> None:
        """Prints records."""
        for output in outputs:
            say(writable(self._stream, json_line(output)), stream=self._stream)
        self._stream.flush()

    def title(self, text: str) -> None:
        """Prints nothing: each line says where it belongs."""

    def row(self, entry: dict[str, Any]) -> None:
        """Prints a row of a store."""
        say(writable(self._stream, json_text(entry)), stream=self._stream)


class Table:
    """Prints aligned columns, row by row: a column that grows is wider from then on.

    :param topics: names that the first column will have.
    :param styled: whether titles are bold and times dim.
    """

    def __init__(self, stream: TextIO, topics: Sequence[str], *, styled: bool) -> None:
        self._stream = stream
        self._styled = styled
        self._widths = [max(map(_width, ("topic", *topics))), 8, 0]
        self._begun = self._used = False

    def show(self, outputs: Iterable[Output]) -> None:
        """Prints records, below a title before the first one."""
        for output in outputs:
            if not self._begun:
                self._begun = self._used = True
                self._line(["time".ljust(12), "topic", "key", "value"], bold=True)
            topic = output.topic if output.place is None else f"{output.topic}-{output.place[0]}"
            self._line([_clock(output.timestamp_ms), topic, *_pair(output.key, output.value)])
            if output.headers:
                named = ", ".join(f"{as_text(name)}={_header(value)}" for name, value in output.headers)
                self._write(f"{' ' * 12}{_GAP}headers: {named}\n")
        self._stream.flush()

    def title(self, text: str) -> None:
        """Prints a line of its own."""
        self._write("\n" * self._used + (f"{_BOLD}{text}{_PLAIN}" if self._styled else text) + "\n")
        self._used = True
        self._widths[1] = 8

    def row(self, entry: dict[str, Any]) -> None:
        """Prints a row of a store: its key, its value and the other parts."""
        more = [
            f"{name} {printable(str(value))}" for name, value in entry.items() if name not in ("store", "key", "value")
        ]
        key, value = _pair(entry["key"], entry["value"])
        self._write(_GAP + self._padded(key, 1) + _GAP + _GAP.join([value, *more]) + "\n")

    def _line(self, cells: list[str], *, bold: bool = False) -> None:
        time, topic, key, value = cells
        if self._styled and not bold:
            time = f"{_DIM}{time}{_PLAIN}"
        text = _GAP.join((time, self._padded(printable(topic), 0), self._padded(key, 1), value))
        self._write((f"{_BOLD}{text}{_PLAIN}" if bold and self._styled else text).rstrip() + "\n")

    def _write(self, text: str) -> None:
        """Writes a text; characters that the encoding of the stream lacks are escaped."""
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def _padded(self, text: str, column: int) -> str:
        width = _width(text)
        self._widths[column] = max(self._widths[column], width)
        return text + " " * (self._widths[column] - width)


def _pair(key: Any, value: Any) -> tuple[str, str]:
    return cut(as_text(key), MOST_CELL), cut(as_text(value), MOST_VALUE)


def _header(value: bytes | None) -> str:
    """Returns the first line of a header, with dots if there are more: a stack trace would fill the screen."""
    shown = None if value is None else bytes_as_json(value)
    if not isinstance(shown, str) or "\n" not in shown:
        return cut(as_text(shown), MOST_VALUE)
    return cut(as_text(shown.partition("\n")[0]), MOST_VALUE) + " ..."


def _clock(ms: int) -> str:
    """Returns the time of day, which is what differs between records that are looked at."""
    text = iso(ms)
    return text[11:23] if isinstance(text, str) else str(ms)


def _width(text: str) -> int:
    """Returns the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def printer_of(form: str | None, topics: Sequence[str]) -> Printer:
    """Returns the printer to standard output.

    :param form: ``text`` or ``json``; by itself text on a terminal, and JSON lines elsewhere.
    :param topics: the topics that will be written.
    """
    if form == "json" or (form is None and not sys.stdout.isatty()):
        return JsonLines(sys.stdout)
    return Table(sys.stdout, topics, styled=has_colour(sys.stdout))


# ---------------------------------------------------------------------- steps and tables

_STEPS_LEFT_OUT = frozenset(("changelog", "commit", "stop"))
"""Steps that say how the application keeps its state, not where a record goes."""


_INDEX = b"\x01"
"""The byte behind the segment in a row of the index of a store that is ordered by time."""


class RowKeys:
    """Reads the keys of rows of window and session stores, which a step has as they stand in the store."""

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        self._topology = topology
        self._config = config

    def is_of_index(self, step: TraceStep) -> bool:
        """Returns whether a step is about a row of the index of a store that is ordered by time."""
        kind = self._kind(step)
        return kind is not None and kind.time_first and step.key[8:9] == _INDEX

    def text(self, step: TraceStep) -> str:
        """Returns the key of a step as text, with its window."""
        kind = self._kind(step)
        if kind is None or kind.changelog_form not in (ChangelogForm.WINDOWS, ChangelogForm.SESSIONS):
            return step.texts.key
        keys = SESSION if kind.changelog_form is ChangelogForm.SESSIONS else WINDOW
        layout: Any = TimeFirst(keys) if kind.time_first else KeyFirst(keys)
        try:
            data, time, rest = layout.parts(step.key)
            key = serdes_of(str(step.place), self._topology, self._config)[0].deserialize(data)
        except Exception:  # the serde may be the user's
            return step.texts.key
        span = f"{iso(rest)}/{iso(time)}" if keys is SESSION else f"{iso(time)}"
        return f"{value_text(key)} @ {span}".replace(".000Z", "Z")

    def _kind(self, step: TraceStep) -> StoreKind | None:
        """Returns the kind of the store whose row a step is about; ``None`` if it is about none."""
        builder = None if step.place is None else self._topology.stores.get(step.place)
        return kind_of(builder) if builder is not None and isinstance(step.key, bytes) else None


def show_steps(stream: TextIO, steps: Sequence[TraceStep], keys: RowKeys, call_of: CallOf) -> None:
    """Prints steps as aligned lines, below the name of their record.

    :param call_of: returns the call of the user's script that made a node.
    """
    shown = [step for step in steps if step.step not in _STEPS_LEFT_OUT and not keys.is_of_index(step)]
    lines = [[step.step, step.node or "", _where(step, call_of), _what(step, keys)] for step in shown]
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(3)]
    record = None
    for step, (*front, what) in zip(shown, lines, strict=True):
        if step.record != record:
            record = step.record
            say(str(record), stream=stream)
        columns = "  ".join(cell.ljust(width) for cell, width in zip(front, widths, strict=True))
        say(f"  {columns}  {what}".rstrip(), stream=stream)
    stream.flush()


def _where(step: TraceStep, call_of: CallOf) -> str:
    """Returns the store or the topic that the node uses, otherwise the call that made the node."""
    if step.step != "read" and step.place:
        return f"> {step.place}"
    call = None if step.node is None else call_of(step.node)
    return "" if call is None else cut(call, MOST_CELL)


def _what(step: TraceStep, keys: RowKeys) -> str:
    key, value, old = (cut(text, MOST_CELL) for text in (keys.text(step), step.texts.value, step.texts.old))
    found = f"{key}: {value}" if key and value else key or value
    if old and old != "None":
        found += f" (was {old})"
    notes = [step.note] if step.step in ("drop", "fail") else []
    return " ".join([found, *notes]).strip()


def show_tables(printer: Printer, stores: Mapping[str, Any], topology: Topology, config: StreamsConfig) -> None:
    """Prints the rows of each store."""
    for name, store in stores.items():
        if hasattr(store, "num_records"):  # the buffer of an operator, which only counts
            printer.title(f"{name}: {store.num_records()} wait")
            continue
        rows = list(_rows(store))
        count = "empty" if not rows else "1 row" if len(rows) == 1 else f"{len(rows)} rows"
        printer.title(f"{name}: {count}")
        if rows:
            key_serde, value_serde = serdes_of(name, topology, config)
        for key, value in rows:
            printer.row({"store": name, "key": _key(key, key_serde), **_columns(value, value_serde.to_json)})


def chosen_serdes(topology: Topology) -> Iterator[str]:
    """Yields the serdes that follow results of functions, with the reason, and the topics and stores that have them."""
    found: dict[str, list[str]] = {}
    for name, node in topology.nodes.items():
        written = [node.topic] if isinstance(node, SinkNode) and node.topic is not None else topology.stores_of(name)
        for reason in topology.followed_serdes(name) if written else ():
            found.setdefault(reason, []).extend(written)
    for reason, places in found.items():
        yield f"{', '.join(dict.fromkeys(places))}: {reason}"


def _key(key: Any, serde: Serde[Any]) -> Any:
    if not isinstance(key, Windowed):
        return serde.to_json(key)
    start, end = key.window
    return {"key": key_of_window_as_json(serde, key), "start": iso(start), "end": iso(end)}


def _rows(store: Any) -> Iterator[tuple[Any, Any]]:
    """Yields keys and values; of a store of the user's own that cannot be listed nothing."""
    if hasattr(store, "range_versions"):
        opened = store.range_versions()
    elif hasattr(store, "find_sessions_by_end"):
        opened = store.find_sessions_by_end(0, MAX_TIME)
    elif hasattr(store, "all"):
        opened = store.all()
    else:
        return
    with opened as rows:
        yield from rows


def _columns(value: Any, shown: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns the value of a row and what the kind of store keeps with it, as JSON has it."""
    if isinstance(value, ValueAndTimestamp):
        return {"value": shown(value.value), "timestamp": iso(value.timestamp)}
    if isinstance(value, ValueTimestampHeaders):
        columns = {"value": shown(value.value), "timestamp": iso(value.timestamp)}
        return columns | ({"headers": headers_as_json(value.headers)} if value.headers else {})
    if isinstance(value, AggregationWithHeaders):
        columns = {"value": shown(value.aggregation)}
        return columns | ({"headers": headers_as_json(value.headers)} if value.headers else {})
    if isinstance(value, VersionedRecord):
        until = None if value.valid_to is None else iso(value.valid_to)
        return {"value": shown(value.value), "timestamp": iso(value.timestamp), "valid_to": until}
    return {"value": shown(value)}


def show_columns(stream: TextIO, rows: Sequence[Sequence[str]]) -> None:
    """Prints rows of cells as aligned columns."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        say(_GAP.join(cells).rstrip(), stream=stream)
    stream.flush()
