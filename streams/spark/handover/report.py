"""Reports of a handover: what was written, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from processor_api.task_id import TopicPartition


@dataclass(frozen=True)
class StoreHandover:
    """Holds what was handed over of one store."""

    store: str
    changelog: str
    partitions: int
    rows: int
    """Rows that the changelog holds."""
    expired: int = 0
    """Rows that were left out, because a live store would no longer show them."""
    written: int = 0
    """Rows that this call wrote; fewer than all where an earlier call had written them."""
    snapshots: int = 0
    """Partitions of which a snapshot was written."""


@dataclass(frozen=True)
class HandoverReport:
    """Holds the result of a bootstrap, or of a check of one.

    A live worker starts if there are no `problems`.
    """

    application_id: str
    run_id: str | None
    """The backfill that was handed over, or whose handover is not complete; ``None`` if none is known."""
    complete: bool
    """Whether changelogs and offsets belong together."""
    stores: tuple[StoreHandover, ...] = ()
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where live workers begin."""
    published: Mapping[str, int] = field(default_factory=dict)
    """The records written to each output topic."""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def rows(self) -> int:
        """The number of rows in all changelogs."""
        return sum(store.rows for store in self.stores)

    @property
    def expired(self) -> int:
        """The number of rows that were left out because they have expired."""
        return sum(store.expired for store in self.stores)

    def __str__(self) -> str:
        what = "would be handed over" if self.dry_run else "is complete" if self.complete else "is NOT complete"
        run = f" of backfill {self.run_id}" if self.run_id else ""
        lines = [f"handover{run} to application {self.application_id!r} {what}"]
        for one in self.stores:
            left = f", {one.expired:,} expired ones left out" if one.expired else ""
            taken = f", {one.snapshots} snapshots" if one.snapshots else ""
            lines.append(
                f"  store {one.store}: {one.rows:,} rows in {one.partitions} partitions of {one.changelog}{left}{taken}"
            )
        lines += [f"  topic {topic}: {count:,} records published" for topic, count in sorted(self.published.items())]
        by_topic: dict[str, list[str]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            by_topic.setdefault(topic, []).append(f"{partition}:{offset}")
        lines += [f"  offsets of {topic}: {' '.join(found)}" for topic, found in by_topic.items()]
        lines += [f"  note: {one}" for one in self.notes]
        lines += [f"  PROBLEM: {one}" for one in self.problems]
        return "\n".join(lines)
