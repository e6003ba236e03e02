"""The table of the records that a test driver follows."""

from __future__ import annotations

from collections.abc import Iterator

from processor_api.clock import Clock, SystemClock
from processor_api.texts import cut
from streams.runtime.tracing.rules import TraceRules
from streams.runtime.tracing.steps import TraceStep
from streams.runtime.tracing.tracer import Tracer

MOST_CELL = 60
"""Characters of one cell of the table."""
TITLES = ("record", "us", "step", "node", "place", "key", "value", "old", "note")


class RecordTrace:
    """The steps of the records that a :class:`TopologyTestDriver` follows, in order. Prints as a table.

    Made by :meth:`TopologyTestDriver.trace`; it grows while the driver is used.
    """

    def __init__(self, rules: TraceRules, clock: Clock) -> None:
        self.rows: list[TraceStep] = []
        self.tracer = Tracer(rules, clock, self.rows.append, SystemClock().monotonic)

    @property
    def records(self) -> list[str]:
        """Returns the ids of the records that were followed, in order of their first steps."""
        return list(dict.fromkeys(row.record for row in self.rows))

    def of(self, record: str) -> list[TraceStep]:
        """Returns the steps of one record.

        :param record: its id, ``topic-partition@offset``.
        """
        return [row for row in self.rows if row.record == record]

    def clear(self) -> None:
        """Forgets the steps until now."""
        self.rows.clear()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TraceStep]:
        return iter(self.rows)

    def __bool__(self) -> bool:
        """Returns ``True``: a trace is something also when it is empty."""
        return True

    def __repr__(self) -> str:
        return f"RecordTrace({len(self.rows)} steps of {len(self.records)} records)"

    def __str__(self) -> str:
        if not self.rows:
            return "no record was followed"
        table = [TITLES]
        last = None
        for row in self.rows:
            cells = _cells(row)
            table.append(("", *cells[1:]) if row.record == last else cells)
            last = row.record
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table
        )


def _cells(row: TraceStep) -> tuple[str, str, str, str, str, str, str, str, str]:
    texts = row.texts
    key, value, old = (cut(text, MOST_CELL) for text in (texts.key, texts.value, texts.old))
    return row.record, str(row.us), row.step, row.node or "", row.place or "", key, value, old, row.note
