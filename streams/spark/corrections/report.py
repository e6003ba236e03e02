"""The report of corrections: what is to be written to a topic, or was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CorrectionsReport:
    """The records that correct a topic, as :meth:`BackfillResult.publish_corrections` returns it."""

    store: str
    topic: str
    records: int
    """The number of all records, tombstones among them."""
    tombstones: int
    """The number of records with a null value: keys that only the live table has."""
    partitions: Mapping[int, int] = field(default_factory=dict)
    """The number of records by partition of the topic."""
    first: tuple[str, ...] = ()
    """The first few records, as their serdes show them."""
    written: int = 0
    """The number of records that this call wrote; less than all if an earlier call had written some."""
    complete: bool = False
    """Whether all records are in the topic. False after a dry run, unless an earlier call has written all."""
    dry_run: bool = False

    def __str__(self) -> str:
        places = ", ".join(f"partition {number}: {count:,}" for number, count in sorted(self.partitions.items()))
        lines = [
            f"corrections of {self.store!r} for topic {self.topic!r}: {self.records:,} records, {self.tombstones:,} of"
            f" them tombstones{f' ({places})' if places else ''}",
            *(f"  {one}" for one in self.first),
        ]
        if len(self.first) < self.records:
            lines.append(f"  ... and {self.records - len(self.first):,} more")
        return "\n".join([*lines, self._outcome])

    @property
    def _outcome(self) -> str:
        if not self.records:
            return "nothing differs, so nothing is written"
        if self.complete and not self.written:
            return "all of them were published by an earlier call: nothing is written"
        if self.dry_run:
            return "dry run: nothing was written; dry_run=False writes the records"
        before = self.records - self.written
        return f"{self.written:,} records written{f', {before:,} by an earlier call' if before else ''}"
