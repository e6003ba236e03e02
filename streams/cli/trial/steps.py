"""Prints the way of each record through the topology, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from processor_api.texts import cut
from processor_api.topology.topology import Topology
from state.windowed.key_layout import SESSION, WINDOW, KeyFirst, TimeFirst
from streams.cli.output.terminal import say
from streams.cli.records.times import iso
from streams.config import StreamsConfig
from streams.runtime.processing.environment import resolve_serde
from streams.runtime.tracing.steps import TraceStep, value_text

MOST_CELL = 60
"""Characters of a key or a value."""
_LEFT_OUT = frozenset(("changelog", "commit", "stop"))
"""Steps that say how the application keeps its state, not where a record goes."""


_INDEX = b"\x01"
"""The byte behind the segment in a row of the index of a store that is ordered by time."""


class RowKeys:
    """Reads the keys of rows of window and session stores, which a step has as they stand in the store."""

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        self._builders = topology.stores
        self._default = config.default_key_serde

    def is_of_index(self, step: TraceStep) -> bool:
        """Returns whether a step is about a row of the index of a store that is ordered by time."""
        return "time-ordered-" in self._kind(step) and step.key[8:9] == _INDEX

    def text(self, step: TraceStep) -> str:
        """Returns the key of a step as text, with its window."""
        kind = self._kind(step)
        if not kind.endswith(("window", "session")):
            return step.texts.key
        keys = SESSION if kind.endswith("session") else WINDOW
        layout: Any = TimeFirst(keys) if kind.startswith("time-ordered-") else KeyFirst(keys)
        builder = self._builders[str(step.place)]
        try:
            data, time, rest = layout.parts(step.key)
            key = resolve_serde(builder.key_serde, self._default, str(step.place), "key").deserialize(data)
        except Exception:  # the serde may be the user's
            return step.texts.key
        span = f"{iso(rest)}/{iso(time)}" if keys is SESSION else f"{iso(time)}"
        return f"{value_text(key)} @ {span}".replace(".000Z", "Z")

    def _kind(self, step: TraceStep) -> str:
        """Returns the kind of the store whose row a step is about; empty if it is about none."""
        builder = None if step.place is None else self._builders.get(step.place)
        return builder.kind if builder is not None and isinstance(step.key, bytes) else ""


def show_steps(stream: TextIO, steps: Sequence[TraceStep], keys: RowKeys) -> None:
    """Prints steps as aligned lines, below the name of their record."""
    shown = [step for step in steps if step.step not in _LEFT_OUT and not keys.is_of_index(step)]
    lines = [[step.step, _where(step), _what(step, keys)] for step in shown]
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(2)]
    record = None
    for step, line in zip(shown, lines, strict=True):
        if step.record != record:
            record = step.record
            say(str(record), stream=stream)
        front = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False))
        say(f"  {front}  {line[2]}".rstrip(), stream=stream)
    stream.flush()


def _where(step: TraceStep) -> str:
    """Returns the node, and the store or the topic that it uses."""
    if step.step == "read" or not step.place:
        return step.node or ""
    return f"{step.node or ''} > {step.place}"


def _what(step: TraceStep, keys: RowKeys) -> str:
    key, value, old = (cut(text, MOST_CELL) for text in (keys.text(step), step.texts.value, step.texts.old))
    found = f"{key}: {value}" if key and value else key or value
    if old and old != "None":
        found += f" (was {old})"
    notes = [step.note] if step.step in ("drop", "fail") else []
    return " ".join([found, *notes]).strip()
