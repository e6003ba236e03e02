"""The place of snapshots of tests, and the workers that use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores, counting
from streams.app.kafka_streams import KafkaStreams
from streams.snapshots.manifest import TaskSnapshot
from waiting import wait_until

__all__ = ["CHANGELOG", "REFUSED", "TAKEN", "WRITTEN", "Place", "Workers", "topology"]

CHANGELOG = "app-counts-changelog"
TAKEN = "snapshot of the task taken"
WRITTEN = "snapshot of a task written"
REFUSED = "a snapshot is not taken"


def topology(store: Any = None) -> Topology:
    return counting(store=store or Stores.persistent_key_value_store("counts"))


class Workers:
    """Workers that use a place of snapshots, one after the other."""

    def __init__(self, cluster: Cluster, root: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.cluster = cluster
        self.root = root
        self.folder = root / "app" / "tasks" / "0_0"
        self._caplog = caplog

    def said(self, text: str) -> list[str]:
        return [m for one in self._caplog.records if (m := one.getMessage()).startswith(text)]

    def process(self, *values: str) -> None:
        """Sends values, and waits until they are committed."""
        before = len(self.cluster.values())
        self.cluster.send(*values)
        wait_until("they are processed", lambda: len(self.cluster.values()) >= before + len(values))
        end = self.cluster.broker.topics["in"].partitions[0].end_offset
        wait_until("they are committed", lambda: self.cluster.committed() == end)

    def answers(self, start: Callable[[Restores], KafkaStreams], *values: str) -> tuple[list[str], int]:
        """Runs a worker without state; returns what it answers, and how many records it replayed."""
        self._caplog.clear()
        restores = Restores()
        app = start(restores)
        before = len(self.cluster.values())
        self.cluster.send(*values)
        wait_until("they are answered", lambda: len(self.cluster.values()) >= before + len(values))
        answers = self.cluster.values()[before:]
        assert app.close(30)
        return answers, sum(count for _, _, count in restores.ended)


class Place(Workers):
    """The place of snapshots of a store on disk, and the workers that use it."""

    def __init__(self, cluster: Cluster, root: Path, caplog: pytest.LogCaptureFixture, guarantee: str) -> None:
        super().__init__(cluster, root, caplog)
        self.guarantee = guarantee

    def manifests(self) -> list[Path]:
        return sorted(self.folder.glob("*.json"))

    def files(self) -> set[str]:
        return {path.name for path in (self.folder / "files").glob("*")}

    def worker(
        self, *, interval_ms: int | None = 20, restores: Restores | None = None, **settings: Any
    ) -> KafkaStreams:
        given: dict[str, Any] = {
            "state_snapshot_dir": str(self.root),
            "processing_guarantee": self.guarantee,
            **settings,
        }
        if interval_ms is not None:
            given["state_snapshot_interval_ms"] = interval_ms
        return self.cluster.start(given.pop("built", None) or topology(), restores, **given)

    def newest(self) -> TaskSnapshot:
        return TaskSnapshot.parse(self.manifests()[-1].read_bytes())

    def holds(self, offset: int) -> bool:
        """Whether a snapshot has the changelog up to an offset."""
        try:
            found = [TaskSnapshot.parse(path.read_bytes()) for path in self.manifests()]
        except FileNotFoundError:  # the worker has deleted one meanwhile
            return False
        return any(one.stores["counts"].offset == offset for one in found)

    def write(self, *values: str, **settings: Any) -> None:
        """Runs a worker that processes values, until a snapshot has all of them."""
        app = self.worker(**settings)
        self.process(*values)
        wait_until("a snapshot has them", self._complete)
        assert app.close(30)

    def logged(self) -> int:
        """Returns how many records the changelog has: one for each key and commit."""
        return len(self.cluster.broker.records(CHANGELOG))

    def _complete(self) -> bool:
        logged = self.cluster.broker.records(CHANGELOG)
        return bool(logged) and self.holds(logged[-1].offset())

    def begin(self, *values: str, **settings: Any) -> tuple[list[str], int]:
        """Runs a worker without state; returns what it answers, and how many records it replayed."""
        return self.answers(lambda restores: self.worker(interval_ms=None, restores=restores, **settings), *values)
